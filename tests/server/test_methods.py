# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may call what, and what they get."""

import pytest
from glidein_demand import supply

from conftest import NOW, TOKEN, Service, group, site_report, slot


def with_demand(service):
    groups = [group(120, requirements='Owner == "alice"', attributes={"Owner": "alice"})]
    service.state.demand_read("", {"name": "cm", "groups": groups, "unreadable": []}, NOW)


def test_get_demand_with_the_token_has_everything(service):
    with_demand(service)
    demand = service.result("get_demand", token=TOKEN)
    assert (demand["as_of"], demand["schedds"]) == (NOW, {"answered": ["cm"], "failed": []})
    assert demand["groups"][0] == {
        "id": demand["groups"][0]["id"], "count": 120, "cpus": 1, "memory_mb": 2048, "disk_mb": 1000, "gpus": 0,
        "requirements": 'Owner == "alice"', "attributes": {"Owner": "alice"}, "max_runtime_s": None,
        "first_job": "1.0", "users": {"alice@pool": 120},
    }  # fmt: skip


def test_get_demand_without_the_token_names_nobody(service):
    with_demand(service)
    response = service.call("get_demand")
    assert response.json["result"]["groups"][0]["count"] == 120
    assert "alice" not in response.text
    assert "requirements" not in response.text


def test_unreadable_jobs_are_told_to_all_their_values_only_with_the_token(service):
    row = {"count": 2, "first_job": "3.0", "attribute": "RequestMemory", "error": "RequestMemory is alice"}
    service.state.demand_read("", {"name": "cm", "groups": [], "unreadable": [row]}, NOW)
    assert service.result("get_demand", token=TOKEN)["unreadable"] == [{"schedd": "cm", **row}]
    assert "alice" not in service.call("get_demand").text
    assert service.result("get_demand")["unreadable"][0]["count"] == 2


def test_get_supply_is_what_the_collector_said(service):
    service.state.supply_read(supply.summarise([slot()], NOW), NOW)
    found = service.result("get_supply")
    assert (found["as_of"], found["error"], found["others"], found["entries"][0]["registered"]) == (NOW, None, 0, 1)


def test_report_is_accepted_with_the_token_and_stands_on_the_page(service):
    assert service.result("report", site_report(), TOKEN) == {"accepted": True}
    assert service.state.snapshot().reports["PSC"]["received"] == NOW
    assert "28 idle jobs" in service.page()


def test_a_site_that_could_not_count_reports_unknown_and_not_zero(service):
    entry = {"entry": "RM", "shape": "node", "queued": None, "error": "squeue: exit status 1"}
    service.result("report", site_report(entries=[entry]), TOKEN)
    kept = service.state.snapshot().reports["PSC"]["entries"][0]
    assert (kept["queued"], kept["running"], kept["launched"]) == (None, None, 0)


@pytest.mark.parametrize("method", ["report", "monitoring"])
def test_writing_needs_the_token(service, method):
    params = site_report() if method == "report" else {"uuid": "a", "glideins_idle": 1}
    error = service.error(method, params)
    assert error["code"] == -32001
    assert "Bearer" in error["data"]
    assert service.state.snapshot().reports == {}
    assert service.state.snapshot().monitoring == {}


@pytest.mark.parametrize(
    "header", ["Bearer wrong", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer \xe4\xf6"]
)
@pytest.mark.parametrize("method", ["get_state", "get_demand", "get_supply", "report", "monitoring"])
def test_a_wrong_token_is_refused_everywhere_and_not_taken_for_none(service, header, method):
    params = {"report": site_report(), "monitoring": {"uuid": "a"}}.get(method, {})
    request = {"jsonrpc": "2.0", "method": method, "params": params, "id": 1}
    response = service.post(request, authorization=header)
    assert (response.status_code, response.json["error"]["code"]) == (400, -32001)
    assert TOKEN not in response.text


def test_without_a_configured_token_nobody_is_let_in_with_an_empty_one():
    service = Service(token="")
    request = {"jsonrpc": "2.0", "method": "report", "params": site_report(), "id": 1}
    assert service.post(request, authorization="Bearer ").json["error"]["code"] == -32001
    assert service.post(request).json["error"]["code"] == -32001


def test_anonymous_monitoring_does_not_let_a_wrong_token_pass():
    service = Service(server={"allow_anonymous_monitoring": True})
    assert service.error("monitoring", {"uuid": "a"}, "wrong")["code"] == -32001
    assert service.result("monitoring", {"uuid": "a"}) == ""
    assert service.result("monitoring", {"uuid": "a"}, TOKEN) == ""


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"site": ""}, "site"), ({"site": "a b"}, "site"), ({"site": "<b>"}, "site"), ({"site": "A\n"}, "site"),
        ({"site": 5}, "site"), ({"as_of": "now"}, "as_of"), ({"as_of": -1}, "as_of"), ({"as_of": 10**30}, "as_of"),
        ({"orphans": True}, "orphans"), ({"orphans": None}, "orphans"), ({"error": 5}, "error"),
        ({"error": "\ud800"}, "error"), ({"entries": {}}, "entries"), ({"entries": [5]}, "entries[0]"),
        ({"entries": [{"entry": "a"}]}, "entries[0].shape"),
        ({"entries": [{"entry": "a", "shape": "b", "queued": "3"}]}, "entries[0].queued"),
        ({"entries": [{"entry": "a", "shape": "b", "launched": -1}]}, "entries[0].launched"),
        ({"entries": [{"entry": "a", "shape": "b"}] * 1001}, "entries"),
    ],
)  # fmt: skip
def test_a_report_with_a_wrong_value_is_refused_with_its_field(service, change, named):
    error = service.error("report", site_report(**change), TOKEN)
    assert error["code"] == -32602
    assert error["data"].startswith(named + " ")
    assert service.state.snapshot().reports == {}


@pytest.mark.parametrize(
    "params",
    [{}, {"uuid": 5}, {"uuid": "a", "metrics": 5}, {"uuid": "a", "glideins_idle": "3"},
     {"uuid": "a", "metrics": {"glideins_idle": {"Cluster": None}}}, {"uuid": "a", "timestamp": "now"}],
)  # fmt: skip
def test_monitoring_with_a_wrong_value_is_refused(service, params):
    assert service.error("monitoring", params, TOKEN)["code"] == -32602


def test_the_number_of_reporting_sites_is_bounded():
    service = Service(server={"max_sites": 1})
    service.result("report", site_report(site="A"), TOKEN)
    error = service.error("report", site_report(site="B"), TOKEN)
    assert (error["code"], "max_sites = 1" in error["data"]) == (-32002, True)


def test_a_long_error_text_is_cut_and_kept(service):
    service.result("report", site_report(error="x" * 5000), TOKEN)
    assert len(service.state.snapshot().reports["PSC"]["error"]) == 2000
