# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import threading

import pytest
from glidein_demand.store.database import Database
from glidein_demand.store.reports import FullError, Reports, newly_launched

from databases import NOW

DAY = 86400


def entry(**changes):
    return {"entry": "RM", "shape": "node", "present": 3, "queued": 1, "running": 2, "sick": 0, "registered": 2,
            "launched": 1, "cancelled": 0, "reason": "28 idle jobs", "error": None, **changes}  # fmt: skip


def report(site="PSC", as_of=NOW, **changes):
    return {"site": site, "as_of": as_of, "error": None, "entries": [entry()], "orphans": 0, **changes}


@pytest.fixture
def reports(database):
    return Reports(database, max_sites=2)


def test_a_report_replaces_the_previous_one(reports):
    reports.add(report(error="login needed"), NOW)
    reports.add(report(as_of=NOW + 5), NOW + 5)
    assert reports.reports() == {"PSC": {**report(as_of=NOW + 5), "received": NOW + 5}}


def test_reports_and_monitoring_outlive_their_process(reports, database_url):
    odd = report(error='Zeichen "é\x00\u2028" <b>', entries=[entry(running=None), entry(shape="half", queued=2**53)])
    reports.add(odd, NOW)
    reports.add_monitoring("glide@login1", {"glideins_running": {"Cluster": 7.5}}, NOW, "PSC")
    reports.add_monitoring("old@login2", {}, NOW, "PSC")
    again = Reports(Database(database_url))
    assert again.reports() == reports.reports() == {"PSC": {**odd, "received": NOW}}
    assert again.monitoring() == reports.monitoring()
    assert again.monitoring() == {
        "glide@login1": {"received": NOW, "metrics": {"glideins_running": {"Cluster": 7.5}}, "site": "PSC"},
        "old@login2": {"received": NOW, "metrics": {}, "site": "PSC"},
    }
    assert again.launched() == reports.launched() == {"PSC": 2}


def test_the_number_of_sites_is_limited_and_existing_ones_may_report(reports):
    reports.add(report("A"), NOW)
    reports.add(report("B"), NOW)
    with pytest.raises(FullError, match="2 sites are known already"):
        reports.add(report("C"), NOW)
    reports.add(report("A"), NOW + 1)
    assert sorted(reports.reports()) == ["A", "B"]


def test_the_number_of_clients_is_bounded_too(reports):
    for uuid in ("a", "b", "a"):
        reports.add_monitoring(uuid, {}, NOW, "A")
    with pytest.raises(FullError):
        reports.add_monitoring("c", {}, NOW, "A")
    assert sorted(reports.monitoring()) == ["a", "b"]


def test_a_client_whose_name_not_every_database_can_keep_is_refused(reports):
    with pytest.raises(ValueError, match="uuid must not have the character NUL"):
        reports.add_monitoring("a\0b", {}, NOW, "A")
    assert reports.monitoring() == {}


def test_a_forgotten_site_leaves_nothing_and_makes_room(reports, database_url):
    reports.add(report("A"), NOW)
    reports.add(report("B"), NOW)
    reports.add_monitoring("client", {}, NOW, "A")
    assert reports.delete("A") is True
    assert reports.delete("A") is False
    for known in (reports, Reports(Database(database_url))):
        assert (list(known.reports()), known.monitoring(), known.launched()) == (["B"], {}, {"B": 1})
    reports.add(report("C"), NOW)


def test_a_returned_report_does_not_change(reports):
    reports.add(report("A"), NOW)
    before = reports.reports()
    reports.add(report("A", as_of=NOW + 5), NOW + 5)
    reports.add(report("B"), NOW + 5)
    assert before == {"A": {**report("A"), "received": NOW}}


def test_a_report_that_comes_again_launches_nothing_more(reports, database_url):
    for report_ in (report(as_of=NOW), report(as_of=NOW), report(as_of=NOW + 60)):
        reports.add(report_, NOW)
    assert reports.launched() == Reports(Database(database_url)).launched() == {"PSC": 2}


def test_a_report_that_was_overtaken_changes_nothing(reports, database_url):
    newer = report(as_of=NOW, error="login needed")
    assert reports.add(newer, NOW) is True
    assert reports.add(report(as_of=NOW - 60), NOW + 5) is False
    for known in (reports, Reports(Database(database_url))):
        assert known.reports() == {"PSC": {**newer, "received": NOW}}
        assert known.launched() == {"PSC": 1}


def test_the_last_report_brought_again_does_not_make_its_site_look_alive(reports, database_url):
    assert reports.add(report(), NOW + 5) is True
    assert reports.add(report(), NOW + 3600) is False
    for known in (reports, Reports(Database(database_url))):
        assert known.reports() == {"PSC": {**report(), "received": NOW + 5}}


def test_a_report_from_the_future_does_not_keep_later_ones_away(reports):
    reports.add(report(as_of=NOW + 86400), NOW)
    assert reports.add(report(as_of=NOW + 60), NOW + 60) is True
    assert reports.reports()["PSC"]["as_of"] == NOW + 60


def test_launched_glideins_of_all_entries_are_summed():
    assert newly_launched(None, report(entries=[entry(launched=3), entry(shape="half", launched=4)])) == 7


def test_reports_of_many_threads_are_all_kept(database, database_url):
    reports = Reports(database, max_sites=1000)

    def send(number):
        for turn in range(5):
            reports.add(report(f"S{number}", as_of=NOW + turn), NOW + turn)
            reports.add_monitoring(f"c{number}", {"turn": {"x": turn}}, NOW + turn, "A")

    threads = [threading.Thread(target=send, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = Reports(Database(database_url))
    assert again.reports() == reports.reports()
    assert again.monitoring() == reports.monitoring()
    assert set(again.launched().values()) == {5}
    assert {found["received"] for found in reports.reports().values()} == {NOW + 4}
    assert len(reports.reports()) == len(reports.monitoring()) == 12
