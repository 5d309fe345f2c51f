# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the modules that run on the controller: demand_info, plan, demand_lease and demand_report."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller import demand_client
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import classad
from ansible_collections.glidein.ops.plugins.modules import demand_info, demand_lease, demand_report, plan
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    queue,
    raw_entry,
    run_module,
    supplied,
    supply,
)

TOKEN = "s3cret-token"  # noqa: S105


def test_demand_info_reads_demand_and_supply(server):
    server.say(lambda request: {"jsonrpc": "2.0", "id": 1, "result": {"method": request["method"]}})
    result = run_module(demand_info.main, {"server_url": server.url})
    assert (result["demand"], result["supply"]) == ({"method": "get_demand"}, {"method": "get_supply"})
    assert not result["changed"]


def test_demand_info_returns_the_servers_answer(server):
    server.say("<h1>busy</h1>", 503)
    result = run_module(demand_info.main, {"server_url": server.url})
    assert result["failed"]
    assert result["msg"] == "Demand server {0}/jsonrpc, get_demand: HTTP 503, not JSON: '<h1>busy</h1>'".format(
        server.url
    )


def test_demand_info_requests_the_attributes_that_sites_refer_to(server):
    server.result({})
    run_module(demand_info.main, {"server_url": server.url, "sites": ["lab"], "attributes": ["ProjectName"]})
    assert server.requests[0][2]["params"] == {"sites": ["lab"], "attributes": ["ProjectName"]}


def report(server, *sites, check=False, **changes):
    options = {"server_url": server.url, "sites": list(sites) or [reporting()], "tokens": {"lab": TOKEN}}
    return run_module(demand_report.main, dict(options, **changes), check)


def reporting(site="lab", **changes):
    told = {"as_of": NOW, "entries": [{"entry": "main", "shape": "core"}], "orphans": 1}
    return dict({"site": site, "report": told}, **changes)


def test_demand_report_sends_the_report(server):
    server.result({"accepted": True})
    result = report(server)
    assert (result["changed"], result["accepted"], result["errors"]) == (True, ["lab"], [])
    unused, headers, request = server.requests[0]
    assert headers["Authorization"] == "Bearer " + TOKEN
    assert request["method"] == "report"
    assert request["params"] == {
        "site": "lab",
        "as_of": NOW,
        "error": None,
        "orphans": 1,
        "entries": [{"entry": "main", "shape": "core"}],
        "summaries": None,
        "unserved": None,
        "deployment": None,
    }


def test_a_report_has_the_reasons_of_jobs_that_are_not_served(server):
    server.result({"accepted": True})
    rows = [{"group": "a", "count": 3, "reason": "too large"}]
    told = dict(reporting()["report"], unserved=rows)
    assert report(server, {"site": "lab", "report": told})["accepted"] == ["lab"]
    assert server.requests[0][2]["params"]["unserved"] == rows


def test_each_site_reports_with_its_own_token_and_one_that_is_refused_stops_no_other(server):
    server.say(lambda request: {"result": {"accepted": request["params"]["site"] != "away"}})
    tokens = {"lab": "another-token", "odd": "two words"}
    sites = [reporting("away"), reporting("odd"), reporting("lab")]
    result = report(server, *sites, token=TOKEN, tokens=tokens)
    assert [request[1]["Authorization"] for request in server.requests] == ["Bearer " + TOKEN, "Bearer another-token"]
    assert (result["failed"], result["accepted"]) == (True, ["lab"])
    assert [(error["site"], error["error"][:10]) for error in result["errors"]] == [
        ("away", "Demand ser"),
        ("odd", "token: inv"),
    ]


def test_a_site_without_a_token_is_not_reported(server):
    assert (report(server, reporting("away"))["accepted"], server.requests) == ([], [])


def test_a_server_that_does_not_respond_gets_one_report(monkeypatch):
    asked = []

    def post(url, **more):
        asked.append(url)
        raise demand_client.requests.exceptions.ConnectionError("refused")

    monkeypatch.setattr(demand_client.requests, "post", post)
    options = {"server_url": "http://127.0.0.1:9", "sites": [reporting("lab"), reporting("away")], "token": TOKEN}
    result = run_module(demand_report.main, options)
    assert len(asked) == 1
    assert [error["site"] for error in result["errors"] if "no answer: refused" in error["error"]] == ["away", "lab"]


def test_demand_report_sends_nothing_in_check_mode(server):
    result = report(server, check=True)
    assert (result["changed"], result["accepted"], server.requests) == (False, [], [])


def test_demand_report_can_report_an_unreachable_site(server):
    server.result({"accepted": True})
    report(server, reporting(report={"error": "Connection timed out"}))
    sent = server.requests[0][2]["params"]
    assert (sent["error"], sent["entries"]) == ("Connection timed out", [])
    assert isinstance(sent["as_of"], int)


def test_demand_report_fails_when_the_server_does_not_accept(server):
    server.result({"accepted": False})
    assert "report: not accepted" in report(server)["msg"]


def test_the_token_is_never_shown(server):
    server.say({"error": {"code": 1, "message": "bad token " + TOKEN}}, 400)
    assert TOKEN not in str(report(server))


def planned(sites, **changes):
    options = {
        "deployment": "glidein",
        "demand": demand(group(count=2)),
        "supply": supply(),
        "now": NOW,
        "sites": sites,
    }
    return run_module(plan.main, dict(options, **changes))


def a_site(**changes):
    have = queue({("main", "core"): {}})
    return dict({"site": "lab", "scheduler": "slurm", "entries": {"main": raw_entry()}, "queue": have}, **changes)


def test_plan_decides_for_all_sites():
    result = planned([a_site(), a_site(site="away", queue=None, error="Connection timed out")])
    assert {item["site"]: item["present"] for item in result["plan"]} == {"lab": 2, "away": None}
    assert (result["as_of"], result["unserved"], result["errors"], result["changed"]) == (NOW, [], [], False)


def test_plan_accepts_the_empty_text_that_jinja_makes_of_none():
    result = planned([a_site(queue="", error="")])
    assert result["plan"][0]["present"] is None


def test_a_site_with_a_mistake_does_not_stop_the_others():
    result = planned([a_site(), a_site(site="odd", entries={"main": raw_entry(walltime="x")})])
    assert [item["site"] for item in result["plan"]] == ["lab"]
    assert result["errors"][0]["site"] == "odd"
    assert "glidein_entries.main.walltime: 'x'" in result["errors"][0]["error"]


def test_sites_of_one_name_are_left_out_and_do_not_stop_the_others():
    result = planned([a_site(site="twin"), a_site(), a_site(site="twin", entries={"main": raw_entry(walltime="x")})])
    assert {item["site"]: item["present"] for item in result["plan"]} == {"lab": 2}
    assert [error["site"] for error in result["errors"]] == ["twin"]
    assert "glidein_site: 'twin' is the name of 2 sites" in result["errors"][0]["error"]


def test_the_free_slots_of_a_site_with_a_mistake_still_take_jobs():
    free = {"cpus": 1, "memory_mb": 1024, "disk_mb": 100, "gpus": 0, "count": 1}
    known = supply(supplied(registered=1, free=[free], site_name="odd"))
    result = planned([a_site(), a_site(site="odd", entries={"main": raw_entry(walltime="x")})], supply=known)
    assert {item["site"]: item["present"] for item in result["plan"]} == {"lab": 1}


def test_invalid_directives_are_found_before_any_change():
    result = planned([a_site(entries={"main": raw_entry(directives=["--array=1-9"])})])
    assert "glidein_entries.main.directives[0]" in result["errors"][0]["error"]


def test_plan_explains_a_group():
    result = planned([a_site()], explain="a")
    assert result["explanation"] == [
        {
            "site": "lab",
            "entry": "main",
            "shape": "core",
            "serves": 2,
            "fits": True,
            "passed_over": False,
            "reason": "fits 1 job per glidein",
        }
    ]


def test_plan_refuses_invalid_demand():
    assert "demand.groups[0].count: -2" in planned([a_site()], demand=demand(group(count=-2)))["msg"]


def test_plan_accepts_options_of_the_whole_deployment():
    sites = [a_site(site=name, queue=queue({("main", "core"): {}}, name)) for name in ("x", "y")]
    wanted = demand(group(count=6))
    shared = planned(sites, demand=wanted, allocation="spread", limits={"total": 4}, guard={"ramp_first": 1})
    assert [item["present"] for item in shared["plan"]] == [1, 1]
    free = planned(sites, demand=wanted, allocation="spread", limits={"total": 4}, guard={"enabled": False})
    assert [item["present"] for item in free["plan"]] == [2, 2]


def test_plan_returns_lease_requests():
    assert planned([a_site()])["lease_requests"] == {"lab": {"main": {"a": 2}}}


@pytest.mark.skipif(classad.classad2 is None, reason="needs the Python library htcondor")
def test_accept_requirements_that_cannot_be_read_are_an_error_of_their_site():
    result = planned([a_site(), a_site(site="odd", entries={"main": raw_entry(accept_requirements="Owner ==")})])
    assert [item["site"] for item in result["plan"]] == ["lab"]
    assert "glidein_entries.main.accept_requirements: 'Owner =='" in result["errors"][0]["error"]


def test_without_the_library_requirements_are_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr(classad, "classad2", None)
    monkeypatch.setattr(classad, "CLASSAD_ERROR", "ImportError: classad2")
    assert planned([a_site()])["plan"][0]["present"] == 2
    result = planned([a_site()], demand=demand(group(requirements="TARGET.HasCVMFS")))
    assert result["failed"]
    assert "htcondor" in result["msg"]


def test_demand_info_names_the_sites_of_this_controller(server):
    server.result({})
    run_module(demand_info.main, {"server_url": server.url, "sites": ["lab", "away"]})
    asked = {"sites": ["away", "lab"], "attributes": None}
    assert [request[2]["params"] for request in server.requests] == [asked, {}]


def test_demand_info_omits_duplicate_site_names(server):
    server.result({})
    run_module(demand_info.main, {"server_url": server.url, "sites": ["twin", "lab", "twin"]})
    assert server.requests[0][2]["params"]["sites"] == ["lab"]


def test_any_token_that_is_not_refused_reads_the_demand(server):
    refused = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Unauthorized"}}

    def answer(request):
        known = server.requests[-1][1]["Authorization"] == "Bearer good"
        return {"jsonrpc": "2.0", "id": 1, "result": {"read": 1}} if known else refused

    server.say(answer)
    result = run_module(demand_info.main, {"server_url": server.url, "tokens": ["new-site", "good", "other"]})
    assert result["demand"] == {"read": 1}
    assert len(server.requests) == 3
    result = run_module(demand_info.main, {"server_url": server.url, "tokens": ["new-site", "old-site"]})
    assert "JSON-RPC error -32001" in result["msg"]
    assert "correct glidein_demand_token, or run glidein.ops.deploy" in result["msg"]
    assert "new-site" not in str(result)


def test_other_errors_are_not_tried_again(server):
    server.say({"error": {"code": -32603, "message": "Internal error"}}, 500)
    assert (
        "Internal error"
        in run_module(demand_info.main, {"server_url": server.url, "tokens": ["token-one", "token-two"]})["msg"]
    )
    assert len(server.requests) == 1


def lease(server, names=("lab",), check=False, **changes):
    sites = [a_site(site=name, queue=queue({("main", "core"): {}}, name)) for name in names]
    result = planned(sites, demand=demand(group(count=2 * len(names))), allocation="spread")
    options = {
        "server_url": server.url,
        "tokens": {name: "token-of-" + name for name in names},
        "plan": result["plan"],
        "lease_requests": result["lease_requests"],
    }
    return run_module(demand_lease.main, dict(options, **changes), check)


def presents(result):
    return {item["site"]: item["present"] for item in result["plan"]}


def granting(*rounds):
    """Return a server's answers, one for each request, that grant {site: jobs} of group `a`."""
    left = {}
    for grants in rounds:
        for name, jobs in grants.items():
            left.setdefault(name, []).append(jobs)

    def answer(request):
        jobs = left[request["params"]["site"]].pop(0)
        if isinstance(jobs, str):
            return {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": jobs}}
        return {"jsonrpc": "2.0", "id": 1, "result": {"granted": {"main": {"a": jobs}}, "expires": NOW + 1800}}

    return answer


def test_demand_lease_claims_the_jobs_of_the_plan_for_each_site_with_its_own_token(server):
    server.say(granting({"lab": 2, "away": 2}))
    result = lease(server, ("lab", "away"))
    assert [headers["Authorization"] for unused, headers, asked in server.requests] == [
        "Bearer token-of-away",
        "Bearer token-of-lab",
    ]
    unused, headers, request = server.requests[1]
    assert (request["method"], request["params"]) == (
        "lease",
        {"site": "lab", "entries": {"main": {"a": 2}}, "ttl_s": 1800, "deployment": None},
    )
    assert presents(result) == {"lab": 2, "away": 2}
    assert result["granted"] == {"lab": {"main": {"a": 2}}, "away": {"main": {"a": 2}}}
    assert (result["errors"], result["changed"]) == ([], False)


@pytest.mark.parametrize("options, told", [({}, False), ({"deployment": "lab"}, True)])
def test_leases_and_reports_have_the_deployments_name(server, options, told):
    server.say(granting({"lab": 2}))
    lease(server, **options)
    server.result({"accepted": True})
    report(server, **options)
    assert [asked["params"].get("deployment") for unused, unused, asked in server.requests] == (
        ["lab", "lab"] if told else [None, None]
    )


def test_a_lease_that_the_sites_limit_made_less_is_named_with_the_limit(server):
    answer = {"granted": {"main": {"a": 1}}, "expires": NOW + 1800, "site_limit": 1}
    server.say({"jsonrpc": "2.0", "id": 1, "result": answer})
    result = lease(server)
    assert presents(result) == {"lab": 1}
    assert result["limited"] == {"lab": 1}


def test_a_site_that_another_deployment_uses_orders_nothing_new(server):
    refused = {"code": -32006, "message": "Used by another deployment", "data": "site lab belongs to ..."}
    server.say({"jsonrpc": "2.0", "id": 1, "error": refused}, 400)
    result = lease(server, deployment="other")
    assert result["failed"]
    assert "Used by another deployment (site lab belongs to ...)" in result["msg"]
    assert presents(result) == {"lab": 0}


def test_the_tokens_are_never_shown(server):
    server.say({"error": {"code": 1, "message": "bad token-of-lab"}}, 400)
    assert "token-of-lab" not in str(lease(server))


def test_jobs_that_are_not_granted_are_removed_from_the_plan(server):
    server.say(granting({"lab": 1}))
    assert presents(lease(server)) == {"lab": 1}


def test_jobs_that_another_site_releases_are_requested_again(server):
    server.say(granting({"away": 0, "lab": 2}, {"away": 2}))
    assert presents(lease(server, ("lab", "away"))) == {"lab": 2, "away": 2}
    assert [request["params"]["site"] for unused, unused, request in server.requests] == ["away", "lab", "away"]


def test_without_a_lease_nothing_new_is_ordered_there_and_the_others_have_theirs(server):
    server.say(granting({"away": "Unauthorized", "lab": 2}))
    result = lease(server, ("lab", "away"))
    assert result["failed"]
    assert presents(result) == {"lab": 2, "away": 0}
    assert [error["site"] for error in result["errors"]] == ["away"]
    assert "away: Demand server " in result["msg"]
    assert "Unauthorized" in result["errors"][0]["error"]


def test_a_server_that_does_not_respond_gets_one_request(server):
    result = lease(server, ("lab", "away"), server_url="http://127.0.0.1:9")
    assert presents(result) == {"lab": 0, "away": 0}
    assert [error["site"] for error in result["errors"]] == ["away", "lab"]
    assert len({error["error"] for error in result["errors"]}) == 1


def test_a_site_without_a_token_takes_no_lease(server):
    server.say(granting({"lab": 0}))
    result = lease(server, ("lab", "away"), tokens={"lab": TOKEN})
    assert presents(result) == {"lab": 0, "away": 2}
    assert [headers["Authorization"] for unused, headers, asked in server.requests] == ["Bearer " + TOKEN]


@pytest.mark.parametrize(
    "answer", [{}, {"granted": {}}, {"granted": {"main": {"a": "2"}}}, {"granted": {"main": {"a": -1}}}, []]
)
def test_an_invalid_grant_is_not_a_lease(server, answer):
    server.result(answer)
    result = lease(server)
    assert "lease: no grants: " in result["msg"]
    assert presents(result) == {"lab": 0}


def test_demand_lease_claims_nothing_in_check_mode(server):
    result = lease(server, check=True)
    assert (result["plan"][0]["present"], result["granted"], server.requests) == (2, None, [])


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"ttl": 0}, "ttl: 0 is invalid; expected a whole number of seconds of at least 1"),
        ({"server_url": "nowhere"}, "server_url: 'nowhere'"),
        ({"lease_requests": {"lab": 1}}, "lease_requests.lab: 1 is invalid"),
    ],
)
def test_invalid_lease_options_are_refused_and_nothing_is_ordered(server, changes, words):
    result = lease(server, **changes)
    assert words in result["msg"]
    assert presents(result) == {"lab": 0}


def test_an_invalid_token_affects_only_its_sites_lease(server):
    server.say(granting({"lab": 2}))
    tokens = {"lab": "token-of-lab", "away": "two words"}
    result = lease(server, ("lab", "away"), tokens=tokens)
    assert presents(result) == {"lab": 2, "away": 0}
    assert (result["failed"], [error["site"] for error in result["errors"]]) == (True, ["away"])
    assert presents(lease(server, ("lab", "away"), tokens=tokens, check=True)) == {"lab": 2, "away": 0}
    assert "two words" not in str(result)


def test_an_invalid_token_does_not_keep_other_sites_from_reading_the_demand(server):
    server.result({"read": 1})
    result = run_module(demand_info.main, {"server_url": server.url, "tokens": ["two words", "good"]})
    assert result["demand"] == {"read": 1}
    assert (
        "expected http://" in run_module(demand_info.main, {"server_url": "x", "tokens": ["two words", "good"]})["msg"]
    )
