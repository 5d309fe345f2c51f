# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of get_state as PyGlidein's clients call it."""

import pytest

from conftest import TOKEN, group

BODY = b'{"jsonrpc": "2.0", "method": "get_state", "params": {}, "id": 0}'
# The headers of Python's urllib, which PyGlidein's client uses.
URLLIB = {"Accept-Encoding": "identity", "Connection": "close", "User-Agent": "Python-urllib/3.11"}


def lease(service, jobs, token=TOKEN, site="PSC"):
    return service.result("lease", {"site": site, "entries": {"RM": {group()["id"]: jobs}}}, token)


def count(service, token=None):
    return sum(row["count"] for row in service.result("get_state", token=token))


def test_jobs_that_a_site_holds_leases_on_are_not_offered_to_pyglidein_clients(service):
    service.read(group(47))
    lease(service, 31)
    assert count(service) == 16
    service.now += 3600
    assert count(service) == 47


def test_get_state_with_a_sites_token_includes_its_leased_jobs(service):
    service.read(group(47))
    lease(service, 31)
    assert (count(service, TOKEN), count(service, service.token("Cedar"))) == (47, 16)


def test_values_are_those_of_the_request(service):
    service.read(group(5, memory_mb=4000, disk_mb=1001))
    assert service.result("get_state") == [
        {"cpus": 1, "memory": 4000, "disk": 1001.0, "gpus": 0, "os": None, "count": 5}
    ]


def test_requirements_are_read_and_not_shown(service):
    service.read(group(5, requirements='TARGET.OpSysAndVer =?= "SL6" && Owner == "alice"'))
    response = service.call("get_state")
    assert response.json["result"][0]["os"] == "sl6"
    assert "alice" not in response.text


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"headers": {"Accept-Encoding": "gzip"}}, 200), ({"content_type": "text/plain"}, 400),
        ({"token": "unknown"}, 400), ({"body": b"[" + BODY + b"]"}, 200), ({"body": BODY[:-1]}, 400),
        ({"body": BODY.replace(b"{}", b'{"a": 1}')}, 400), ({"body": BODY.replace(b', "id": 0', b"")}, 204),
        ({"body": BODY.replace(b"2.0", b"1.0")}, 400), ({"body": BODY.replace(b": 0", b": [0]")}, 400),
        ({"body": BODY + b" " * 5000}, 200), ({"body": b""}, 400),
    ],
)  # fmt: skip
def test_calls_in_every_form_get_the_status_of_json_rpc(service, change, status):
    service.read(group(5))
    assert service.post(change.pop("body", BODY), **change).status_code == status


def test_get_state_requires_a_token_if_reading_does(new_service):
    service = new_service(server={"reading": "token"})
    service.read(group(5))
    assert service.error("get_state")["code"] == -32001
    assert count(service, TOKEN) == 5


@pytest.mark.parametrize("headers", [URLLIB, {"Accept-Encoding": "gzip"}])
def test_a_call_counts_once_in_the_metrics(service, headers):
    assert [service.post(BODY, headers=headers).status_code for _call in range(2)] == [200, 200]
    metrics = service.get("/metrics", TOKEN).text
    assert 'glidein_demand_rpc_calls_total{method="get_state",outcome="ok"} 2.0' in metrics
