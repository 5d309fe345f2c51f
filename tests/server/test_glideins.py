# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glidein outcomes: derived from reports and the collector, and from the summaries of ended glideins."""

import shutil

import pytest
from glidein_demand.store import glidein_tracking as tracking
from glidein_demand.store import glideins as store
from glidein_demand.store import schema
from glidein_demand.store.database import Database
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from conftest import NOW, TOKEN, ended_glidein, reported_entry, site_report, summaries_of

KEY = ("A", "q", "s")
MINUTE = 60


def report(*running, at=NOW, site="A", entry="q", shape="s", **counts):
    """Return a checked report of one entry; `running` are batch ids or (batch id, wait).

    running_glideins=None: not reported.
    """
    rows = [{"id": one, "wait_s": 10} if isinstance(one, str) else {"id": one[0], "wait_s": one[1]} for one in running]
    row = reported_entry(entry=entry, shape=shape, **{"running_glideins": rows, **counts})
    return site_report(site=site, as_of=at, entries=[row])


def ad(batch_id, started=NOW, heard=None, site="A"):
    """Return the collector's data on a glidein, as supply.registered returns it."""
    return [site, "q", "s", batch_id, started, started if heard is None else heard]


class Tracked:
    """A store with the events of a test."""

    def __init__(self, database):
        self.glideins = store.Glideins(database)

    def reports(self, at, *running, **changes):
        self.glideins.reported(report(*running, at=at, **changes), at)

    def reads(self, at, *ads):
        self.glideins.registered(ads, at)

    def ends(self, *endings):
        self.glideins.ended("A", summaries_of(*endings), NOW)

    def history(self, at, key=KEY):
        return self.glideins.summary(at).get(key)

    def numbers(self, at):
        """Return (started, registered, never registered, ended early)."""
        found = self.history(at)
        return tuple(found[name] for name in ("started", "registered", "never_registered", "ended_early"))


@pytest.fixture
def tracked(database):
    return Tracked(database)


GRACE, EARLY = tracking.GRACE_S, tracking.EARLY_S


@pytest.mark.parametrize(
    ("events", "numbers"),
    [
        # It starts, registers and ends in its time.
        ([(0, "1"), (30, [ad("1")]), (1200, [ad("1", heard=NOW + 1190)]), (1500, []), (1510, "")], (1, 1, 0, 0)),
        # It runs without registering, within the grace period and beyond it.
        ([(0, "1"), (GRACE - 1, [])], (1, 0, 0, 0)),
        ([(0, "1"), (GRACE, [])], (1, 0, 1, 0)),
        ([(0, "1"), (GRACE, []), (GRACE + 60, [ad("1", NOW + GRACE)])], (1, 1, 0, 0)),
        # It left, and was never in the collector, which must have been read.
        ([(0, "1"), (60, []), (120, "")], (1, 0, 1, 0)),
        ([(0, "1"), (120, ""), (180, [])], (1, 0, 0, 0)),
        # A report without counts or of another entry, or a gap in the reports, ends no glidein.
        ([(0, "1"), (60, []), (120, None)], (1, 0, 0, 0)),
        ([(0, "1"), (60, []), (120, "other entry")], (1, 0, 0, 0)),
        ([(0, "1"), (60, []), (120, ""), (180, "1")], (1, 0, 0, 0)),
        # The collector lists it first. The same batch id of another site is another glidein.
        ([(0, [ad("1")]), (60, "1")], (1, 1, 0, 0)),
        ([(0, "1"), (GRACE, [ad("1", site="B")])], (1, 0, 1, 0)),
        # It disappears soon after its start, later, and because of a restart of the collector.
        ([(10, [ad("1", heard=NOW + 5)]), (310, []), (320, "")], (0, 1, 0, 1)),
        ([(10, [ad("1", heard=NOW + 5)]), (310, [ad("1", heard=NOW + EARLY)]), (610, []), (620, "")], (0, 1, 0, 0)),
        ([(10, [ad("1")]), (20, []), (60, [ad("1", heard=NOW + 55)]), (70, "")], (0, 1, 0, 0)),
    ],
)
def test_started_registered_never_registered_and_early_ended_glideins(tracked, events, numbers):
    """`events`: (seconds, ads of the collector, or the batch id in a report: "" for none, None for no counts)."""
    for seconds, what in events:
        if isinstance(what, list):
            tracked.reads(NOW + seconds, *what)
        elif what == "other entry":
            tracked.reports(NOW + seconds, entry="other")
        elif what is None:
            tracked.reports(NOW + seconds, running_glideins=None)
        else:
            tracked.reports(NOW + seconds, *filter(None, [what]))
    assert tracked.numbers(NOW + events[-1][0]) == numbers


def test_without_running_glideins_in_the_reports_derived_counts_are_unknown(tracked):
    tracked.reports(NOW, running_glideins=None)
    tracked.reads(NOW + 10, ad("1_1"))
    history = tracked.history(NOW + 20)
    assert (history["started"], history["never_registered"], history["wait_median_s"]) == (None, None, None)
    assert (history["registered"], history["ended_early"]) == (1, 0)


def test_waits_are_those_of_the_window_and_unknown_ones_do_not_count(tracked):
    tracked.reports(NOW - tracking.WINDOW_S - 2)
    assert tracked.history(NOW - tracking.WINDOW_S - 2)["wait_p90_s"] is None
    tracked.reports(NOW - tracking.WINDOW_S - 1, ("old", 9999))
    waits = [("none", None)] + [(f"1_{number}", number) for number in range(1, 11)]
    tracked.reports(NOW, *waits)
    history = tracked.history(NOW)
    assert (history["wait_median_s"], history["wait_p90_s"], history["started"]) == (5, 9, 11)


def test_the_last_twenty_plans_are_kept_and_a_repeated_one_counts_once(tracked):
    for number in range(25):
        tracked.reports(NOW + number, launched=number)
    tracked.reports(NOW + 24, launched=24)
    plans = tracked.history(NOW + 30)["plans"]
    assert [plan["launched"] for plan in plans] == list(range(5, 25))
    assert plans[-1] == {
        "as_of": NOW + 24, "present": 3, "wanted": None, "queued": 1, "running": 2, "registered": 2, "launched": 24,
        "cancelled": 0,
    }  # fmt: skip


def rows_of(database, table=schema.glidein):
    with database.read() as connection:
        return connection.execute(select(table.c.batch_id).order_by(table.c.batch_id)).scalars().all()


def test_glideins_that_ended_are_forgotten_after_two_days(tracked, database):
    tracked.reports(NOW, "left", "runs")
    tracked.reads(NOW, ad("gone"), ad("there"))
    tracked.reports(NOW + 60, "runs")
    tracked.reads(NOW + 60, ad("there"))
    tracked.glideins.delete_old(NOW + 60 + store.KEEP_S)
    assert rows_of(database) == ["gone", "left", "runs", "there"]
    tracked.glideins.delete_old(NOW + 61 + store.KEEP_S)
    assert rows_of(database) == ["runs", "there"]
    assert tracked.history(NOW + 61 + store.KEEP_S) is None
    tracked.glideins.delete_old(NOW + 1 + store.OPEN_S)
    assert rows_of(database) == ["there"]


def test_a_site_that_makes_ids_up_fills_no_disk(tracked, database, monkeypatch):
    monkeypatch.setattr(store, "MAX_OF_A_SITE", 10)
    tracked.reports(NOW, "b_1", site="B")
    for number in range(5):
        tracked.reports(NOW + number, *(f"{number}_{task}" for task in range(5)))
    assert [row for row in rows_of(database) if not row.startswith("b")] == [
        f"{number}_{task}" for number in (3, 4) for task in range(5)
    ]
    monkeypatch.setattr(store, "MAX_GLIDEINS", 5)
    tracked.glideins.delete_old(NOW + 10)
    assert len(rows_of(database)) <= 5


def test_entries_that_are_named_no_more_make_room(tracked, monkeypatch):
    monkeypatch.setattr(store, "MAX_ENTRIES_OF_A_SITE", 3)
    for number in range(6):
        tracked.reports(NOW + number, entry=f"q{number}")
    assert sorted(entry for _site, entry, _shape in tracked.glideins.summary(NOW + 9)) == ["q3", "q4", "q5"]


def test_many_glideins_are_followed_at_once(tracked):
    ids = [f"7_{number}" for number in range(1500)]
    tracked.reports(NOW, *ids)
    tracked.reads(NOW + 60, *map(ad, ids[:1000]))
    tracked.reports(NOW + 120, *ids[:1200])
    assert tracked.numbers(NOW + 121) == (1500, 1000, 300, 0)


def ending(number=0, **changes):
    """Return the summary of an ended glidein; by default it failed before it registered."""
    failed = {"started": NOW, "registered": None, "ended": NOW + 3, "exit_status": 17, "reason": "fewer GPUs"}
    key = {"batch_id": f"{number}_1", "entry": "q", "shape": "s"}
    return ended_glidein(number, **{**failed, **key, "jobs": 0, "jobs_failed": 0, **changes})


def test_glideins_that_started_and_failed_between_two_reports_never_registered(tracked):
    tracked.reports(NOW)
    tracked.reports(NOW + 20)
    tracked.ends(ending(1), ending(2, ended=NOW + 9, reason="fewer GPUs (2)"), ending(3, exit_status=13))
    found = tracked.history(NOW + 21)
    assert (found["started"], found["registered"], found["never_registered"], found["ended_early"]) == (3, 0, 3, 0)
    assert found["failures"] == [
        {"exit_status": 17, "count": 2, "last": NOW + 9, "reason": "fewer GPUs (2)"},
        {"exit_status": 13, "count": 1, "last": NOW + 3, "reason": "fewer GPUs"},
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"started": NOW + 21 - tracking.WINDOW_S - 1},
        {"exit_status": 143},  # the next cycle has cancelled it
    ],
)
def test_a_summary_of_a_glidein_that_was_not_listed_may_not_count(tracked, changes):
    tracked.ends(ending(**changes))
    assert tracked.glideins.summary(NOW + 21) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_status": 0, "registered": NOW + 1, "ended": NOW + 60},  # no job was left for it
        {"exit_status": 36, "registered": NOW + 1, "ended": NOW + 3600},
        {"exit_status": 30, "registered": NOW + 1, "jobs": 1},
    ],
)
def test_a_glidein_that_registered_and_did_not_fail_at_once_is_not_a_failure(tracked, changes):
    tracked.ends(ending(**changes))
    found = tracked.history(NOW + 7200)
    assert (found["registered"], found["never_registered"], found["failures"]) == (1, 0, [])


def new_tracked(tmp_path_factory, empty_database):
    file = shutil.copy2(empty_database, tmp_path_factory.mktemp("db"))
    return Tracked(Database(f"sqlite:///{file}"))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([0, 13, 17])), max_size=12))
def test_each_failed_glidein_counts_once_whether_a_report_listed_it_or_not(tmp_path_factory, empty_database, glideins):
    tracked = new_tracked(tmp_path_factory, empty_database)
    ids = [f"{number}_1" for number in range(len(glideins))]
    tracked.reports(NOW, *(one for one, (is_listed, _registered, _status) in zip(ids, glideins) if is_listed))
    tracked.reads(NOW + 1)
    tracked.reports(NOW + 60)
    tracked.ends(*(
        ending(number, registered=NOW + 1 if is_registered else None, exit_status=status)
        for number, (_is_listed, is_registered, status) in enumerate(glideins)
    ))  # fmt: skip
    found = tracked.history(NOW + 61)
    assert found["started"] == len(glideins)
    assert found["registered"] == found["ended_early"] == sum(registered for _listed, registered, _status in glideins)
    assert found["never_registered"] == len(glideins) - found["registered"]
    assert sum(row["count"] for row in found["failures"]) == sum(status != 0 for _l, _r, status in glideins)


EVENTS = st.lists(st.tuples(st.sampled_from(["report", "read"]), st.sets(st.sampled_from("abcd"))), max_size=12)


@settings(max_examples=60, deadline=None)
@given(EVENTS)
def test_the_store_keeps_what_the_rules_need(tmp_path_factory, empty_database, events):
    """Assert that, for any order of reports and readings, the store selects all rows that the rules need."""
    tracked = new_tracked(tmp_path_factory, empty_database)
    known = {}
    for step, (what, ids) in enumerate([("report", set()), *events]):
        now = NOW + 5 * MINUTE * step
        if what == "report":
            tracked.reports(now, *sorted(ids))
            rows = [("q", "s", one, 10) for one in sorted(ids)]
            changed = tracking.after_report(known, "A", rows, {("q", "s")}, now)
        else:
            tracked.reads(now, *map(ad, sorted(ids)))
            changed = tracking.after_reading(
                {("A", name): one for name, one in known.items()}, [tuple(ad(one)) for one in sorted(ids)], now
            )
        known.update((one.batch_id, one) for one in changed)
        expected = tracking.summaries(known.values(), {KEY: ([], NOW)}, now, {})[KEY]
        found = tracked.history(now)
        assert {**found, "plans": []} == expected


@pytest.fixture
def glideins(database):
    return store.Glideins(database)


def test_each_glidein_counts_once_regardless_of_repeated_reports(glideins, database_url):
    glideins.ended("PSC", summaries_of(ended_glidein(1), ended_glidein(2), ended_glidein(1)), NOW)
    glideins.ended("PSC", summaries_of(ended_glidein(2), ended_glidein(3, entry="long")), NOW)
    glideins.ended("Cedar", summaries_of(ended_glidein(1)), NOW)
    again = store.Glideins(Database(database_url))
    again.ended("PSC", summaries_of(ended_glidein(3)), NOW)
    assert again.totals() == {
        ("PSC", "RM"): {"glideins": 2, "jobs": 6, "jobs_failed": 2},
        ("PSC", "long"): {"glideins": 1, "jobs": 3, "jobs_failed": 1},
        ("Cedar", "RM"): {"glideins": 1, "jobs": 3, "jobs_failed": 1},
    }


def test_the_time_of_recorded_logs_advances_only_from_its_last_value(glideins):
    assert glideins.summaries_until() == {}
    glideins.ended("PSC", summaries_of(since=0, until=NOW - 50.25), NOW)
    glideins.ended("PSC", summaries_of(since=0, until=NOW - 10), NOW)  # of another controller, without recorded logs
    assert glideins.summaries_until() == {"PSC": NOW - 50.25}
    glideins.ended("PSC", summaries_of(since=NOW - 50.25, until=NOW - 5), NOW)
    glideins.ended("PSC", summaries_of(since=NOW - 5, until=NOW - 5), NOW)
    assert glideins.summaries_until() == {"PSC": NOW - 5}


def test_many_at_a_time_are_counted(glideins):
    every = [ended_glidein(number) for number in range(1000)]
    glideins.ended("PSC", summaries_of(*every[:900]), NOW)
    glideins.ended("PSC", summaries_of(*every), NOW)
    assert glideins.totals()["PSC", "RM"]["glideins"] == 1000


def test_ended_glideins_are_forgotten_and_the_data_of_a_malicious_site_is_limited(glideins, database, monkeypatch):
    monkeypatch.setattr(store, "MAX_ENTRIES_OF_A_SITE", 2)
    monkeypatch.setattr(store, "MAX_OF_A_SITE", 3)
    glideins.ended("PSC", summaries_of(*(ended_glidein(number, entry=f"e{number}") for number in range(4))), NOW)
    glideins.ended("PSC", summaries_of(*(ended_glidein(10 + number) for number in range(3))), NOW + 60)
    assert len(glideins.totals()) == 2
    assert rows_of(database, schema.ended_glidein) == ["10", "11", "12"]
    glideins.delete_old(NOW + 61 + store.KEEP_ENDED_S)
    assert rows_of(database, schema.ended_glidein) == []


def test_a_report_brings_summaries_to_the_metrics_and_the_supply(service):
    report = site_report(summaries=summaries_of(ended_glidein(1)))
    for _again in range(2):
        assert service.result("report", report, TOKEN) == {"accepted": True}
    assert service.result("get_supply")["summaries_until"] == {"PSC": NOW}
    metrics = service.get("/metrics").text
    for name, number in (("ended_glideins", 1), ("jobs", 3), ("failed_jobs", 1)):
        assert f'glidein_site_{name}_total{{entry="RM",site="PSC"}} {number}.0' in metrics


def shown_after(service, running, *summaries):
    """Return the history in get_supply after a report that lists so many running glideins, and one with summaries."""
    listed = [{"id": str(number), "wait_s": 5} for number in range(1, running + 1)]
    entry = {"entry": "RM", "shape": "node", "running_glideins": listed}
    service.result("report", site_report(entries=[entry]), TOKEN)
    service.result("report", site_report(as_of=NOW + 1, summaries=summaries_of(*summaries)), TOKEN)
    (shown,) = service.result("get_supply")["entries"]
    names = ("started", "registered", "never_registered", "ended_early", "jobs_failing")
    return [shown["history"][name] for name in names]


def test_the_guard_gets_failed_jobs(service):
    long_ago = {"started": NOW - 7300, "ended": NOW - 1}
    failing = ended_glidein(1, exit_status=30, jobs=3, jobs_failed=3, **long_ago)
    early = ended_glidein(3, started=NOW - 100, ended=NOW - 1, jobs=0, jobs_failed=0)
    never = ended_glidein(4, registered=None, exit_status=19)
    assert shown_after(service, 4, failing, ended_glidein(2, **long_ago), early, never) == [4, 3, 1, 2, 1]


def test_one_users_failing_jobs_are_not_a_black_hole(service):
    after_good_ones = ended_glidein(1, exit_status=30, jobs=40, jobs_failed=3, started=NOW - 7300, ended=NOW - 1)
    soon = ended_glidein(2, exit_status=30, jobs=4, jobs_failed=3, started=NOW - 100, ended=NOW - 1)
    assert shown_after(service, 2, after_good_ones, soon) == [2, 2, 0, 0, 0]


def test_a_black_hole_that_no_report_lists_as_running_is_in_the_history_and_on_the_page(service):
    entry = {"entry": "RM", "shape": "node", "queued": 2, "running": 0, "running_glideins": []}
    reason = "fewer GPUs than GLIDEIN_GPUS=1 (DetectedGPUs=0)"
    failed = {"registered": None, "jobs": 0, "jobs_failed": 0, "exit_status": 17, "reason": reason}
    for cycle in range(3):
        since = NOW - 60 * (3 - cycle)
        ended = ended_glidein(cycle, started=since - 9, ended=since - 5, **failed)
        summaries = summaries_of(ended, since=since - 60 if cycle else 0, until=since)
        service.result("report", site_report(as_of=since, entries=[entry], summaries=summaries), TOKEN)
    (shown,) = service.result("get_supply")["entries"]
    assert [shown["history"][name] for name in ("started", "registered", "never_registered")] == [3, 0, 3]
    assert shown["history"]["failures"] == [{"exit_status": 17, "count": 3, "last": NOW - 65, "reason": reason}]
    text = "RM/node: 3 of 3 glideins that started in the last 6 h never registered. 3 ended with status 17: " + reason
    assert text in service.page()
    assert 'glidein_site_recent_never_registered{entry="RM",site="PSC"} 3.0' in service.get("/metrics").text
