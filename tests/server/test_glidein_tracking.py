# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of glidein outcomes derived from reports and the collector: the rules, and the store that keeps them."""

import shutil

import pytest
from glidein_demand.store import glidein_tracking as tracking
from glidein_demand.store import glideins as store
from glidein_demand.store.database import Database
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import NOW

KEY = ("A", "q", "s")
MINUTE = 60


def report(*running, at=NOW, site="A", entry="q", shape="s", **counts):
    """Return a checked report of one entry; `running` are batch ids or (batch id, wait).

    running_glideins=None: not reported.
    """
    rows = [{"id": one, "wait_s": 10} if isinstance(one, str) else {"id": one[0], "wait_s": one[1]} for one in running]
    listed = {"running_glideins": rows, **counts}
    numbers = {"present": 3, "queued": 1, "running": 2, "sick": 0, "registered": 2, "launched": 1, "cancelled": 0}
    return {
        "site": site, "as_of": at, "error": None, "orphans": 0,
        "entries": [{"entry": entry, "shape": shape, "reason": "", "error": None, **numbers, **listed}],
    }  # fmt: skip


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

    def history(self, at, key=KEY):
        return self.glideins.summary(at).get(key)

    def numbers(self, at):
        """Return (started, registered, never registered, ended early)."""
        found = self.history(at)
        return tuple(found[name] for name in ("started", "registered", "never_registered", "ended_early"))


@pytest.fixture
def database(tmp_path):
    return Database(f"sqlite:///{tmp_path}/state.sqlite")


@pytest.fixture
def tracked(database):
    return Tracked(database)


def test_a_glidein_that_starts_registers_and_ends_in_its_time_is_nothing_special(tracked):
    tracked.reports(NOW, "1_1")
    tracked.reads(NOW + 30, ad("1_1"))
    tracked.reads(NOW + 1200, ad("1_1", heard=NOW + 1190))
    tracked.reads(NOW + 1500)
    tracked.reports(NOW + 1510)
    assert tracked.numbers(NOW + 1520) == (1, 1, 0, 0)


def test_a_glidein_that_runs_past_the_grace_period_unregistered_never_registered(tracked):
    tracked.reports(NOW, "1_1")
    tracked.reads(NOW + tracking.GRACE_S - 1)
    assert tracked.numbers(NOW + tracking.GRACE_S) == (1, 0, 0, 0)
    tracked.reads(NOW + tracking.GRACE_S)
    assert tracked.numbers(NOW + tracking.GRACE_S) == (1, 0, 1, 0)


def test_a_glidein_that_ended_and_was_never_in_the_collector_never_registered(tracked):
    tracked.reports(NOW, "1_1")
    tracked.reads(NOW + 60)
    tracked.reports(NOW + 120)
    assert tracked.numbers(NOW + 121) == (1, 0, 1, 0)


def test_without_a_collector_reading_no_glidein_counts_as_never_registered(tracked):
    tracked.reports(NOW, "1_1")
    tracked.reports(NOW + 120)
    tracked.reads(NOW + 180)
    assert tracked.numbers(NOW + 181) == (1, 0, 0, 0)


def test_a_glidein_that_registers_late_counts_as_registered(tracked):
    tracked.reports(NOW, "1_1")
    tracked.reads(NOW + tracking.GRACE_S)
    tracked.reads(NOW + tracking.GRACE_S + 60, ad("1_1", started=NOW + tracking.GRACE_S))
    assert tracked.numbers(NOW + tracking.GRACE_S + 61) == (1, 1, 0, 0)


def test_the_collector_may_list_a_glidein_before_the_report_does(tracked):
    tracked.reads(NOW, ad("1_1"))
    tracked.reports(NOW + 60, "1_1")
    assert tracked.numbers(NOW + 61) == (1, 1, 0, 0)


def test_the_same_batch_id_of_another_site_is_another_glidein(tracked):
    tracked.reports(NOW, "1_1")
    tracked.reads(NOW + tracking.GRACE_S, ad("1_1", site="B"))
    assert tracked.numbers(NOW + tracking.GRACE_S)[2] == 1


def test_a_glidein_that_disappears_soon_after_its_start_ended_early(tracked):
    tracked.reads(NOW + 10, ad("1_1", started=NOW, heard=NOW + 5))
    tracked.reads(NOW + 310)
    assert tracked.history(NOW + 311)["ended_early"] == 1


def test_a_glidein_with_an_ad_after_five_minutes_did_not_end_early(tracked):
    tracked.reads(NOW + 10, ad("1_1", started=NOW, heard=NOW + 5))
    tracked.reads(NOW + 310, ad("1_1", started=NOW, heard=NOW + tracking.EARLY_S))
    tracked.reads(NOW + 610)
    assert tracked.history(NOW + 611)["ended_early"] == 0


def test_a_restart_of_the_collector_is_nobodys_end(tracked):
    tracked.reads(NOW + 10, ad("1_1", started=NOW, heard=NOW + 5))
    tracked.reads(NOW + 20)
    assert tracked.history(NOW + 21)["ended_early"] == 1
    tracked.reads(NOW + 60, ad("1_1", started=NOW, heard=NOW + 55))
    assert tracked.history(NOW + 61)["ended_early"] == 0


def test_a_report_without_counts_ends_no_glidein(tracked):
    tracked.reports(NOW, "1_1")
    tracked.reads(NOW + 60)
    tracked.reports(NOW + 120, running_glideins=None)
    tracked.glideins.reported({**report(at=NOW + 180), "entries": [], "error": "unreachable"}, NOW + 180)
    assert tracked.numbers(NOW + 181) == (1, 0, 0, 0)


def test_a_glidein_missing_in_one_report_has_not_ended(tracked):
    tracked.reports(NOW, "1_1")
    tracked.reads(NOW + 60)
    tracked.reports(NOW + 120)
    tracked.reports(NOW + 180, "1_1")
    assert tracked.numbers(NOW + 181) == (1, 0, 0, 0)


def test_another_entrys_report_ends_no_glidein(tracked):
    tracked.reports(NOW, "1_1")
    tracked.reads(NOW + 60)
    tracked.reports(NOW + 120, entry="other")
    assert tracked.numbers(NOW + 121) == (1, 0, 0, 0)


def test_without_running_glideins_in_the_reports_derived_counts_are_unknown(tracked):
    tracked.reports(NOW, running_glideins=None)
    tracked.reads(NOW + 10, ad("1_1"))
    history = tracked.history(NOW + 20)
    assert (history["started"], history["never_registered"], history["wait_median_s"]) == (None, None, None)
    assert (history["registered"], history["ended_early"]) == (1, 0)


def test_an_entry_without_running_glideins_has_zero_and_no_waits(tracked):
    tracked.reports(NOW)
    assert tracked.numbers(NOW) == (0, 0, 0, 0)
    assert tracked.history(NOW)["wait_p90_s"] is None


def test_waits_are_those_of_the_window_and_unknown_ones_do_not_count(tracked):
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


def test_everything_outlives_a_restart(tracked, database):
    tracked.reports(NOW, "1_1")
    again = Tracked(database)
    again.reads(NOW + tracking.GRACE_S)
    assert again.numbers(NOW + tracking.GRACE_S) == (1, 0, 1, 0)


def test_the_documented_forms_of_rows_are_accepted(tracked):
    tracked.glideins.running("A", [("q", "s", "1_1", 7), ("q", "s", "1_2", None)], NOW)
    tracked.glideins.running("A", [], NOW + 60, listed={("q", "s")})
    tracked.glideins.registered([ad("1_1")], NOW + 70)
    found = tracked.history(NOW + 80)
    assert (found["registered"], found["wait_median_s"]) == (1, 7)


def rows_of(database):
    with database.read() as connection:
        return connection.exec_driver_sql("SELECT batch_id FROM glidein ORDER BY batch_id").scalars().all()


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


def test_forgetting_happens_by_itself(tracked, database):
    tracked.reads(NOW, ad("1_1"))
    tracked.reads(NOW + 60)
    tracked.reads(NOW + 61 + store.KEEP_S)
    assert rows_of(database) == []


def test_a_site_that_makes_ids_up_fills_no_disk(tracked, database, monkeypatch):
    monkeypatch.setattr(store, "MOST_OF_A_SITE", 10)
    tracked.reports(NOW, "b_1", site="B")
    for number in range(5):
        tracked.reports(NOW + number, *(f"{number}_{task}" for task in range(5)))
    assert [row for row in rows_of(database) if not row.startswith("b")] == [
        f"{number}_{task}" for number in (3, 4) for task in range(5)
    ]
    monkeypatch.setattr(store, "MOST", 5)
    tracked.glideins.delete_old(NOW + 10)
    assert len(rows_of(database)) <= 5


def test_entries_that_are_named_no_more_make_room(tracked, monkeypatch):
    monkeypatch.setattr(store, "MOST_ENTRIES_OF_A_SITE", 3)
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
    """Return the end of a glidein as in GlideinUsage.endings; by default it failed before it registered."""
    values = {
        "entry": "q", "shape": "s", "started": NOW, "registered": None, "ended": NOW + 3, "exit_status": 17,
        "reason": "fewer GPUs", "good": 0, **changes,
    }  # fmt: skip
    return {("A", f"{number}_1"): values}


def test_glideins_that_started_and_failed_between_two_reports_never_registered(tracked):
    tracked.reports(NOW)
    tracked.reports(NOW + 20)
    endings = {**ending(1), **ending(2, ended=NOW + 9, reason="fewer GPUs (2)"), **ending(3, exit_status=13)}
    found = tracked.glideins.summary(NOW + 21, endings)[KEY]
    assert (found["started"], found["registered"], found["never_registered"], found["ended_early"]) == (3, 0, 3, 0)
    assert found["failures"] == [
        {"exit_status": 17, "count": 2, "last": NOW + 9, "reason": "fewer GPUs (2)"},
        {"exit_status": 13, "count": 1, "last": NOW + 3, "reason": "fewer GPUs"},
    ]


def test_an_entry_with_only_summaries_has_a_history(tracked):
    found = tracked.glideins.summary(NOW + 21, ending())[KEY]
    assert (found["plans"], found["started"], found["never_registered"]) == ([], 1, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"started": NOW + 21 - tracking.WINDOW_S - 1},
        {"exit_status": 143},  # the next cycle has cancelled it
    ],
)
def test_a_summary_of_a_glidein_that_was_not_listed_may_not_count(tracked, changes):
    assert tracked.glideins.summary(NOW + 21, ending(**changes)) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_status": 0, "registered": NOW + 1, "ended": NOW + 60},  # no job was left for it
        {"exit_status": 36, "registered": NOW + 1, "ended": NOW + 3600},
        {"exit_status": 30, "registered": NOW + 1, "good": 1},
    ],
)
def test_a_glidein_that_registered_and_did_not_fail_at_once_is_not_a_failure(tracked, changes):
    found = tracked.glideins.summary(NOW + 7200, ending(**changes))[KEY]
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
    endings = {}
    for number, (_is_listed, is_registered, status) in enumerate(glideins):
        endings.update(ending(number, registered=NOW + 1 if is_registered else None, exit_status=status))
    found = tracked.glideins.summary(NOW + 61, endings)[KEY]
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
        expected = tracking.summaries(known.values(), {KEY: ([], NOW)}, now)[KEY]
        found = tracked.history(now)
        assert {**found, "plans": []} == expected
