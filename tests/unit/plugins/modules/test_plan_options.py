# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the plan module's options: refused ones, and the earlier names that are still accepted."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.options import GUARD, options_of
from ansible_collections.glidein.ops.plugins.modules import plan
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    queue,
    raw_entry,
    run_module,
    supply,
)


def planned(have=None, groups=(), **options):
    reading = dict(queue({("main", "core"): have or {}}))
    one = {"site": "lab", "scheduler": "slurm", "entries": {"main": raw_entry()}, "queue": reading}
    known = {"demand": demand(*groups), "supply": supply(), "now": NOW, "deployment": "glidein", "sites": [one]}
    return run_module(plan.main, dict(known, **options))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"allocation": "fair"}, "value of allocation must be one of: priority, spread, got: fair"),
        ({"order": ["colour"]}, "value of order must be one or more of: cpus, -cpus,"),
        ({"limits": {"nodes": 1}}, "limits.nodes. Supported parameters include: cores, gpus, per_cycle, queued, total"),
        ({"limits": {"total": "many"}}, "'total' is of type"),
        ({"limits": {"total": -1}}, "limits.total: -1 is invalid; expected a whole number of at least 0"),
        ({"guard": {"speed": 1}}, "guard.speed. Supported parameters include: "),
        ({"guard": {"ramp_first": 0}}, "guard.ramp_first: 0 is invalid; expected a whole number of at least 1"),
        ({"guard": {"cancel_delay": -1}}, "guard.cancel_delay: -1 is invalid; expected a whole number of at least 0"),
    ],
)
def test_an_invalid_option_is_refused_with_its_name_its_value_and_the_allowed_values(options, words):
    result = planned(**options)
    assert result["failed"]
    assert words in result["msg"]


def test_without_options_the_plan_has_its_defaults():
    seen = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(plan, "options_of", lambda params: seen.append(options_of(params)) or seen[0])
        planned()
    order = ["gpus", "memory", "cpus", "disk"]
    limits = dict.fromkeys(("queued", "total", "per_cycle", "cores", "gpus"))
    assert seen == [{"allocation": "priority", "order": order, "limits": limits, "guard": GUARD}]


def test_queued_glideins_are_cancelled_after_the_delay():
    young = {"queued": 2, "oldest_queued_s": 60}
    kept = [planned(young, guard={"cancel_delay": seconds})["plan"][0]["present"] for seconds in (0, 30, 120)]
    assert kept == [0, 0, 2]
