# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a session beyond its socket: since when it is there or gone, and whether that was told.

A small JSON file beside the socket; when it is lost, the times begin anew.
"""

import json

from ansible_collections.glidein.ops.plugins.module_utils.atomic_files import write_atomically

_FIELDS = {"opened": int, "seen": int, "lost": int, "told": bool, "tried": int, "refused": int}

# Cycles come every few minutes, and each waits for the one who is told.
TELL_AGAIN_S = 600


def path_of(control_path):
    return control_path + ".json"


def read(control_path):
    """Return {"opened", "seen", "lost", "tried", "refused": epoch seconds or None, "told": bool}."""
    try:
        with open(path_of(control_path), encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError):
        found = {}
    found = found if isinstance(found, dict) else {}
    kept = {name: found.get(name) if _is(found.get(name), kind) else None for name, kind in _FIELDS.items()}
    return dict(kept, told=bool(kept["told"]))


def _is(value, kind):
    """Whether a value is of this kind; true and false are no numbers here."""
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)


def write(control_path, record):
    """Replace the record at once; only its owner can read it."""
    write_atomically(path_of(control_path), json.dumps(record))


def opened(record, now):
    """Return the record of a session that was just opened."""
    return dict(record, opened=now, seen=now, lost=None, told=False, tried=None, refused=None)


def closed(record, now):
    """Return the record of a session that was closed on purpose: nobody needs to be told."""
    return dict(record, lost=record["lost"] or now, told=True)


def checked(record, live, now):
    """Return the record after a look at the session."""
    if live:
        return dict(record, opened=record["opened"] or now, seen=now, lost=None, told=False, tried=None)
    return dict(record, lost=record["lost"] or now)


def is_to_tell(record, now):
    """Whether somebody is to be told that the session is lost: once, and again some time after that has failed."""
    return not record["told"] and (record["tried"] is None or not 0 <= now - record["tried"] < TELL_AGAIN_S)


def told(record, lost):
    """Return the record after somebody was told of this loss, unless a login has ended it meanwhile."""
    return dict(record, told=True) if record["lost"] == lost else record


def refused(record, now):
    """Return the record after stored answers did not lead to a session."""
    return dict(record, refused=now, lost=record["lost"] or now)
