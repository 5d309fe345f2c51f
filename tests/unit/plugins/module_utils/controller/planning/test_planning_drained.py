# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the plan for drained sites and entries."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Demand, Lease, Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_summary import cycle_summary, status_table
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    history,
    planned_site,
    queue,
    raw_entry,
    site,
    supplied,
    supply,
)
from ansible_collections.glidein.ops.tests.unit.support.plan_options import options
from hypothesis import given
from hypothesis import strategies as st

TEXT = "drained by ada since 2026-11-20 21:46:40 UTC: disks"
BOTH = {"main": raw_entry(), "other": raw_entry()}


def drain(entry=None):
    return {"entry": entry, "since": 1795211200, "by": "ada", "reason": "disks"}


def drained(have, drains, entries=None, name="lab"):
    """Return a site with these glideins, {(entry, shape): counts}, and drains."""
    return planned_site(site(entries or BOTH, name=name), dict(queue(have, name=name), drains=drains))


def planned(jobs, sites, told=None):
    result = make_plan(demand(group(count=jobs)), told or supply(), sites, NOW, 900)
    return result, {(item.site, item.entry): item for item in result["plan"]}


def test_queued_glideins_are_withdrawn_and_running_ones_stay():
    have = {("main", "core"): {"queued": 3, "running": 2}}
    result, items = planned(9, [drained(have, [drain()])])
    main = items[("lab", "main")]
    assert (main.present, main.counted, main.running) == (2, 3, 2)
    assert main.reason.endswith(f"; 2 running (2 starting), 3 queued, 3 of them to cancel; {TEXT}")
    assert items[("lab", "other")].reason == f"it serves no idle job; 0 running, 0 queued; {TEXT}"
    assert items[("lab", "other")].present == 0
    assert sum(one["count"] for one in result["unserved"]) == 7  # running glideins serve two
    assert "lab/main gets no new glidein while it is drained" in result["unserved"][0]["reason"]


def test_the_jobs_go_to_other_entries_and_sites():
    items = planned(4, [drained({}, [drain("main")])])[1]
    assert (items[("lab", "main")].present, items[("lab", "other")].present) == (0, 4)
    assert TEXT not in items[("lab", "other")].reason
    items = planned(4, [drained({}, [drain()]), drained({}, [], name="away")])[1]
    assert sum(items[("away", entry)].present for entry in BOTH) == 4


def test_the_guard_keeps_no_glidein_there():
    have = {("main", "core"): {"queued": 5, "oldest_queued_s": 10, "queued_since": [[NOW - 15, 5]]}}
    told = supply(supplied(history=history([{"age_s": 60, "wanted": 5, "running": 0, "launched": 5}])))
    assert planned(0, [drained(have, [])], told)[1][("lab", "main")].present == 5
    assert planned(0, [drained(have, [drain()])], told)[1][("lab", "main")].present == 0
    # The same holds if the guard doubts the demand.
    told = dict(told, demand_history=[[NOW - 300, 5000], [NOW - 600, 5000]])
    assert planned(0, [drained(have, [drain()])], told)[1][("lab", "main")].present == 0


def test_a_queue_that_a_drain_has_emptied_is_no_reason_to_doubt_it():
    told = supply(supplied(history=history([{"age_s": 60, "queued": 20, "running": 0}])))
    assert "nothing is ordered" in planned(4, [drained({}, [])], told)[0]["notes"][0]
    result, items = planned(4, [drained({}, [drain("main")])], told)
    assert (result["notes"], items[("lab", "other")].present) == ([], 4)


def test_a_plan_that_must_change_nothing_leaves_a_drained_site_as_it_is():
    sites = [drained({("main", "core"): {"queued": 3}}, [drain()])]
    result = make_plan(demand(group(count=9), as_of=NOW - 9999), supply(), sites, NOW, 900)
    assert {item.entry: item.present for item in result["plan"]} == {"main": 3, "other": 0}


def test_invalid_drains_leave_the_site_as_it_is():
    for wrong in ("main", [{"entry": 7}], [dict(drain(), since="today")]):
        item = planned(4, [drained({}, wrong)])[1][("lab", "main")]
        assert item.present is None and "queue.drains" in item.reason


def test_cycle_and_status_show_the_drains():
    result = planned(4, [drained({}, [drain(), drain("main")])])[0]
    definition = {"site": "lab", "error": None, "entries": BOTH, "queue": {"drains": [drain(), drain("main")]}}
    shown = ["DRAINED", f"  lab: {TEXT}", f"  lab/main: {TEXT}"]
    answer, plan = Demand(demand(group(count=4)), supply()), Plan(result["plan"])
    for lines in (
        cycle_summary({"login": definition}, {"login": {}}, answer, plan, Lease(), [], False)["lines"],
        status_table(plan, answer, {"login": definition}),
    ):
        begin = lines.index("DRAINED")
        assert lines[begin : begin + 3] == shown
        assert "DRAINED" not in status_table(plan, answer, {"login": dict(definition, queue=None)})


few = st.integers(0, 6)
counts = st.fixed_dictionaries({"queued": few, "running": few, "completing": few, "sick": few})
plans = st.lists(
    st.fixed_dictionaries({"age_s": st.integers(1, 4000), "wanted": few, "queued": few, "running": few}), max_size=3
)


@given(
    st.integers(0, 60),
    st.fixed_dictionaries({(entry, "core"): counts for entry in BOTH}),
    st.sampled_from([[], [None], ["main"], ["other"], ["main", "other"], [None, "main"]]),
    st.lists(plans, min_size=2, max_size=2),
    few,
    st.booleans(),
    st.booleans(),
)
def test_a_drained_entry_gets_no_glidein_and_keeps_all_that_run(
    jobs, have, entries, earlier, registered, silent, guarded
):
    told = supply(
        *(
            supplied(entry, registered=registered, history=history(sorted(one, key=lambda plan: -plan["age_s"])))
            for entry, one in zip(BOTH, earlier)
        )
    )
    failed = [{"name": "s", "error": "timeout"}] if silent else []
    asked = demand(group(count=jobs), schedds={"answered": ["cm"], "failed": failed})
    sites = [drained(have, [drain(entry) for entry in entries])]
    plan = make_plan(asked, told, sites, NOW, 900, options=options(guard={"enabled": guarded}))
    for item in plan["plan"]:
        there = have[(item.entry, "core")]
        assert item.present >= there["running"]
        if None in entries or item.entry in entries:
            assert item.present == there["running"]
            assert item.waits == {}
            assert TEXT in item.reason
