# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of sites' reports, and of how many PyGlidein clients are remembered."""

import pytest
from glidein_demand.store import reports as reports_
from glidein_demand.store.database import Database
from glidein_demand.store.reports import Clients, FullError, Reports

from conftest import NOW
from conftest import reported_entry as entry
from conftest import site_report as report

METRICS = {"glideins_running": {"Cluster": 7}, "glideins_idle": {"Cluster": 3}, "glideins_launched": {"Cluster": 3}}


@pytest.fixture
def reports(database):
    return Reports(database, max_sites=2)


def test_a_report_replaces_the_previous_one_and_outlives_its_process(reports, database_url):
    reports.add(report(error="login needed"), NOW)
    before = reports.reports()
    odd = report(error='Zeichen "é\x00\u2028" <b>', entries=[entry(running=None), entry(shape="half", queued=2**53)])
    assert reports.add({**odd, "as_of": NOW + 5}, NOW + 5) is True
    assert before == {"PSC": {**report(error="login needed"), "received": NOW}}  # what was returned does not change
    again = Reports(Database(database_url))
    assert again.reports() == reports.reports() == {"PSC": {**odd, "as_of": NOW + 5, "received": NOW + 5}}
    assert again.launched() == reports.launched() == {"PSC": 3}


def test_the_number_of_sites_is_limited_and_a_forgotten_one_makes_room(reports, database_url):
    reports.add(report(site="A"), NOW)
    reports.add(report(site="B"), NOW)
    with pytest.raises(FullError, match="2 sites are known already"):
        reports.add(report(site="C"), NOW)
    reports.add(report(site="A", as_of=NOW + 1), NOW + 1)
    reports.delete("A")
    for known in (reports, Reports(Database(database_url))):
        assert (list(known.reports()), known.launched()) == (["B"], {"B": 1})
    reports.add(report(site="C"), NOW)


@pytest.mark.parametrize(
    ("as_of", "received", "is_new"),
    [
        (NOW, NOW + 3600, False),  # sent again: the site must not look active
        (NOW - 60, NOW + 5, False),
        (NOW + 60, NOW + 60, True),
    ],
)
def test_a_report_that_is_not_newer_than_the_last_one_is_not_stored(reports, database_url, as_of, received, is_new):
    reports.add(report(), NOW)
    assert reports.add(report(as_of=as_of), received) is is_new
    last = {**report(as_of=as_of), "received": received} if is_new else {**report(), "received": NOW}
    for known in (reports, Reports(Database(database_url))):
        assert (known.reports(), known.launched()) == ({"PSC": last}, {"PSC": 1 + is_new})


def test_a_report_from_the_future_does_not_keep_later_ones_away(reports):
    reports.add(report(as_of=NOW + 86400), NOW)
    assert reports.add(report(as_of=NOW + 60), NOW + 60) is True
    assert reports.reports()["PSC"]["as_of"] == NOW + 60


def test_beyond_the_limit_the_client_with_the_oldest_data_is_removed(monkeypatch):
    monkeypatch.setattr(reports_, "MAX_CLIENTS", 2)
    clients = Clients()
    for number, uuid in enumerate(("a", "b", "a", "c")):
        clients.add(uuid, METRICS, NOW + number)
    assert list(clients.recent(NOW + 3)) == ["a", "c"]
    assert clients.recent(NOW + 86403) == {"c": {"received": NOW + 3, "metrics": METRICS}}
