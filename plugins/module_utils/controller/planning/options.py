# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the plan, which hold for the whole deployment: argument spec, defaults and ranges."""

from typing import Any, Dict, Optional

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limits import LIMIT_KEYS
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

ALLOCATIONS = ["priority", "spread"]
ORDER_KEYS = ["cpus", "memory", "disk", "gpus", "count", "runtime"]
DEFAULT_ORDER = ["gpus", "memory", "cpus", "disk"]

# The keys of glidein_guard, see docs/plan.md; _s is for seconds.
GUARD = {
    "ramp_first": 25,
    "ramp_factor": 4,
    "probe_failures": 3,
    "cancel_delay_s": 600,
    "overdue_s": 600,
    "jump_factor": 100,
    "jump_least": 100,
    "hold_readings": 2,
    "reading_s": 300,
}
_LEAST = {"ramp_first": 1, "probe_failures": 1, "jump_factor": 2, "jump_least": 1, "reading_s": 1}
LIMITS = "glidein_deployment_limits"


def plan_argument_spec() -> Dict[str, Dict[str, Any]]:
    """Return the argument spec of the variables that options_of reads."""
    guard = {"enabled": {"type": "bool", "default": True}}
    for key, default in GUARD.items():
        guard[_option(key)] = {"type": "int", "default": default}
    order = [sign + key for key in ORDER_KEYS for sign in ("", "-")]
    return {
        "glidein_allocation": {"type": "str", "choices": ALLOCATIONS, "default": "priority"},
        "glidein_order": {"type": "list", "elements": "str", "choices": order, "default": DEFAULT_ORDER},
        LIMITS: {"type": "dict", "default": {}, "options": {key: {"type": "int"} for key in LIMIT_KEYS}},
        "glidein_guard": {"type": "dict", "default": {}, "options": guard},
    }


def options_of(variables: Dict[str, Any]) -> Dict[str, Any]:
    """Return the options of make_plan. variables: checked by plan_argument_spec."""
    guard = variables["glidein_guard"]
    return {
        "allocation": variables["glidein_allocation"],
        "order": variables["glidein_order"],
        "limits": variables[LIMITS],
        "guard": {key: guard[_option(key)] for key in GUARD if _option(key) in guard}
        if guard.get("enabled", True)
        else False,
    }


def plan_options(raw: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Return {"allocation", "order", "limits", "guard": mapping or None} with defaults. Raises InputError.

    raw: of options_of; guard: False switches it off.
    """
    raw = raw or {}
    limits = {key: number for key, number in (raw.get("limits") or {}).items() if number is not None}
    guard = None if raw.get("guard") is False else dict(GUARD, **(raw.get("guard") or {}))
    problems = [_problem(f"{LIMITS}.{key}", number, 0) for key, number in limits.items() if number < 0]
    for key, number in (guard or {}).items():
        if number < _LEAST.get(key, 0):
            problems.append(_problem(f"glidein_guard.{_option(key)}", number, _LEAST.get(key, 0)))
    if problems:
        raise InputError(problems)
    order = DEFAULT_ORDER if raw.get("order") is None else raw["order"]
    return {"allocation": raw.get("allocation") or "priority", "order": order, "limits": limits, "guard": guard}


def _problem(where: str, number: int, least: int) -> str:
    return invalid(where, number, f"a whole number of at least {least}")


def _option(key: str) -> str:
    """Return the key of glidein_guard that sets a key of GUARD."""
    return key[:-2] if key.endswith("_s") else key
