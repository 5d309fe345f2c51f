# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the explanation of a job, with real plans for its group."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Demand, Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.job_explanation import job_explanation, with_job
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import WIDTH
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    queue,
    raw_entry,
    site,
    supplied,
    supply,
)
from hypothesis import given
from hypothesis import strategies as st

MAIN = ("main", "core")
SKIPPED = {"changed": False, "skipped": True}
# As job_analysis returns it for NO_MATCH of tests/unit/.../pool/test_job_analysis.py.
ANALYSIS = {
    "error": "",
    "conditions": [
        {"slots": 0, "condition": 'TARGET.GLIDEIN_Site == "nowhere"'},
        {"slots": 2, "condition": "TARGET.HasFileTransfer"},
    ],
    "machines": 1,
    "counts": [{"machines": 1, "verdict": "are rejected by your job's requirements"}],
    "last_failure": "no match found",
}
HELD = {"reason": "A held job is not matched", "action": "Release it.", "blocks": True}


def job(state="idle", asked=None, **changes):
    """Return a job as get_job returns it, of group `a`."""
    return dict(
        {
            "job": "1.0",
            "schedd": "cm",
            "schedds": ["cm"],
            "state": state,
            "text": f"{state} for 3 min",
            "user": "alice@pool",
            "queued_at": NOW - 180,
            "since": NOW - 180,
            "in_demand": True,
            "group": group("a") if asked is None else asked,
            "obstacles": [],
            "rejected": None,
        },
        **changes,
    )


def explained(one, *groups, counts=None, analysis=None, sites=None, known=(), left_out=(), **demand_changes):
    """Return (lines as one text, next step). groups: the idle jobs; counts: numbers of the queue of main/core."""
    now, plan = Demand(demand(*groups, **demand_changes), supply(*known)), Plan()
    if one["group"] and one["state"] in ("idle", "held"):
        if sites is None:
            sites = [{"site": site(), "queue": queue({MAIN: counts or {}}), "error": None}]
        made = make_plan(with_job(now.demand, one), now.supply, sites, NOW, 900, one["group"]["id"])
        plan = Plan(made.pop("plan"), **made)
    lines = job_explanation(one, now, plan, SKIPPED if analysis is None else analysis, left_out)
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= 60
    return "\n".join(lines), next_step_of(lines)


def next_step_of(lines):
    return " ".join(" ".join(lines[lines.index("NEXT STEP") + 1 :]).split())


def test_a_job_whose_glidein_is_to_be_submitted_waits_for_the_next_cycle():
    text, step = explained(job(), group("a", 3), analysis=ANALYSIS)
    assert text.startswith("Job cm#1.0 of alice@pool: idle for 3 min; submitted 2026-11-20 21:45:00 UTC.\n")
    assert "It requests 1 core, 1000 MB of memory, 100 MB of disk: group a." in text
    assert "Its group: 3 idle jobs: 3 for glideins on their way." in text
    assert "lab   main   core        0        0     3\n  fits 1 job per glidein" in text
    assert step == "Wait for the next cycle, which submits a glidein to lab/main/core; or run glidein.ops.cycle now."


@pytest.mark.parametrize(
    "state, next_step",
    [
        ("queued", "Wait: glideins are queued at lab/main/core. If they stay queued, look at its batch queue."),
        ("running", "Wait: glideins at lab/main/core are starting."),
    ],
)
def test_a_job_whose_glidein_has_no_slot_yet_waits_for_it(state, next_step):
    assert explained(job(), group("a", 1), counts={state: 1})[1] == next_step


def test_a_job_that_fits_no_shape_gets_the_reason_of_each_entry():
    large = group("a", 1, cpus=64)
    text, step = explained(job(asked=large), large, left_out=["login.vega"])
    assert "Its group: 1 idle job: 1 not served." in text
    assert "  each job requests 64 cpus, but the shape has 1" in text
    assert step.startswith("Change the request of the job, or add a shape or an entry that satisfies it")
    assert step.endswith("reason of each entry. Sites in pull mode were not considered: login.vega.")


def test_a_limit_that_is_reached_is_the_next_step():
    full = [{"site": site({"main": raw_entry(limits={"total": 0})}), "queue": queue({MAIN: {}}), "error": None}]
    text, step = explained(job(), group("a", 1), sites=full)
    assert "lab/main limit total 0 reached" in text
    assert step.startswith("Wait, or remove the cause: no more glideins where these jobs fit: lab/main")


def test_a_held_job_shows_the_entries_after_its_release():
    text, step = explained(job("held", obstacles=[HELD], in_demand=False), analysis=ANALYSIS)
    assert "WHAT NO GLIDEIN CAN CHANGE\n  A held job is not matched. Release it." in text
    assert "ENTRIES, after its release" in text
    assert "lab   main   core        0        0     0\n  fits 1 job per glidein" in text
    assert "Its group" not in text
    assert step == "Release it."


@pytest.mark.parametrize("state", ["running", "completed", "removed", "transferring output", "suspended", "unknown"])
def test_a_job_that_does_not_wait_has_neither_entries_nor_analysis(state):
    done = {"reason": "The job has a slot", "action": "Nothing: it does not wait.", "blocks": True}
    text, step = explained(job(state, obstacles=[done]))
    assert "ENTRIES" not in text
    assert "HTCONDOR" not in text
    assert "WHAT NO GLIDEIN CAN CHANGE" not in text
    assert step == "Nothing: it does not wait."


def test_a_job_that_the_demand_does_not_have_yet_is_planned_for_as_one_idle_job():
    later = {"reason": "It became idle after the last reading", "action": "Wait for the next reading.", "blocks": False}
    text, step = explained(job(obstacles=[later], in_demand=False), group("b", 5))
    assert "ENTRIES, if the demand counted it" in text
    assert "fits 1 job per glidein" in text
    assert step == "Wait for the next reading."


def test_a_job_that_another_controller_leases_waits_for_its_glideins():
    text, step = explained(job(), group("a", 0, leased=4))
    assert "Its group: 0 idle jobs; 4 more that other sites have a lease on." in text
    assert step == "Wait: another controller has leased the job for glideins of its sites."


def test_a_limit_of_the_whole_group_comes_before_the_entries():
    limit = {"reason": "All 3 jobs are over a limit", "action": "Raise the limit.", "blocks": True}
    text, step = explained(job(obstacles=[limit]), group("a", 0, over_limit=3))
    assert "Its group: 0 idle jobs; 3 more over a limit." in text
    assert step == "Raise the limit."


def test_htcondors_analysis_names_the_conditions_that_fewest_slots_satisfy_first():
    text = explained(job(), group("a", 1), analysis=ANALYSIS)[0]
    assert text.partition("(condor_q -better-analyze)\n")[2].splitlines()[:4] == [
        "  of 1 machine: 1 are rejected by your job's requirements",
        '    0 slots: TARGET.GLIDEIN_Site == "nowhere"',
        "    2 slots: TARGET.HasFileTransfer",
        "  reason for the last match failure: no match found",
    ]


@pytest.mark.parametrize(
    ("claimed", "cpus_of_job", "shown"),
    [(3, 1, False), (4, 1, True), (4, 2, False)],
    ids=["some are free", "all are claimed", "the job does not fit"],
)
def test_the_analysis_says_when_all_cores_of_the_matching_glideins_are_claimed(claimed, cpus_of_job, shown):
    known = supplied(cpus=4, cpus_claimed=claimed)
    asked = group("a", 1, cpus=cpus_of_job)
    text = explained(job(asked=asked), asked, counts={"running": 4}, analysis=ANALYSIS, known=[known])[0]
    line = "(condor_q -better-analyze)\n  all cores of the glideins where the job fits are claimed (4)\n  of 1 machine"
    assert (line in text) == shown


@pytest.mark.parametrize(
    ("analysis", "line"),
    [
        (SKIPPED, "no host for condor_q: set explain_host"),
        ({"failed": True, "msg": "no such host"}, "not read: no such host"),
        ({"unreachable": True, "msg": "no route"}, "not read: no route"),
        (dict(ANALYSIS, error="condor_q gave no answer within 30 s"), "not read: condor_q gave no answer within 30 s"),
        (dict(ANALYSIS, machines=None, counts=[]), "no machine in the pool to compare with"),
    ],
)
def test_a_missing_analysis_has_a_reason(analysis, line):
    assert f"  {line}" in explained(job(), group("a", 1), analysis=analysis)[0]


def test_many_entries_are_summed_up():
    names = [f"s{number:02d}" for number in range(40)]
    sites = [{"site": site(name=name), "queue": queue({MAIN: {}}, name), "error": None} for name in names]
    assert "  and 28 shapes more (28 fit)" in explained(job(), group("a", 1), sites=sites)[0]


def test_a_site_with_an_unknown_queue_is_reported():
    unknown = [{"site": site(), "queue": None, "error": "no ssh"}]
    text = explained(job(), group("a", 1), sites=unknown)[0]
    assert "fits, but the queue is not known: no ssh" in text
    assert "?        ?     0" in text


def test_without_demand_the_next_step_is_to_restore_the_server():
    step = next_step_of(job_explanation(job(), Demand(error="no answer"), Plan(), SKIPPED))
    assert step == "Restore the demand server, then try again: no answer"


def test_without_sites_the_next_step_is_to_add_one():
    assert explained(job(), group("a", 1), sites=[])[1].startswith("Add a site")


def test_old_demand_is_the_next_step():
    step = explained(job(), group("a", 1), as_of=NOW - 5000)[1]
    assert step.startswith("Remove what stops the plan: the demand is 5000 s old")


def test_with_job_leaves_a_counted_demand_as_it_is_and_adds_one_job_otherwise():
    counted = demand(group("a", 3))
    assert with_job(counted, job()) is counted
    assert with_job(counted, job(group=None, asked=None)) is counted
    added = with_job(demand(group("a", 0, over_limit=3), group("b", 2)), job())["groups"]
    assert [(each["id"], each["count"]) for each in added] == [("b", 2), ("a", 1)]


_TEXT = st.text(max_size=2000)


@given(text=_TEXT, user=_TEXT, reason=_TEXT, requirements=_TEXT, condition=_TEXT, count=st.integers(0, 10**6))
def test_any_texts_stay_within_the_width(text, user, reason, requirements, condition, count):
    asked = group("a", 1, requirements=requirements)
    obstacle = {"reason": reason, "action": reason, "blocks": False}
    analysis = dict(ANALYSIS, conditions=[{"slots": count, "condition": condition}], last_failure=condition)
    row = {"site": "s" * 64, "entry": "e" * 64, "shape": "h" * 64, "serves": 0, "fits": False, "reason": reason}
    row["passed_over"] = False
    now = Demand(demand(group("a", count)))
    lines = job_explanation(
        job(text=text, user=user, group=asked, obstacles=[obstacle]), now, Plan(explanation=[row]), analysis
    )
    assert max(map(len, lines)) <= WIDTH
    assert all(line.isprintable() for line in lines)
    assert lines[-1].strip()


def test_a_job_that_the_negotiator_passes_over_is_a_matter_of_priorities_and_quotas():
    passed_over = supplied("main", "core", passed_over_groups={"a": {"until": NOW + 600}})
    text, step = explained(job(), group("a", 3), known=[passed_over])
    assert "the negotiator left these jobs idle beside free glideins there" in text
    assert step.startswith("Look at the priority of the job's user and at the quota of its accounting group")
