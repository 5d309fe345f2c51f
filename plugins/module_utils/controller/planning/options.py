# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the plan, which hold for the whole deployment: the keys of mappings, their defaults and ranges."""

from typing import Any, Dict, Optional

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.limits import LIMIT_KEYS
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import BOOLEAN, VARIABLES
from ansible_collections.glidein.ops.plugins.module_utils.validation import Spec, whole_number

# The keys of glidein_guard, see docs/plan.md; _s is for seconds.
GUARD = {
    "ramp_first": 25,
    "cancel_delay_s": 600,
    "overdue_s": 600,
    "hold_readings": 2,
}
_LEAST = {"ramp_first": 1}
LIMITS = "glidein_deployment_limits"


def plan_specs() -> Dict[str, Spec]:
    """Return {variable that is a mapping: the Spec of its keys}."""
    guard: Dict[str, Any] = {"enabled": {"type": BOOLEAN, "default": True}}
    for key, default in GUARD.items():
        guard[_option(key)] = {"type": whole_number(_LEAST.get(key, 0)), "default": default}
    return {LIMITS: Spec({key: {"type": whole_number(0)} for key in LIMIT_KEYS}), "glidein_guard": Spec(guard)}


def options_of(variables: Dict[str, Any]) -> Dict[str, Any]:
    """Return the options of make_plan. variables: of cycle.plan_settings."""
    guard = variables["glidein_guard"]
    return {
        "allocation": variables["glidein_allocation"],
        "order": variables["glidein_order"],
        "limits": variables[LIMITS],
        "guard": {key: guard[_option(key)] for key in GUARD} if guard["enabled"] else False,
    }


def plan_options(raw: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
    """Return {"allocation", "order", "limits", "guard": mapping or None} with defaults.

    raw: of options_of; guard: False switches it off.
    """
    raw = raw or {}
    limits = {key: number for key, number in (raw.get("limits") or {}).items() if number is not None}
    guard = None if raw.get("guard") is False else dict(GUARD, **(raw.get("guard") or {}))
    return {
        "allocation": raw.get("allocation") or VARIABLES["glidein_allocation"].default,
        "order": VARIABLES["glidein_order"].default if raw.get("order") is None else raw["order"],
        "limits": limits,
        "guard": guard,
    }


def _option(key: str) -> str:
    """Return the key of glidein_guard that sets a key of GUARD."""
    return key[:-2] if key.endswith("_s") else key
