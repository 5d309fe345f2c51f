# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How an operator wants the plan to decide, checked and completed. They hold for the whole deployment."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limit import LIMIT_KEYS
from ansible_collections.glidein.ops.plugins.module_utils.entries import integer
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

ALLOCATIONS = ("priority", "spread")
ORDER_KEYS = ("cpus", "memory", "disk", "gpus", "count", "runtime")
DEFAULT_ORDER = ("gpus", "memory", "cpus", "disk")

# ramp_first: unproven glideins (queued or starting) that an entry without any record may have; ramp_factor: how many
# more for each that registered. probe_failures: so many failed glideins, and more than good ones, leave one probe.
# cancel_delay_s: how long queued glideins serve no job before they go. jump_factor, jump_least: idle jobs that are more
# than so many times what they were (fewer than jump_least count as this many) are not believed at once.
# hold_readings, reading_s: for how many readings, and how far these are apart. overdue_s: how long queued glideins are
# counted on; 0: for ever.
GUARD = {
    "ramp_first": 25,
    "ramp_factor": 4,
    "probe_failures": 3,
    "cancel_delay_s": 600,
    "jump_factor": 100,
    "jump_least": 100,
    "hold_readings": 2,
    "reading_s": 300,
    "overdue_s": 600,
}
_LEAST = {"ramp_first": 1, "probe_failures": 1, "jump_factor": 2, "jump_least": 1, "reading_s": 1}


def plan_options(raw=None):
    """Return {"allocation", "order", "limits", "guard": mapping or None} of what was written. Raises InputError."""
    raw = raw or {}
    problems = [f"{key}: no such option" for key in sorted(set(raw) - {"allocation", "order", "limits", "guard"})]
    allocation = raw.get("allocation") or "priority"
    if allocation not in ALLOCATIONS:
        problems.append(f"allocation: {allocation!r} is not accepted; allowed: {' or '.join(ALLOCATIONS)}")
    order = DEFAULT_ORDER if raw.get("order") is None else raw["order"]
    if not isinstance(order, (list, tuple)) or not all(_is_order_key(key) for key in order):
        problems.append(
            f"order: {order!r} is not accepted; allowed: a list of {', '.join(ORDER_KEYS)}, perhaps with - before them"
        )
    limits = _numbers(problems, "limits", raw.get("limits"), LIMIT_KEYS, {})
    guard = raw.get("guard")
    if guard is not False:
        guard = dict(GUARD, **_numbers(problems, "guard", guard, tuple(GUARD), _LEAST))
    if problems:
        raise InputError(problems)
    return {"allocation": allocation, "order": list(order), "limits": limits, "guard": guard or None}


def _is_order_key(key):
    return isinstance(key, str) and (key[1:] if key.startswith("-") else key) in ORDER_KEYS


def _numbers(problems, where, raw, keys, least):
    if raw is None or raw is True:
        return {}
    if not isinstance(raw, dict):
        problems.append(f"{where}: {raw!r} is not accepted; allowed: a mapping with the keys {', '.join(keys)}")
        return {}
    found = {}
    for key, value in raw.items():
        if key not in keys:
            problems.append(f"{where}.{key}: no such key here; the keys are {', '.join(keys)}")
            continue
        if value is None:
            continue
        number = integer(value)
        if number is None or number < least.get(key, 0):
            problems.append(
                f"{where}.{key}: {value!r} is not accepted; allowed: a whole number, {least.get(key, 0)} or more"
            )
        else:
            found[key] = number
    return found
