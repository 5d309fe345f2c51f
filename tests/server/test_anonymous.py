# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of monitoring data from PyGlidein clients without a token: accepted, limited, shown apart, otherwise unused."""

import logging

import pytest
from glidein_demand.store import anonymous
from glidein_demand.store.reports import Reports
from glidein_demand.web import parameters
from sqlalchemy import text

from conftest import NOW, TOKEN, group

METRICS = {"glideins_running": {"Cluster": 7}, "glideins_idle": {"Cluster": 3}, "glideins_launched": {"Cluster": 3}}


def monitoring(service, uuid="glide@login1", metrics=None, token=None):
    params = {"uuid": uuid, "timestamp": NOW, "metrics": METRICS if metrics is None else metrics}
    return service.call("monitoring", params, token)


def refusals(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "glidein_demand.store.anonymous"]


def test_monitoring_without_a_token_is_accepted_by_default(service):
    assert monitoring(service).json["result"] == ""
    assert service.error("monitoring", {"uuid": "b"}, "wrong")["code"] == -32001
    assert service.server.anonymous.monitoring(NOW)["glide@login1"]["metrics"] == METRICS


def test_clients_without_a_token_are_shown_separately(service):
    monitoring(service, "with@login1", token=TOKEN)
    monitoring(service, "without@login2")
    known, unknown = service.page().split("Not authenticated")
    assert ("with@login1" in known, "without@login2" in known) == (True, False)
    assert ("with@login1" in unknown, "without@login2" in unknown) == (False, True)


def test_a_client_without_a_token_does_not_replace_one_with_a_token(service):
    monitoring(service, "glide@login1", token=TOKEN)
    monitoring(service, "glide@login1", {"glideins_running": {"Cluster": 1000000}})
    assert service.server.reports.monitoring()["glide@login1"]["metrics"] == METRICS
    assert monitoring(service, "glide@login1", token=TOKEN).status_code == 200


def test_they_influence_neither_demand_nor_supply_nor_the_history_of_sites(service):
    service.read(group(5))

    def known():
        return [service.result(method, token=TOKEN) for method in ("get_demand", "get_supply", "get_state")]

    before = known()
    monitoring(service)
    assert known() == before
    service.recorder.record()
    assert service.server.history.site_series(NOW - 900, NOW + 900)["sites"] == {}


def test_a_client_that_stops_reporting_is_not_a_problem_of_the_pool(service):
    monitoring(service)
    service.now += 4000
    assert "glide@login1" not in service.page().split("Not authenticated")[0]


def test_they_are_never_written_to_the_database(service, database):
    monitoring(service)
    with service.server.database.read() as connection:
        assert connection.execute(text("SELECT count(*) FROM monitoring")).scalar() == 0


def test_the_number_of_clients_is_limited_and_the_least_recent_one_is_removed_first(service):
    for number in range(anonymous.MOST_CLIENTS):
        monitoring(service, f"c{number}")
    monitoring(service, "c0")
    monitoring(service, "one more")
    known = service.server.anonymous.monitoring(NOW)
    assert len(known) == anonymous.MOST_CLIENTS
    assert ("c0" in known, "c1" in known, "one more" in known) == (True, False, True)


def test_sites_find_room_however_many_clients_without_a_token_there_are(new_service):
    service = new_service()
    service.server.reports = Reports(service.server.database, max_sites=1)
    for number in range(5):
        monitoring(service, f"c{number}")
    assert monitoring(service, "mine", token=TOKEN).status_code == 200


def test_the_size_of_a_clients_data_is_limited(service):
    many = {f"p{number}": 1 for number in range(parameters.MAX_ANONYMOUS_PARTITIONS + 1)}
    response = monitoring(service, metrics={"glideins_running": many})
    assert "at most 50 are allowed" in response.json["error"]["data"]
    assert monitoring(service, metrics={"glideins_running": many}, token=TOKEN).status_code == 200
    monitoring(service, "x" * 5000, {"glideins_running": {"y" * 5000: 1}})
    (client,) = service.server.anonymous.monitoring(NOW)
    assert len(client) == 200


def test_a_client_that_has_been_silent_for_a_day_is_forgotten(service):
    monitoring(service)
    service.now += anonymous.FORGET_SECONDS + 1
    assert "glide@login1" not in service.page()


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
    assert service.server.anonymous.monitoring(NOW) == {}


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
