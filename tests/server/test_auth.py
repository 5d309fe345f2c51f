# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the authentication and authorization of callers."""

import base64

import pytest
from glidein_demand.web.auth import secret_of

from conftest import TOKEN, group, site_report

METHODS = ("get_state", "get_demand", "get_supply", "lease", "report", "monitoring")
WRITING = {"report": site_report(), "lease": {"site": "PSC", "entries": {}}}
PARAMS = {**WRITING, "monitoring": {"uuid": "a", "glideins_idle": 1}}
PATHS = ("/", "/demand", "/supply", "/metrics", "/history", "/usage", "/static/style.css", "/nothing")


def basic(text):
    return "Basic " + base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()


WRONG = ["Bearer wrong", "Bearer", TOKEN, f"Bearer {TOKEN}x", "Bearer \xe4\xf6", basic(f"{TOKEN}:"), "Basic \xff"]


@pytest.mark.parametrize(
    ("header", "secret"),
    [
        ("Bearer abc", "abc"), ("bearer  abc ", "abc"), (basic("anybody:abc"), "abc"), (basic(":abc"), "abc"),
        (basic("a:b:c"), "b:c"), ("Basic !!!", ""), ("Basic", ""), ("Negotiate abc", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_secret_in_a_header(header, secret):
    assert secret_of(header) == secret


def authorised(service, method, header):
    request = {"jsonrpc": "2.0", "method": method, "params": PARAMS.get(method, {}), "id": 1}
    return service.post(request, authorization=header)


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}", basic(f"whoever:{TOKEN}")])
@pytest.mark.parametrize("method", METHODS)
def test_a_sites_token_is_taken_in_both_forms(service, method, header):
    service.read(group())
    assert authorised(service, method, header).status_code == 200


@pytest.mark.parametrize("header", WRONG)
def test_an_invalid_token_is_refused_everywhere_and_does_not_count_as_missing(new_service, header):
    service = new_service()
    for method in (*METHODS, "get_job"):
        response = authorised(service, method, header)
        assert (response.status_code, response.json["error"]["code"]) == (400, -32001), method
        assert TOKEN not in response.text
    for path in PATHS:
        response = service.client.get(path, headers={"Authorization": header})
        assert response.status_code == 401, path
        assert TOKEN not in response.text


@pytest.mark.parametrize("method", WRITING)
def test_writing_needs_a_sites_token(service, method):
    anonymous = service.error(method, WRITING[method])
    assert (anonymous["code"], "Bearer" in anonymous["data"]) == (-32001, True)
    reader = service.error(method, WRITING[method], service.token("grafana", "reader"))
    assert (reader["code"], "reader" in reader["data"]) == (-32001, True)
    assert service.server.reports.reports() == {}


@pytest.mark.parametrize("method", WRITING)
def test_a_site_cannot_write_for_another(service, method):
    service.read(group())
    error = service.error(method, {**WRITING[method], "site": "Cedar"}, TOKEN)
    assert (error["code"], "belongs to site PSC, not to Cedar" in error["data"]) == (-32001, True)
    assert service.server.reports.reports() == {}


def test_where_reading_needs_a_token_only_the_health_is_open(new_service):
    service = new_service(server={"reading": "token"})
    service.read(group(), schedd="secret-schedd.example.org")
    service.server.pool_state.store_demand_error("secret-schedd.example.org", "down")
    for path in PATHS:
        response = service.get(path)
        assert response.status_code == 401, path
        assert response.headers["WWW-Authenticate"].startswith("Basic ")
        assert service.get(path, TOKEN).status_code == (404 if path == "/nothing" else 200), path
    assert service.error("get_job", {"job": "1.0"})["code"] == -32001
    for method in ("get_state", "get_demand", "get_supply"):
        assert service.error(method)["code"] == -32001
        assert service.call(method, token=TOKEN).status_code == 200
    healthy = service.get("/healthz")
    assert (healthy.status_code, healthy.json["failed_schedds"]) == (200, 1)
    assert "secret-schedd" not in healthy.text
    assert "secret-schedd" in service.get("/healthz", TOKEN).text
