# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a session: since when it exists or is lost, and whether a notification of the loss was sent.

It is a small JSON file beside the socket. If the file is lost, the times start again.
"""

import json
from typing import Any, Dict, Optional

from ansible_collections.glidein.ops.plugins.module_utils.atomic_files import write_atomically

# {"opened", "seen", "lost", "tried", "refused": epoch seconds or None, "told": bool}
Record = Dict[str, Any]
_FIELDS = {"opened": int, "seen": int, "lost": int, "told": bool, "tried": int, "refused": int}

# A failed notification is repeated after this time: cycles run every few minutes, and each waits for the hook.
NOTIFY_AGAIN_S = 600


def path_of(control_path: str) -> str:
    return control_path + ".json"


def read(control_path: str) -> Record:
    """Return the Record of a session."""
    try:
        with open(path_of(control_path), encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError):
        found = {}
    found = found if isinstance(found, dict) else {}
    kept = {name: found.get(name) if _is(found.get(name), kind) else None for name, kind in _FIELDS.items()}
    return dict(kept, told=bool(kept["told"]))


def _is(value: Any, kind: type) -> bool:
    """Return whether a value is of this kind. True and False do not count as numbers."""
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)


def write(control_path: str, record: Record) -> None:
    """Replace the record atomically; only its owner can read it."""
    write_atomically(path_of(control_path), json.dumps(record))


def opened(record: Record, now: int) -> Record:
    """Return the record of a session that was just opened."""
    return dict(record, opened=now, seen=now, lost=None, told=False, tried=None, refused=None)


def closed(record: Record, now: int) -> Record:
    """Return the record of a session that was closed on purpose, which needs no notification."""
    return dict(record, lost=record["lost"] or now, told=True)


def checked(record: Record, live: bool, now: int) -> Record:
    """Return the record after a check of the session."""
    if live:
        return dict(record, opened=record["opened"] or now, seen=now, lost=None, told=False, tried=None)
    return dict(record, lost=record["lost"] or now)


def is_notification_due(record: Record, now: int) -> bool:
    """Return whether a notification of the loss is due: once, and again some time after one has failed."""
    return not record["told"] and (record["tried"] is None or not 0 <= now - record["tried"] < NOTIFY_AGAIN_S)


def notified(record: Record, lost: Optional[int]) -> Record:
    """Return the record after a notification of this loss, unless a login has ended the loss meanwhile."""
    return dict(record, told=True) if record["lost"] == lost else record


def refused(record: Record, now: int) -> Record:
    """Return the record after stored answers did not lead to a session."""
    return dict(record, refused=now, lost=record["lost"] or now)
