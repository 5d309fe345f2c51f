# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of sites' reports, and of the monitoring data of PyGlidein clients: those with a token, and the others."""

import logging
import threading

import pytest
from glidein_demand import server
from glidein_demand.store.database import Database
from glidein_demand.store.reports import Clients, FullError, Reports, newly_launched
from glidein_demand.web import parameters

from conftest import TOKEN, group
from databases import NOW

METRICS = {"glideins_running": {"Cluster": 7}, "glideins_idle": {"Cluster": 3}, "glideins_launched": {"Cluster": 3}}


def entry(**changes):
    return {"entry": "RM", "shape": "node", "present": 3, "queued": 1, "running": 2, "sick": 0, "registered": 2,
            "launched": 1, "cancelled": 0, "reason": "28 idle jobs", "error": None, **changes}  # fmt: skip


def report(site="PSC", as_of=NOW, **changes):
    return {"site": site, "as_of": as_of, "error": None, "entries": [entry()], "orphans": 0, **changes}


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
    reports.add(report("A"), NOW)
    reports.add(report("B"), NOW)
    with pytest.raises(FullError, match="2 sites are known already"):
        reports.add(report("C"), NOW)
    reports.add(report("A", as_of=NOW + 1), NOW + 1)
    reports.delete("A")
    for known in (reports, Reports(Database(database_url))):
        assert (list(known.reports()), known.launched()) == (["B"], {"B": 1})
    reports.add(report("C"), NOW)


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


def test_launched_glideins_of_all_entries_are_summed():
    assert newly_launched(None, report(entries=[entry(launched=3), entry(shape="half", launched=4)])) == 7


def test_reports_of_many_threads_are_all_kept(database, database_url):
    reports = Reports(database, max_sites=1000)

    def send(number):
        for turn in range(5):
            reports.add(report(f"S{number}", as_of=NOW + turn), NOW + turn)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = Reports(Database(database_url))
    assert again.reports() == reports.reports()
    assert set(again.launched().values()) == {5}
    assert [found["received"] for found in reports.reports().values()] == [NOW + 4] * 12


def test_beyond_the_limit_the_client_with_the_oldest_data_is_removed():
    clients = Clients(2, keep_s=60)
    for number, uuid in enumerate(("a", "b", "a", "c")):
        clients.add(uuid, METRICS, NOW + number, "PSC")
    assert list(clients.recent(NOW + 3)) == ["a", "c"]
    assert clients.recent(NOW + 63) == {"c": {"received": NOW + 3, "metrics": METRICS, "site": "PSC"}}
    clients.delete("PSC")
    assert clients.recent(NOW) == {}


def monitoring(service, uuid="glide@login1", metrics=METRICS, token=None):
    return service.call("monitoring", {"uuid": uuid, "timestamp": NOW, "metrics": metrics}, token)


def refusals(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "glidein_demand.store.reports"]


def test_clients_without_a_token_are_accepted_and_shown_separately_for_a_day(service):
    assert service.error("monitoring", {"uuid": "b"}, "wrong")["code"] == -32001
    assert monitoring(service, "without@login2").json["result"] == ""
    assert monitoring(service, "with@login1", token=TOKEN).status_code == 200
    known, unknown = service.page().split("Not authenticated")
    assert ("with@login1" in known, "without@login2" in known) == (True, False)
    assert ("with@login1" in unknown, "without@login2" in unknown) == (False, True)
    service.now += 4000  # silent, and no problem of the pool
    assert "without@login2" not in service.page().split("Not authenticated")[0]
    service.now += 86400
    assert "without@login2" not in service.page()


def test_a_client_without_a_token_does_not_replace_one_with_a_token(service):
    monitoring(service, token=TOKEN)
    for number in range(server.MAX_ANONYMOUS + 1):
        monitoring(service, f"c{number}")
    monitoring(service, metrics={"glideins_running": {"Cluster": 1000000}})
    assert len(service.server.anonymous.recent(NOW)) == server.MAX_ANONYMOUS
    assert service.server.clients.recent(NOW)["glide@login1"]["metrics"] == METRICS


def test_clients_without_a_token_influence_neither_demand_nor_supply_nor_the_history_of_sites(service):
    service.read(group(5))

    def known():
        return [service.result(method, token=TOKEN) for method in ("get_demand", "get_supply", "get_state")]

    before = known()
    monitoring(service)
    assert known() == before
    service.upkeep.record()
    assert service.server.history.site_series(NOW - 900, NOW + 900)["sites"] == {}


def test_the_size_of_a_clients_data_is_limited(service):
    many = {f"p{number}": 1 for number in range(parameters.MAX_ANONYMOUS_PARTITIONS + 1)}
    response = monitoring(service, metrics={"glideins_running": many})
    assert "at most 50 are allowed" in response.json["error"]["data"]
    assert monitoring(service, metrics={"glideins_running": many}, token=TOKEN).status_code == 200
    monitoring(service, "x" * 5000, {"glideins_running": {"y" * 5000: 1}})
    (client,) = service.server.anonymous.recent(NOW)
    assert len(client) == 200


@pytest.mark.parametrize("settings", [{"allow_anonymous_monitoring": False}, {"reading": "token"}])
def test_a_refused_client_is_logged_once_with_the_setting(new_service, caplog, settings):
    service = new_service(server=settings)
    for _cycle in range(3):
        answer = monitoring(service).json["error"]
        monitoring(service, "other")
    assert (answer["code"], "server.allow_anonymous_monitoring = true" in answer["data"]) == (-32001, True)
    first, second = refusals(caplog)
    assert "monitoring of the client 'glide@login1'" in first
    assert "server.allow_anonymous_monitoring = true" in first
    assert 'server.reading = "open"' in first
    assert "'other'" in second
    assert service.server.anonymous.recent(NOW) == {}


def test_callers_cannot_fill_the_log_with_refusals(new_service, caplog):
    service = new_service(server={"allow_anonymous_monitoring": False})
    with caplog.at_level(logging.INFO):
        for number in range(150):
            monitoring(service, f"{number}\n{'x' * 500}")
    lines = refusals(caplog)
    assert len(lines) == 100
    assert max(map(len, lines)) < 300
    assert not any("\n" in line for line in lines)


def test_a_get_state_without_a_token_is_refused_with_the_setting_in_the_log(new_service, caplog):
    service = new_service(server={"reading": "token"})
    for _cycle in range(3):
        service.error("get_state")
    (line,) = refusals(caplog)
    assert line == "get_state of the client 'PyGlidein' without a token is refused: server.reading = \"token\""
