# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of ended glideins' summaries: counted once, summed, and shown."""

import json
import math

import pytest
from glidein_demand.store import ended_glideins as module
from glidein_demand.store.database import Database
from glidein_demand.store.ended_glideins import EndedGlideins

from conftest import TOKEN, site_report
from databases import NOW

KEY = ("PSC", "RM")


def glidein(number=1, **changes):
    return {
        "name": f"glidein_{number}", "entry": "RM", "shape": "node", "batch_id": str(number), "started": NOW - 7300,
        "registered": NOW - 7297, "ended": NOW - 100, "granted_core_s": 7200, "busy_core_s": 5400, "jobs": 3,
        "jobs_failed": 1, "exit_status": 0, "reason": "", **changes,
    }  # fmt: skip


def summaries_of(*glideins, since=0, until=None):
    return {"since": since, "until": NOW if until is None else until, "glideins": list(glideins)}


@pytest.fixture
def ended(database):
    return EndedGlideins(database, lambda: NOW)


def test_each_glidein_counts_once_regardless_of_repeated_reports(ended, database_url):
    assert ended.add("PSC", summaries_of(glidein(1), glidein(2), glidein(1))) == 2
    assert ended.add("PSC", summaries_of(glidein(2), glidein(3, entry="long"))) == 1
    assert ended.add("Cedar", summaries_of(glidein(1))) == 1
    again = EndedGlideins(Database(database_url), lambda: NOW)
    assert again.add("PSC", summaries_of(glidein(3))) == 0
    assert again.totals() == {
        KEY: {"glideins": 2, "jobs": 6, "jobs_failed": 2},
        ("PSC", "long"): {"glideins": 1, "jobs": 3, "jobs_failed": 1},
        ("Cedar", "RM"): {"glideins": 1, "jobs": 3, "jobs_failed": 1},
    }


def test_the_time_of_recorded_logs_advances_only_from_its_last_value(ended):
    assert ended.summaries_until() == {}
    ended.add("PSC", summaries_of(since=0, until=NOW - 50.25))
    ended.add("PSC", summaries_of(since=0, until=NOW - 10))  # another controller, which began without recorded logs
    assert ended.summaries_until() == {"PSC": NOW - 50.25}
    ended.add("PSC", summaries_of(since=NOW - 50.25, until=NOW - 5))
    ended.add("PSC", summaries_of(since=NOW - 5, until=NOW - 5))
    assert ended.summaries_until() == {"PSC": NOW - 5}


def test_many_at_a_time_are_counted(ended):
    every = [glidein(number) for number in range(1000)]
    assert ended.add("PSC", summaries_of(*every[:900])) == 900
    assert ended.add("PSC", summaries_of(*every)) == 100
    assert ended.totals()[KEY]["glideins"] == 1000


def test_the_reason_of_an_end_is_cut_and_may_be_missing(service):
    long = glidein(1, reason="no " * 1000)
    without = glidein(2)
    del without["reason"]
    service.result("report", site_report(summaries=summaries_of(long, without)), TOKEN)
    endings = service.server.ended_glideins.endings(0)
    assert len(endings["PSC", "1"]["reason"]) == 300
    assert (endings["PSC", "2"]["reason"], endings["PSC", "2"]["entry"]) == ("", "RM")


def test_names_are_forgotten_in_the_end(ended, database):
    ended.add("PSC", summaries_of(glidein(1)))
    ended.delete_old(NOW + module.KEEP_NAMES_S + 1)
    assert ended.endings(0) == {}


def test_the_data_of_a_malicious_site_is_limited(ended, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENTRIES_OF_A_SITE", 2)
    monkeypatch.setattr(module, "MAX_NAMES_OF_A_SITE", 3)
    ended.add("PSC", summaries_of(*(glidein(number, entry=f"e{number}") for number in range(4))))
    ended._clock = lambda: NOW + 60
    ended.add("PSC", summaries_of(*(glidein(10 + number) for number in range(3))))
    assert len(ended.totals()) == 2
    assert {key[1] for key in ended.endings(0)} == {"10", "11", "12"}


def test_a_report_brings_summaries_to_the_metrics_and_the_supply(service):
    report = site_report(summaries=summaries_of(glidein(1)))
    for _again in range(2):
        assert service.result("report", report, TOKEN) == {"accepted": True}
    assert service.result("get_supply")["summaries_until"] == {"PSC": NOW}
    metrics = service.get("/metrics").text
    for name, number in (("ended_glideins", 1), ("jobs", 3), ("failed_jobs", 1)):
        assert f'glidein_site_{name}_total{{entry="RM",site="PSC"}} {number}.0' in metrics


def test_a_delayed_report_still_records_ended_glideins(service):
    service.result("report", site_report(), TOKEN)
    service.result("report", site_report(as_of=NOW - 60, summaries=summaries_of(glidein())), TOKEN)
    assert service.server.ended_glideins.totals()[KEY]["glideins"] == 1


def test_the_guard_gets_failed_jobs(service):
    running = [{"id": "1", "wait_s": 5}, {"id": "2", "wait_s": 5}, {"id": "3", "wait_s": 5}, {"id": "4", "wait_s": 5}]
    entry = {"entry": "RM", "shape": "node", "running_glideins": running}
    service.result("report", site_report(entries=[entry]), TOKEN)
    long_ago = {"started": NOW - 7300, "ended": NOW - 1}
    failing = glidein(1, exit_status=30, jobs=3, jobs_failed=3, **long_ago)
    good = glidein(2, **long_ago)
    early = glidein(3, started=NOW - 100, ended=NOW - 1, jobs=0, jobs_failed=0)
    never = glidein(4, registered=None, exit_status=19)
    service.result("report", site_report(as_of=NOW + 1, summaries=summaries_of(failing, good, early, never)), TOKEN)
    (shown,) = service.result("get_supply")["entries"]
    names = ("started", "registered", "never_registered", "ended_early", "jobs_failing")
    assert [shown["history"][name] for name in names] == [4, 3, 1, 2, 1]


def test_a_black_hole_that_no_report_lists_as_running_is_in_the_history_and_on_the_page(service):
    entry = {"entry": "RM", "shape": "node", "queued": 2, "running": 0, "running_glideins": []}
    reason = "fewer GPUs than GLIDEIN_GPUS=1 (DetectedGPUs=0)"
    failed = {"registered": None, "jobs": 0, "jobs_failed": 0, "exit_status": 17, "reason": reason}
    for cycle in range(3):
        since = NOW - 60 * (3 - cycle)
        ended = glidein(cycle, started=since - 9, ended=since - 5, **failed)
        summaries = summaries_of(ended, since=since - 60 if cycle else 0, until=since)
        service.result("report", site_report(as_of=since, entries=[entry], summaries=summaries), TOKEN)
    (shown,) = service.result("get_supply")["entries"]
    assert [shown["history"][name] for name in ("started", "registered", "never_registered")] == [3, 0, 3]
    assert shown["history"]["failures"] == [{"exit_status": 17, "count": 3, "last": NOW - 65, "reason": reason}]
    text = "RM/node: 3 of 3 glideins that started in the last 6 h never registered. 3 ended with status 17: " + reason
    assert text in service.page()
    assert 'glidein_site_recent_never_registered{entry="RM",site="PSC"} 3.0' in service.get("/metrics").text


def test_one_users_failing_jobs_are_not_a_black_hole(service):
    running = [{"id": str(number), "wait_s": 5} for number in (1, 2)]
    entry = {"entry": "RM", "shape": "node", "running_glideins": running}
    service.result("report", site_report(entries=[entry]), TOKEN)
    after_good_ones = glidein(1, exit_status=30, jobs=40, jobs_failed=3, started=NOW - 7300, ended=NOW - 1)
    soon = glidein(2, exit_status=30, jobs=4, jobs_failed=3, started=NOW - 100, ended=NOW - 1)
    service.result("report", site_report(as_of=NOW + 1, summaries=summaries_of(after_good_ones, soon)), TOKEN)
    (shown,) = service.result("get_supply")["entries"]
    assert [shown["history"][name] for name in ("registered", "ended_early", "jobs_failing")] == [2, 0, 0]


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"entry": "a b"},
        {"batch_id": 1},
        {"started": -1},
        {"ended": None},
        {"jobs": 10**13},
        {"busy_core_s": True},
        {"exit_status": 256},
        {"registered": "soon"},
    ],
)
def test_an_invalid_summary_is_refused(service, changes):
    error = service.error("report", site_report(summaries=summaries_of(glidein(**changes))), TOKEN)
    assert error["data"].startswith("summaries.glideins[0]")
    assert next(iter(changes)) in error["data"]


@pytest.mark.parametrize(
    "given",
    [
        [],
        {"since": 1},
        summaries_of(since=5, until=4),
        summaries_of(*[None]),
        summaries_of(*[glidein()] * 1001),
        json.loads("1e400"),
    ],
)
def test_an_invalid_list_of_summaries_is_refused(service, given):
    if given == math.inf:
        assert service.call("report", site_report(summaries=given), TOKEN).status_code == 400
    else:
        assert service.error("report", site_report(summaries=given), TOKEN)["data"].startswith("summaries")
