# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of JSON-RPC 2.0 as specified, and of PyGlidein's deviations."""

import json

import pytest
from glidein_demand.values import MAX_BODY_BYTES
from glidein_demand.web import results, rpc

from conftest import NOW, TOKEN, group, site_report

CALL = {"jsonrpc": "2.0", "method": "get_state", "params": {}, "id": 7}


def error_of(response):
    assert response.status_code == 400, response.text
    body = response.json
    assert body["jsonrpc"] == "2.0"
    return body["error"]


@pytest.mark.parametrize("identity", ["a", "", "ü", 'a"b\\', 0, 2, -7, 3.5, 10**400, None, "request"])
def test_the_id_comes_back_as_it_was(service, identity):
    assert service.post({**CALL, "id": identity}).json == {"jsonrpc": "2.0", "result": [], "id": identity}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700), (b"{", -32700), (b"[" * 100_000, -32700), (b"\xff\xfe", -32700), (b'{"id": NaN}', -32700),
        (b'"\xff"', -32700), (b'{"id": "\xed\xa0\x80"}', -32700), (b'{"id": "\\ud800"}', -32700), (b"1 2", -32700),
        (b'{"id": -Infinity}', -32700), (b'{"id": 1e400}', -32700), (b'{"id": ' + b"1" * 900_000 + b"}", -32700),
        (b"1" * 4300, -32600), (b"1" * 4301, -32700), (b"[]", -32600), (b"null", -32600), (b'"x"', -32600),
        (b"{}", -32600),
    ],
)  # fmt: skip
def test_an_invalid_request_is_refused_with_the_specified_code(service, body, code):
    error = error_of(service.post(body))
    assert error["code"] == code
    assert error["data"]


@pytest.mark.parametrize(
    "change",
    [{"jsonrpc": "1.0"}, {"jsonrpc": 2.0}, {"id": []}, {"id": True}, {"method": 5}, {"params": "x"}, {"params": None}],
)
def test_a_request_with_a_wrong_member_is_invalid(service, change):
    response = service.post({**CALL, **change})
    assert error_of(response)["code"] == -32600
    assert response.json["id"] is None


def test_parameters_may_be_given_by_position(service):
    service.read(group(5))
    assert service.result("get_demand", [["PSC"]]) == service.result("get_demand", {"sites": ["PSC"]})
    assert service.result("monitoring", ["glide@login1", NOW, {"glideins_idle": 2}], TOKEN) == ""
    assert service.server.clients.recent(NOW)["glide@login1"]["metrics"] == {"glideins_idle": {"Cluster": 2}}


def test_a_notification_is_carried_out_and_not_answered(service):
    notification = {"jsonrpc": "2.0", "method": "report", "params": site_report()}
    for body in (notification, {"jsonrpc": "2.0", "method": "nonsense"}, [notification] * 2):
        response = service.post(body, TOKEN)
        assert (response.status_code, response.data) == (204, b"")
    assert "PSC" in service.server.reports.reports()


def test_every_element_of_a_batch_is_answered_for_itself(service):
    batch = [CALL, {"jsonrpc": "2.0", "method": "get_state"}, 1, {**CALL, "method": "nonsense", "id": 7}]
    response = service.post(batch)
    assert response.status_code == 200
    assert response.json == [
        {"jsonrpc": "2.0", "result": [], "id": 7},
        {"jsonrpc": "2.0", "id": None,
         "error": {"code": -32600, "message": "Invalid Request", "data": "a request must be an object"}},
        {"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": 7},
    ]  # fmt: skip


def test_a_batch_is_bounded(service):
    assert "at most 100" in error_of(service.post([CALL] * 101))["data"]


def test_an_oversized_body_is_refused_with_the_limit(service):
    response = service.post(json.dumps({**CALL, "params": {"x": "y" * MAX_BODY_BYTES}}))
    assert response.status_code == 413
    assert "1048576 bytes" in response.json["error"]["data"]
    assert service.post(CALL).status_code == 200


def test_another_content_type_is_refused(service):
    error = error_of(service.post(CALL, content_type="text/plain"))
    assert "application/json" in error["data"]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "BREW"])
def test_another_http_method_on_jsonrpc_is_answered_with_a_jsonrpc_error(service, method):
    response = service.client.open("/jsonrpc", method=method)
    assert (response.status_code, response.json["error"]["code"]) == (405, -32600)
    assert "POST" in response.headers["Allow"]


def test_a_batch_is_answered_until_its_reply_is_too_long(service, monkeypatch):
    monkeypatch.setattr(rpc, "MAX_REPLY_BYTES", 500)
    service.read(*(group(5, memory_mb=128 * number) for number in range(1, 10)))
    calls = [{"jsonrpc": "2.0", "method": "get_demand", "id": number} for number in (1, 2)]
    first, second = service.post(calls).json
    assert len(first["result"]["groups"]) == 9
    assert (second["id"], second["error"]["code"]) == (2, -32002)


def test_an_unexpected_exception_is_logged_without_parameters_and_answered(service, monkeypatch, caplog):
    def fail(*_arguments):
        raise RuntimeError("the reason")

    monkeypatch.setattr(results, "supply", fail)
    monkeypatch.setattr(service.server.glideins, "reported", fail)
    response = service.call("get_supply", token=TOKEN)
    assert (response.status_code, response.json["error"]["code"]) == (500, -32603)
    service.call("report", site_report(error="a secret"), TOKEN)
    records = [record for record in caplog.records if record.name == "glidein_demand.web.methods"]
    assert [record.levelname for record in records] == ["ERROR", "ERROR"]
    ours = "".join(caplog.handler.format(record) for record in records)
    assert "in get_supply" in ours
    assert "in report" in ours
    assert "RuntimeError: the reason" in ours
    assert "secret" not in ours
    assert TOKEN not in ours
