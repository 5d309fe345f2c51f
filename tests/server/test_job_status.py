# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a job's state, of obstacles that glideins cannot remove, and of the job's section on the page."""

import pytest
from glidein_demand.web import job_status
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, settings
from page_data import HOSTILE, Page, demand, group, render, report, reports

NOTHING = {
    "status": 1, "universe": 5, "user": "alice@pool", "queued_at": NOW - 600, "since": NOW - 600, "host": None,
    "hold_reason": None, "remove_reason": None, "exit_status": None, "deferred_until": None, "deferral_prep_s": None,
    "cool_down_until": None, "rejected": None, "rejected_at": None, "place": "queue", "group": group("aaaa", 1),
    "unreadable": None, "excluded_by": [],
}  # fmt: skip

SETTINGS = settings(pool={"users": ["bob"], "constraint": "WantX =?= True"})


def described(counted=None, paused=False, found=None, limits=None, waiting=(), **changes):
    """Return get_job of a job with these facts.

    counted: changes of its group in the demand; None: as the job's; False: the demand does not have it.
    """
    rows = [] if counted is False else [group("aaaa", **(counted or {}))]
    looked_up = found or {"found": [("cm", {**NOTHING, **changes})], "errors": {}, "schedds": ["cm"]}
    pool = job_status.Pool(demand(*rows, waiting_for_limit=list(waiting)), limits, SETTINGS, paused, NOW)
    return job_status.describe("12.0", looked_up, pool)


def only_obstacle(**changes):
    (found,) = described(**changes)["obstacles"]
    return found


def test_an_idle_job_that_is_counted_has_no_obstacle():
    found = described()
    assert (found["state"], found["text"], found["obstacles"]) == ("idle", "idle for 10 min", [])
    assert (found["in_demand"], found["group"]["id"]) == (True, "aaaa")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"status": 2, "host": "slot1_1@glidein_7@node"}, "running on slot1_1@glidein_7@node for 10 min"),
        ({"status": 3, "remove_reason": "via condor_rm"}, "removed 10 min ago: via condor_rm"),
        ({"status": 4, "exit_status": 1}, "completed 10 min ago, exit status 1"),
        ({"status": 5, "hold_reason": "disk full"}, "held for 10 min: disk full"),
        ({"status": 6}, "transferring output for 10 min"),
        ({"status": 7}, "suspended for 10 min"),
        ({"status": None, "since": None}, "unknown, JobStatus is None"),
        ({"place": "factory"}, "not in the queue yet: its submission is materialized late"),
    ],
)
def test_descriptions_of_states(changes, text):
    assert described(**changes)["text"] == text


@pytest.mark.parametrize(
    ("changes", "reason", "action"),
    [
        ({"status": 5}, "A held job is not matched", "Remove the cause, then release it: `condor_release 12.0`."),
        ({"status": 2}, "The job has a slot", "Nothing"),
        ({"status": 4}, "The job is completed", "Nothing"),
        ({"universe": 9}, "Its universe is grid: the schedd sends it", "universe = vanilla"),
        ({"universe": 42}, "Its universe is number 42", "universe = vanilla"),
        ({"excluded_by": ["IsNoopJob"]}, "Its IsNoopJob is true (noop_job): the schedd ends it", "Nothing"),
        ({"excluded_by": ["WantParallelScheduling"]}, "Its WantParallelScheduling is true", "submit it again without"),
        ({"excluded_by": ["Managed"]}, "Its Managed is External", "condor_router_q"),
        ({"excluded_by": ["MaxHosts"]}, "Its CurrentHosts is not below MaxHosts", "condor_q -long 12.0"),
        ({"excluded_by": ["pool.users"]}, "pool.users is bob", "demand_server_settings"),
        ({"excluded_by": ["pool.constraint"]}, "pool.constraint is `WantX =?= True`", "demand_server_settings"),
        (
            {"unreadable": {"attribute": "RequestMemory", "error": "RequestMemory is undefined"}},
            "RequestMemory is undefined, so that HTCondor never starts it",
            "condor_qedit 12.0 RequestMemory",
        ),
        ({"deferred_until": NOW + 7200}, "It is deferred: its DeferralTime is 2026-11-20 23:47:53 UTC", "Wait"),
        (
            {"cool_down_until": NOW + 60},
            "It cools down until 2026-11-20 21:48:53 UTC after an interrupted start",
            "Wait",
        ),
        ({"paused": True}, "The demand server is paused", "glidein-demand resume"),
        (
            {"universe": 9, "unreadable": {"attribute": "RequestCpus", "error": "RequestCpus is undefined"}},
            "Its universe is grid", "universe = vanilla",
        ),
        (
            {"counted": {"count": 0, "over_limit": 5}, "waiting": [{"schedd": "cm", "count": 5, "limit": 200}]},
            "MAX_JOBS_RUNNING of cm is 200: jobs beyond it cannot start until others end", "raise MAX_JOBS_RUNNING",
        ),
        ({"counted": {"count": 0, "over_limit": 95}, "place": "factory"}, "max_materialize", "raise max_idle"),
        (
            {"counted": False, "place": "factory", "group": None}, "it requests is unknown until it is in the queue",
            "Explain a job of the submission that is in the queue: `condor_q 12`.",
        ),
    ],
)  # fmt: skip
def test_obstacles_that_no_glidein_removes(changes, reason, action):
    found = only_obstacle(**changes)
    assert reason in found["reason"]
    assert action in found["action"]
    assert found["blocks"] is True


@pytest.mark.parametrize(
    ("since", "reason"),
    [(NOW + 1, "It became idle after the last reading of the queue, 0 s ago"),
     (NOW - 600, "The last reading of the queue, 0 s ago, does not count it")],
)  # fmt: skip
def test_a_job_that_the_last_reading_does_not_have_waits_for_the_next_one(since, reason):
    action = "Wait for the next reading, at most 5 min."
    assert only_obstacle(counted=False, since=since) == {"reason": reason, "action": action, "blocks": False}


def test_an_elapsed_deferral_is_not_an_obstacle():
    assert described(deferred_until=NOW + 299, cool_down_until=NOW)["obstacles"] == []
    assert described(deferred_until=NOW + 360, deferral_prep_s=120)["obstacles"] == []


LIMITED = group(
    "aaaa", 1, users={"alice@pool": 1}, attributes={"ConcurrencyLimits": "lic"}, accounting_group="phys.alice"
)


def limit(kind, name, maximum, used):
    """Return the negotiator's limits (accounting_limits.Limits) with this one only."""
    limits = {"concurrency": {}, "used": {}, "submitters": {}, "groups": {}}
    if kind == "concurrency":
        return {**limits, kind: {name: maximum}, "used": {name: used}}
    return {**limits, kind: {name: [maximum, used]}}


@pytest.mark.parametrize(
    ("limits", "reason", "action"),
    [
        (
            limit("concurrency", "lic", 1, 1), "concurrency limit lic: 1, 1 in use",
            "Wait until running jobs end, or raise it: set LIC_LIMIT in the configuration of the negotiator, then "
            "`condor_reconfig -negotiator`.",
        ),
        (
            limit("submitters", "phys.alice@pool", 0, 0), "ceiling of submitter phys.alice@pool: 0, 0 in use",
            "Raise the limit: `condor_userprio -setceiling phys.alice@pool NUMBER`, -1 for none.",
        ),
        (
            limit("groups", "phys", 4, 3.5), "quota of accounting group phys: 4, 3.5 in use",
            "Wait until running jobs end, or raise it: set GROUP_QUOTA_phys in the configuration of the negotiator, "
            "then `condor_reconfig -negotiator`.",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("count", "over", "blocks", "which"),
    [(0, 3, True, "All 3 jobs of its group are"), (2, 3, False, "3 of 5 jobs of its group are"),
     (0, 1, True, "The only job of its group is")],
)  # fmt: skip
def test_a_limit_of_the_negotiator_is_named_with_its_numbers_and_how_to_raise_it(
    limits, reason, action, count, over, blocks, which
):
    counted = {"count": count, "users": {"alice@pool": count}, "limited_by": {reason: over}, "over_limit": over}
    found = only_obstacle(counted=counted, limits=limits, group=LIMITED)
    assert found == {"reason": f"{which} over a limit: {reason}", "action": action, "blocks": blocks}


@pytest.mark.parametrize(
    ("own", "blocks"),
    [
        ({"users": {"bob@pool": 1}}, []),
        ({"users": {"alice@pool": 1}, "accounting_group": "group_other.alice"}, []),
        ({"users": {"alice@pool": 1}, "accounting_group": "group_phys.sub.alice"}, [True]),
        ({"users": {"carol@pool": 1}, "accounting_group": "group_phys.carol"}, [False]),
    ],
)
def test_only_jobs_of_an_accounting_group_are_over_its_quota(own, blocks):
    limits = limit("groups", "group_phys", 4, 4)
    limited = {"limited_by": {"quota of accounting group group_phys: 4, 4 in use": 6}, "over_limit": 6}
    counted = {"users": {"bob@pool": 3, "carol@pool": 1}, "count": 4, **limited}
    found = described(counted=counted, limits=limits, group=group("aaaa", **own))["obstacles"]
    assert [each["blocks"] for each in found] == blocks


def test_the_negotiators_last_reason_is_shown():
    assert described(rejected="no match found", rejected_at=NOW - 60)["rejected"] == "no match found (60 s ago)"
    assert described(status=2, rejected="no match found")["rejected"] is None


def test_an_unknown_job_and_one_of_several_schedds():
    nowhere = described(found={"found": [], "errors": {}, "schedds": ["a", "b"]})
    assert nowhere["state"] == "unknown"
    assert nowhere["text"] == "neither the queue nor the history of ended jobs has it (read: a, b)"
    failed = described(found={"found": [], "errors": {"a": "no answer"}, "schedds": ["a"]})
    assert failed["text"] == "the job was not found, and not all schedds answered: a: no answer"
    both = described(found={"found": [("a", NOTHING), ("b", NOTHING)], "errors": {}, "schedds": ["a", "b"]})
    assert (both["schedd"], both["schedds"]) == (None, ["a", "b"])
    assert both["obstacles"][0]["action"] == "Name its schedd: a#12.0."


_VALUE = st.one_of(st.none(), st.integers(-(10**9), 10**12))


@given(
    status=st.one_of(st.none(), st.integers(-1, 9)), universe=_VALUE, since=_VALUE, deferred_until=_VALUE,
    deferral_prep_s=_VALUE, cool_down_until=_VALUE, hold_reason=st.one_of(st.none(), st.text()),
)  # fmt: skip
def test_any_facts_give_printable_text_and_a_step_for_each_obstacle(**changes):
    found = described(**changes)
    assert found["text"].isprintable()
    assert all(each["reason"] and each["action"] for each in found["obstacles"])
    assert found["in_demand"] == (changes["status"] == 1)


# --- page ---


def page(changes=None, **context):
    found = described(**(changes or {}))
    return render(**{"job": {"query": "12.0", "result": found}, "caller_has_token": True, **context})


def test_the_page_links_the_group_and_gives_the_reasons_of_the_sites():
    rows = [{"group": "aaaa", "count": 1, "reason": "main/core: each job requests 8 cpus, but the shape has 1"}]
    leases = [
        {"site": "PSC", "entry": "RM", "group": "aaaa", "jobs": 3, "expires": NOW + 60},
        {"site": "PSC", "entry": "RM", "group": "bbbb", "jobs": 4, "expires": NOW + 60},
    ]
    html = page(demand=demand(group("aaaa")), reports=reports(report("PSC", unserved=rows)), leases=leases)
    words = " ".join(Page(html).text.split())
    assert 'href="#group-aaaa"' in html
    assert "Not served: PSC: main/core: each job requests 8 cpus, but the shape has 1" in words
    assert "Jobs of the group that have queued or starting glideins: PSC/RM: 3." in words
    assert "It requests 1 core, 2 GiB of memory, 1,000 MiB of disk, at most 2 h" in words


def test_the_page_escapes_every_text_of_a_job():
    changes = {"status": 5, "hold_reason": HOSTILE, "user": HOSTILE, "group": group(HOSTILE, requirements=HOSTILE)}
    html = page(changes) + render(job={"query": HOSTILE, "error": HOSTILE}, caller_has_token=True)
    assert "<script>alert" not in html
    assert "<img" not in html


def test_the_range_links_keep_the_job():
    assert "?range=week&amp;job=12.0#charts" in page()
    assert 'value="12.0"' in page()


def test_the_page_without_a_job_has_the_field_only():
    html = render()
    assert 'name="job"' in html
    assert "needs a token" in html
    assert "glidein.ops.explain" not in html
