# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of PyGlidein's methods, get_state and monitoring, on recorded calls of its clients."""

import pytest

from conftest import NOW, TOKEN, group
from page_data import Page

METRICS = {"glideins_running": {"Cluster": 7}, "glideins_idle": {"Cluster": 3}, "glideins_launched": {"Cluster": 3}}
GET_STATE = '{"jsonrpc":"2.0","method":"get_state","params":{},"id":0}'


# --- get_state ---


def test_recorded_get_state_before_and_after_the_first_reading(service):
    assert service.post(GET_STATE).json == {"jsonrpc": "2.0", "result": [], "id": 0}
    asked = 'TARGET.OpSysAndVer =?= "SL6" && Owner == "alice"'
    service.read(group(1000, cpus=2, memory_mb=550, disk_mb=100, requirements=asked))
    rows = [{"cpus": 2, "memory": 550, "disk": 100.0, "gpus": 0, "os": "sl6", "count": 1000}]
    assert service.post(GET_STATE).json == {"jsonrpc": "2.0", "result": rows, "id": 0}


def test_recorded_errors(service):
    unknown = service.post('{"jsonrpc":"2.0","method":"nothing","params":{},"id":3}')
    assert unknown.status_code == 400
    assert unknown.json == {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": 3}
    invalid = service.post('{"method":"get_state","params":{},"id":3}')
    assert invalid.status_code == 400
    assert invalid.json == {
        "jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request", "data": "jsonrpc is not 2.0"},
        "id": None,
    }  # fmt: skip


# --- monitoring ---


@pytest.mark.parametrize(
    ("params", "uuid", "running"),
    [
        (
            '{"uuid":"glide@login1","timestamp":1795211273,"metrics":{"avg_idle_time":{"Cluster":0},'
            '"min_idle_time":{"Cluster":0},"max_idle_time":{"Cluster":0},"glideins_idle":{"Cluster":3},'
            '"glideins_launched":{"Cluster":3},"glideins_running":{"Cluster":7}}}',
            "glide@login1", {"Cluster": 7},
        ),
        (
            '{"uuid":"old@login2","glideins_idle":1,"glideins_running":2,"glideins_launched":0}',
            "old@login2", {"Cluster": 2},
        ),
        (
            '{"uuid":"mid@login3","glideins_idle":{"Cluster":1},"glideins_running":{"Cluster":4}}',
            "mid@login3", {"Cluster": 4},
        ),
        # `uuid = 42` in the client's configuration.
        ('{"uuid":42,"glideins_idle":{"Cluster":1},"glideins_running":{"Cluster":4}}', "42", {"Cluster": 4}),
    ],
)  # fmt: skip
def test_recorded_monitoring_in_each_of_its_forms(service, params, uuid, running):
    response = service.post(f'{{"jsonrpc":"2.0","method":"monitoring","params":{params},"id":1}}')
    assert (response.status_code, response.json) == (200, {"jsonrpc": "2.0", "result": "", "id": 1})
    assert service.server.clients.recent(NOW)[uuid]["metrics"]["glideins_running"] == running
    assert Page(service.page()).cells(uuid)[0][2] == f"{running['Cluster']}"


def monitoring(service, uuid="glide@login1", metrics=None, token=None):
    params = {"uuid": uuid, "timestamp": NOW, "metrics": METRICS if metrics is None else metrics}
    return service.call("monitoring", params, token)


def refusals(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "glidein_demand.store.reports"]


def test_a_client_influences_nothing(service):
    service.read(group(5))

    def known():
        return [service.result(method, token=TOKEN) for method in ("get_demand", "get_supply", "get_state")]

    before = known()
    monitoring(service)
    assert known() == before
    service.upkeep.record()
    assert service.server.history.site_series(NOW - 900, NOW + 900)["sites"] == {}


def test_the_size_of_a_clients_data_is_limited(service):
    monitoring(service, "x" * 5000, {"glideins_running": {"y" * 5000: 1}})
    assert [len(client) for client in service.server.clients.recent(NOW)] == [200]


def test_a_refused_client_is_logged_once_with_the_setting(new_service, caplog):
    service = new_service(server={"reading": "token"})
    for _cycle in range(3):
        answer = monitoring(service).json["error"]
        monitoring(service, "other")
    assert (answer["code"], "'Authorization: Bearer <token>'" in answer["data"]) == (-32001, True)
    assert refusals(caplog) == [
        f"monitoring of the client '{name}' without a token is refused: server.reading = \"token\""
        for name in ("glide@login1", "other")
    ]
    assert service.server.clients.recent(NOW) == {}


def test_callers_cannot_fill_the_log_with_refusals(new_service, caplog):
    service = new_service(server={"reading": "token"})
    for number in range(150):
        service.error("get_state")
        monitoring(service, f"{number}\n{'x' * 500}")
    lines = refusals(caplog)
    assert lines[0] == "get_state of the client 'PyGlidein' without a token is refused: server.reading = \"token\""
    assert len(lines) == 100
    assert max(map(len, lines)) < 300
    assert not any("\n" in line for line in lines)
