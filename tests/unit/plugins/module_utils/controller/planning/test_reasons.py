# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that each reason of a plan is English, wherever it is printed, for one glidein or job and for several."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.leases import trim
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

MAIN = ("main", "core")

BROKEN = history(started=40, never_registered=40)
UNKNOWN_BUDGET = (
    "lab/main gets no new glidein while its used core-hours are not known "
    "(supply.core_hours.entries: None is invalid; expected a list)"
)


def planned(jobs, have=None, known=None, entry=None, explain=None, failed=(), groups=(), demand_history=(), **guard):
    """Return the result of make_plan for one entry and so many jobs of group a."""

    read = supply(supplied(**(known or {})), demand_history=list(demand_history))
    jobs = demand(*([group(count=jobs)] if jobs else []), *groups, schedds={"answered": [], "failed": list(failed)})
    sites = [planned_site(site({"main": raw_entry(**(entry or {}))}), queue({MAIN: have or {}}))]
    return make_plan(jobs, read, sites, NOW, 900, explain, options(guard=guard))


def reason(*arguments, **more):
    """Return the reason of the only item."""
    (item,) = planned(*arguments, **more)["plan"]
    return item.reason


@pytest.mark.parametrize(
    "limit, have, more",
    [
        ("lab/main limit queued 0 reached", {}, {"entry": {"limits": {"queued": 0}}}),
        ("lab/main limit of 1 unproven glidein reached", {"queued": 1}, {"ramp_first": 1}),
        ("lab/main limit of 2 unproven glideins reached", {"queued": 2}, {"ramp_first": 2}),
        ("lab/main is probed with one glidein, because 40 of the last 40 did not work", {"queued": 1},
         {"known": {"history": BROKEN}}),
        ("lab/main gets at most 5 unproven glideins, because 40 of the last 40 did not work",
         {"queued": 5, "running": 1}, {"known": {"history": BROKEN, "registered": 1, "cpus_claimed": 1}}),
        ("lab/main/core gets no new glidein while 1 queued glidein cannot start",
         {"sick": 1, "never_starts": 1}, {}),
        ("lab/main/core gets no new glidein while 2 queued glideins cannot start (no such node)",
         {"sick": 2, "never_starts": 2, "sick_reasons": ["no such node"]}, {}),
        (UNKNOWN_BUDGET, {}, {"entry": {"budget": {"core_hours": 9, "per": "month"}}}),
    ],
)  # fmt: skip
def test_a_limit_has_the_same_words_wherever_it_is_printed(limit, have, more):
    result = planned(50, have, explain="a", **more)
    assert f"; {limit}" in result["plan"][0].reason
    assert result["unserved"][0]["reason"] == f"no more glideins where these jobs fit: {limit}"
    assert result["unserved_at"] == {"a": {"lab": f"main/core: {limit}"}}
    assert f"fits 1 job per glidein; {limit}" in result["explanation"][0]["reason"]


def test_withdrawn_glideins_of_an_entry_that_fails_have_its_limit_as_reason():
    text = reason(1, {"queued": 3}, {"history": BROKEN})
    assert text == (
        "1 idle job to serve: 1 in queued glideins; 0 running, 3 queued, 2 of them to cancel; "
        "lab/main is probed with one glidein, because 40 of the last 40 did not work"
    )


NO_DELAY = {"cancel_delay": 0}
SILENT = {"failed": [{"name": "ap"}], **NO_DELAY}
LATE = [NOW - 4000, 1]


@pytest.mark.parametrize(
    "jobs, have, more, words",
    [
        (0, {"queued": 1}, NO_DELAY, ", 1 queued, 1 of them to cancel (no job needs it)"),
        (0, {"queued": 2}, NO_DELAY, ", 2 queued, 2 of them to cancel (no job needs them)"),
        (0, {"queued": 1, "oldest_queued_s": 9}, {}, "; 1 queued glidein without a job is kept for up to 600 s"),
        (0, {"queued": 2, "oldest_queued_s": 9}, {}, "; 2 queued glideins without a job are kept for up to 600 s"),
        (0, {"queued": 1}, SILENT, ", 1 that no job needs is kept because schedds did not answer: ap"),
        (0, {"queued": 2}, SILENT, ", 2 that no job needs are kept because schedds did not answer: ap"),
        (9, {"queued": 1, "queued_since": [LATE]}, {}, "; 1 queued for more than 10 min serves no job"),
        (9, {"queued": 2, "queued_since": [LATE, LATE]}, {}, "; 2 queued for more than 10 min serve no job"),
        (0, {"sick": 2, "sick_reasons": ["AssocGrpCPUMinutesLimit", "JobHeldUser"]}, {},
         "; 2 sick (AssocGrpCPUMinutesLimit, JobHeldUser)"),
    ],
)  # fmt: skip
def test_glideins_that_are_cancelled_kept_or_sick(jobs, have, more, words):
    assert words in reason(jobs, have, **more)


@pytest.mark.parametrize(
    "idle, readings, words",
    [
        (0, 1, "the demand fell from 1 idle job to none: queued glideins are kept until 1 reading confirms it"),
        (10001, 2, "the demand jumped from 1 to 10001 idle jobs: nothing is added until 2 readings confirm it"),
    ],
)
def test_readings_that_the_guard_does_not_believe(idle, readings, words):
    result = planned(idle, {"queued": 1}, demand_history=[[NOW - 200, 1]], hold_readings=readings)
    assert result["notes"] == [words]
    reasons = [one["reason"] for one in result["unserved"]]
    assert reasons[-1:] == ["the guard orders no glidein for them yet"] * bool(idle)


def test_a_queue_that_one_cycle_has_to_confirm():
    known = {"history": history([{"age_s": 300, "queued": 9, "running": 0}])}
    assert planned(1, {"queued": 1}, known, hold_readings=1)["notes"] == [
        "lab: the queue shows only 1 glidein, but by earlier reports 9 should be there: "
        "nothing is ordered until 1 cycle confirms it"
    ]


def test_attributes_that_no_source_knows():
    jobs = [group("b", 9, requirements="TARGET.HAS_A && TARGET.HAS_B")]
    first = "the first glidein of an entry shows whether these jobs fit: "
    (unserved,) = planned(0, groups=jobs)["unserved"]
    assert unserved["reason"] == f"{first}HAS_A; HAS_B are not known of its machines yet"


@pytest.mark.parametrize(
    "jobs, granted, limited, words",
    [
        (4, {"main": {"a": 3}}, (), "1 of its jobs is no longer idle, or leased to others"),
        (4, {"main": {"a": 2}}, (), "2 of its jobs are no longer idle, or leased to others"),
        (4, {"main": {"a": 3}}, ("lab",), "1 of its jobs is beyond the site's lease limit"),
        (4, None, (), "4 of its jobs have no lease"),
        (1, None, (), "1 of its jobs has no lease"),
    ],
)
def test_jobs_without_a_lease(jobs, granted, limited, words):
    (item,) = trim(planned(jobs)["plan"], {"lab": granted}, limited)
    assert f"; {words}: " in item.reason
