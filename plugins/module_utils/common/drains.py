# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drains: the orders not to submit glideins at a site or entry. Pure functions.

A drain is {"entry": name, or None for the whole site; "since": epoch seconds; "by": user; "reason": text}. The module
site_drain keeps the drains of a site on its login node, and queue_info returns them.
"""

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import LATEST, utc
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid

LONGEST_TEXT = 300


def check_text(where, text):
    """Raise InputError if `text` is not one printable line of at most LONGEST_TEXT characters."""
    if not isinstance(text, str) or len(text) > LONGEST_TEXT or not text.isprintable():
        raise InputError(invalid(where, text, f"one printable line of at most {LONGEST_TEXT} characters"))


def check_drains(where, drains):
    """Return a list of drains. Raises InputError that names the first wrong place."""
    if not isinstance(drains, list):
        raise InputError(invalid(where, drains, "a list"))
    for number, drain in enumerate(drains):
        here = f"{where}[{number}]"
        if not isinstance(drain, dict):
            raise InputError(invalid(here, drain, "a mapping"))
        entry, since = drain.get("entry"), drain.get("since")
        if entry is not None and not (isinstance(entry, str) and is_name(entry)):
            raise InputError(invalid(f"{here}.entry", entry, "the name of an entry, or null for the whole site"))
        if isinstance(since, bool) or not isinstance(since, int) or not 0 <= since <= LATEST:
            raise InputError(invalid(f"{here}.since", since, "epoch seconds"))
        for key in ("by", "reason"):
            check_text(f"{here}.{key}", drain.get(key))
    return drains


def drain_of(drains, entry):
    """Return the drain that applies to an entry, or None. That of the whole site comes first."""
    by_entry = {drain["entry"]: drain for drain in drains}
    return by_entry.get(None) or by_entry.get(entry)


def drain_text(drain):
    """Return a drain as text, such as "drained by alice since 2026-11-22 18:00:00 UTC: maintenance"."""
    by = f" by {drain['by']}" if drain["by"] else ""
    reason = f": {drain['reason']}" if drain["reason"] else ""
    return f"drained{by} since {utc(drain['since'])}{reason}"


def with_drain(drains, drain):
    """Return the drains with a further one, sorted; it replaces a drain of the same entry."""
    others = [one for one in drains if one["entry"] != drain["entry"]]
    return sorted(others + [drain], key=lambda one: one["entry"] or "")


def renewed(drain, by, reason):
    """Return a drain that was ordered again. Only another reason changes it.

    reason: None keeps the reason.
    """
    if reason is None or reason == drain["reason"]:
        return drain
    return dict(drain, by=by, reason=reason)
