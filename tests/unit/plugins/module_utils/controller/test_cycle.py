# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the steps of a cycle that run on the controller, with a stand-in for the demand server."""

import json

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import GlideinError
from ansible_collections.glidein.ops.plugins.module_utils.controller import cycle, demand_client
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import classad
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.login_node.reconcile import decide
from ansible_collections.glidein.ops.plugins.module_utils.login_node.site_queue import SiteJobs
from ansible_collections.glidein.ops.tests.unit.support import builders
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    history,
    job,
    queue,
    raw_entry,
    slots,
    supplied,
    supply,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import definition as site
from ansible_collections.glidein.ops.tests.unit.support.unreadable import Unreadable

TOKEN = "token-of-lab"  # noqa: S105
REFUSED = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32001, "message": "Unauthorized"}}
UNREACHABLE = {"glidein_demand_url": "http://127.0.0.1:9"}


@pytest.fixture(autouse=True)
def now(monkeypatch):
    monkeypatch.setattr(cycle.time, "time", lambda: NOW)


def variables(server=None, **more):
    return dict({"glidein_demand_url": server.url} if server else {}, **more)


def sites(*given):
    return {f"login-{number}": one for number, one in enumerate(given)}


def plan(*given, groups=None, known=None, **more):
    wanted = demand(*([group(count=2)] if groups is None else groups))
    return cycle.plan_sites(more, sites(*given), cycle.Demand(wanted, known or supply()))


def presents(result):
    return {item.site: item.present for item in result.items}


def calls(server):
    return [request for _path, _headers, request in server.requests]


def sent_tokens(server):
    return [headers.get("Authorization") for _path, headers, _request in server.requests]


# Settings


@pytest.mark.parametrize(
    "given, words",
    [
        ({"glidein_allocation": "fair"}, "glidein_allocation: 'fair' is invalid; expected priority or spread"),
        ({"glidein_deployment_limits": {"nodes": 1}}, "glidein_deployment_limits.nodes: unknown key (did you mean"),
        ({"glidein_guard": {"ramp_first": 0}}, "glidein_guard.ramp_first: 0 is invalid; expected a whole number of at"),
    ],
)
def test_an_invalid_variable_of_the_plan_is_named_with_its_value_and_the_allowed_values(given, words):
    assert words in plan(site(), **given).error


def test_a_variable_that_cannot_be_read_is_named():
    hidden = Unreadable("glidein_guard", {})
    assert cycle.plan_sites(hidden, {}, cycle.Demand()).error.startswith("glidein_guard: ")


# Demand


def test_demand_is_read_for_sites_whose_queue_is_known_with_the_attributes_that_they_refer_to(server):
    server.say(lambda request: {"result": {"method": request["method"]}})
    entries = {"main": raw_entry(accept_requirements='TARGET.ProjectName == "icecube"')}
    given = sites(site(entries=entries), site("away", queue=None), site("twin"), site("twin"), site("b"))
    found = cycle.read_demand(variables(server), given, {})
    assert found == ({"method": "get_demand"}, {"method": "get_supply"}, None)
    assert [call["params"] for call in calls(server)] == [
        {"sites": ["b", "lab"], "attributes": ["ProjectName"]},
        {},
    ]


def test_any_token_that_is_not_refused_reads_the_demand(server):
    server.say(lambda _request: {"result": {}} if sent_tokens(server)[-1] == "Bearer good" else REFUSED)
    tokens = {"new": "new-site", "lab": "good", "b": "other"}
    assert not cycle.read_demand(variables(server), {}, tokens).error
    assert sent_tokens(server) == ["Bearer new-site", "Bearer good", "Bearer good"]
    result = cycle.read_demand(variables(server), {}, {"new": "new-site", "old": "old-site"})
    assert "JSON-RPC error -32001" in result.error
    assert "correct glidein_demand_token, or run glidein.ops.deploy" in result.error


def test_other_errors_are_not_tried_again_and_show_no_token(server):
    server.say({"error": {"code": -32603, "message": f"Internal error of {TOKEN}"}}, 500)
    result = cycle.read_demand(variables(server), {}, {"lab": TOKEN, "b": "other"})
    assert "Internal error of ********" in result.error
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "given, words",
    [
        ({}, "glidein_demand_url: missing; expected text (address of the demand server, such as"),
        ({"glidein_demand_url": "nowhere"}, "glidein_demand_url: 'nowhere' is invalid"),
        (UNREACHABLE, "no answer: Connection refused"),
    ],
)
def test_a_demand_that_cannot_be_read_is_a_failure_with_its_reason(given, words):
    assert words in cycle.read_demand(given, sites(site()), {"lab": TOKEN}).error


def test_without_the_library_requests_the_failure_names_it(monkeypatch):
    monkeypatch.setattr(demand_client, "requests", None)
    assert "requests" in cycle.read_demand(UNREACHABLE, {}, {}).error


def test_a_job_is_read_by_its_name(server):
    job = {"job": "1.0", "schedd": "cm", "state": "idle", "obstacles": []}
    server.result(job)
    assert cycle.read_job(variables(server), {"lab": TOKEN}, "cm#1.0") == job
    assert (sent_tokens(server), calls(server)[0]["method"]) == ([f"Bearer {TOKEN}"], "get_job")
    assert calls(server)[0]["params"] == {"job": "cm#1.0"}


@pytest.mark.parametrize("result", [None, {}, [], "x"])
def test_a_reply_without_a_job_is_an_error(server, result):
    server.result(result)
    with pytest.raises(GlideinError, match="get_job: the reply has no job"):
        cycle.read_job(variables(server), {}, "1.0")


# Plan


def test_a_plan_is_for_all_sites():
    result = plan(site(), site("away", queue=None, error="Connection timed out"))
    assert presents(result) == {"lab": 2, "away": None}
    assert (result.as_of, result.unserved, result.errors) == (NOW, [], [])


def test_a_site_with_a_mistake_does_not_stop_the_others():
    odd = site("odd", entries={"main": raw_entry(walltime="x")})
    directive = site("array", entries={"main": raw_entry(directives=["--array=1-9"])})
    result = plan(site(), odd, directive)
    assert presents(result) == {"lab": 2}
    assert [(error["site"], error["error"].split(":")[0]) for error in result.errors] == [
        ("odd", "glidein_entries.main.walltime"),
        ("array", "glidein_entries.main.directives[0]"),
    ]
    # Its free slots take jobs all the same.
    known = supply(supplied(registered=1, free=slots(1), site_name="odd"))
    assert presents(plan(site(), odd, known=known)) == {"lab": 1}


@pytest.mark.parametrize("limits", [{"queued": 5}, {"total": 8}, {"cores": 7}])
def test_the_last_known_glideins_of_a_site_with_a_mistake_count_towards_the_deployments_limits(limits):
    odd = site("odd", entries={"main": raw_entry(walltime="x")})
    last = history([{"age_s": 300, "queued": 4, "running": 3}])
    known = supply(supplied("gone", registered=3, cpus=6, history=last, site_name="odd"))
    assert presents(plan(site(), odd, known=known, glidein_deployment_limits=limits)) == {"lab": 1}


def test_sites_of_one_name_are_left_out_and_do_not_stop_the_others():
    result = plan(site("twin"), site(), site("twin", entries={"main": raw_entry(walltime="x")}))
    assert presents(result) == {"lab": 2}
    assert [error["site"] for error in result.errors] == ["twin"]
    assert "glidein_site: 'twin' is the name of 2 sites" in result.errors[0]["error"]


def test_the_variables_of_the_deployment_change_the_plan():
    given = [site(name) for name in "xy"]
    shared = {"glidein_allocation": "spread", "glidein_deployment_limits": {"total": 4}}
    groups = [group(count=6)]
    assert presents(plan(*given, groups=groups, glidein_guard={"ramp_first": 1}, **shared)) == {"x": 1, "y": 1}
    assert presents(plan(*given, groups=groups, glidein_guard={"enabled": "no"}, **shared)) == {"x": 2, "y": 2}
    young = site(queue=queue({("main", "core"): {"queued": 2, "oldest_queued_s": 60}}))
    kept = [presents(plan(young, groups=[], glidein_guard={"cancel_delay": delay}))["lab"] for delay in (0, 30, 120)]
    assert kept == [0, 0, 2]


@pytest.mark.skipif(classad.classad2 is None, reason="needs the Python library htcondor")
def test_accept_requirements_that_cannot_be_read_are_an_error_of_their_site():
    result = plan(site(), site("odd", entries={"main": raw_entry(accept_requirements="Owner ==")}))
    assert presents(result) == {"lab": 2}
    assert "glidein_entries.main.accept_requirements: 'Owner =='" in result.errors[0]["error"]


def test_without_the_library_requirements_are_a_failure_that_names_it(monkeypatch):
    monkeypatch.setattr(classad, "classad2", None)
    assert presents(plan(site())) == {"lab": 2}
    assert "htcondor" in plan(site(), groups=[group(requirements="TARGET.HasCVMFS")]).error


def test_a_plan_is_the_same_after_its_way_through_a_result_of_ansible():
    made = plan(site(), groups=[group(count=2)], glidein_guard={"ramp_first": 1})
    again = cycle.Plan.of(json.loads(json.dumps(made.result())))
    assert again._replace(items=()) == made._replace(items=())
    assert again.items[0].order() == made.items[0].order()
    assert again.items[0].with_queued(0, "note").reason == f"{made.items[0].reason}; note"
    assert cycle.Plan.of(cycle.Plan().result())._replace(items=()) == cycle.Plan()


# Leases


def lease(given, names=("lab",), tokens=None, **more):
    """Return (plan, Lease)."""
    made = plan(*map(site, names), groups=[group(count=2 * len(names))], glidein_allocation="spread")
    tokens = {name: f"token-of-{name}" for name in names} if tokens is None else tokens
    return cycle.lease_jobs(dict(given, **more), made, tokens)


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


def test_each_site_leases_the_jobs_of_the_plan_with_its_own_token(server):
    server.say(granting({"lab": 2, "away": 2}))
    result, leases = lease(variables(server), ("lab", "away"), glidein_deployment="ops")
    assert sent_tokens(server) == ["Bearer token-of-away", "Bearer token-of-lab"]
    assert (calls(server)[1]["method"], calls(server)[1]["params"]) == (
        "lease",
        {"site": "lab", "entries": {"main": {"a": 2}}, "ttl_s": 1800, "deployment": "ops"},
    )
    assert presents(result) == {"lab": 2, "away": 2}
    assert leases == ({}, [], {"that are no longer idle, or leased to others": 0})


def test_a_grant_that_the_sites_limit_reduced_is_named_with_the_limit(server):
    answer = {"granted": {"main": {"a": 1}}, "expires": NOW + 1800, "site_limit": 1}
    server.result(answer)
    result, leases = lease(variables(server))
    assert (presents(result), leases.limited) == ({"lab": 1}, {"lab": 1})
    assert leases.not_leased == {"beyond the lease limit of their site": 1}


def test_without_a_lease_nothing_new_is_ordered_there_and_the_others_have_theirs(server):
    server.say(granting({"away": "Unauthorized token-of-away", "lab": 2}))
    result, leases = lease(variables(server), ("lab", "away"))
    assert presents(result) == {"lab": 2, "away": 0}
    assert [error["site"] for error in leases.errors] == ["away"]
    assert "Unauthorized ********" in leases.errors[0]["error"]
    assert leases.not_leased == {"without a lease": 2, "that are no longer idle, or leased to others": 0}


def test_a_server_that_does_not_respond_gets_one_request():
    result, leases = lease(UNREACHABLE, ("lab", "away"))
    assert presents(result) == {"lab": 0, "away": 0}
    assert [error["site"] for error in leases.errors] == ["away", "lab"]
    assert len({error["error"] for error in leases.errors}) == 1


def test_a_site_without_a_token_takes_no_lease(server):
    server.say(granting({"lab": 0}))
    result, leases = lease(variables(server), ("lab", "away"), tokens={"lab": TOKEN})
    assert presents(result) == {"lab": 0, "away": 2}
    assert leases.not_leased == {"that are no longer idle, or leased to others": 2}
    assert sent_tokens(server) == ["Bearer " + TOKEN]


@pytest.mark.parametrize(
    "answer", [{}, {"granted": {}}, {"granted": {"main": {"a": "2"}}}, {"granted": {"main": {"a": -1}}}, []]
)
def test_an_invalid_grant_is_not_a_lease(server, answer):
    server.result(answer)
    result, leases = lease(variables(server))
    assert "lease: no grants: " in leases.errors[0]["error"]
    assert presents(result) == {"lab": 0}


def item(name="lab", queued=1, **changes):
    return PlanItem(name, "main", "core", queued, queued, **dict({"counted": 1, "running": 2, "sick": 0}, **changes))


def test_orders_are_for_sites_whose_queue_differs_from_the_plan():
    items = [item(queued=3), item("same"), PlanItem("b", "main", "core", 0, 0)]
    order = {"entry": "main", "shape": "core", "present": 5, "added": 2, "kept_sick": 0}
    given = sites(site(), site("away", queue=None, error="no ssh"), site("same"), site("b"), site("none"))
    assert cycle.orders(given, items, {"summaries_until": {"lab": 7}}) == {
        "login-0": {"plan": [order], "summaries_since": 7}
    }


def has_order(changes=None, since=NOW - 500.5, files=None, queue_changes=None, **of_item):
    one = site(**(changes or {}))
    one["queue"].update(queue_changes or {})
    one["queue"]["files"].update({"newest_output": NOW - 500.5, "oldest_log": NOW - 10 * 86400.0, **(files or {})})
    return bool(cycle.orders(sites(one), [item(**of_item)], {"summaries_until": {"lab": since}}))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"changes": {"credential": "pool_password"}, "files": {"credential": False}},
        {"changes": {"credential": "pool_password"}, "queue_changes": {"credential_expires": NOW}},
        {"files": {"newest_output": None, "oldest_log": None}, "since": 0},
        {"changes": {"log_days": 0}},
        # A glidein may still write to its log.
        {"changes": {"log_days": 10, "entries": {"main": raw_entry(walltime="9d1h")}}},
        {"queue_changes": {"orphans": {"queued": 0, "running": 5}}},
        {"counted": None, "running": None, "sick": None},
        {"queue_changes": {"access": {"due": False, "problems": ["the token of the CE expires"]}}},
        {"sick": 1, "kept_sick": 1},
    ],
)
def test_a_site_whose_queue_matches_the_plan_has_no_order(given):
    assert not has_order(**given)


@pytest.mark.parametrize(
    "given",
    [
        {"since": NOW - 501},
        {"since": 0},
        {"changes": {"log_days": 10}},
        {"queue_changes": {"credential_expires": NOW}},
        {"files": {"credential": False}},
        {"files": {"deployed": False}},
        {"queue_changes": {"orphans": {"queued": 1, "running": 0}}},
        {"queue_changes": {"access": {"due": True, "problems": []}}},
        {"queued": 0},
        {"queued": 2},
        {"sick": 1},
        {"sick": 2, "kept_sick": 1},
    ],
)
def test_a_site_with_work_has_an_order(given):
    assert has_order(**given)


@pytest.mark.parametrize("running, submit", [(5, 1), (3, 1), (6, 0), (9, 0)])
def test_glideins_that_have_ended_since_the_plan_counted_them_are_not_replaced(running, submit):
    order = PlanItem("lab", "main", "core", queued=1, wanted=1, counted=0, running=5).order()
    there = SiteJobs({("main", "core"): [job(f"1_{n}", "x", "running") for n in range(running)]}, [], [])
    (decision,) = decide({("main", "core"): order}, there, builders.site())
    assert decision.submit == submit


# Reports


def report(given, *names, tokens=None, **changes):
    told = dict({"as_of": NOW - 5, "entries": [{"entry": "main", "shape": "core"}], "orphans": 1}, **changes)
    tokens = {name: f"token-of-{name}" for name in names} if tokens is None else tokens
    return cycle.send_reports(given, [{"site": name, "report": told} for name in names], tokens)


def test_each_site_reports_with_its_own_token_and_one_that_is_refused_stops_no_other(server):
    server.say(lambda request: {"result": {"accepted": request["params"]["site"] != "away"}})
    (error,) = report(variables(server), "away", "lab", summaries=None, unserved=[])
    assert sent_tokens(server) == ["Bearer token-of-away", "Bearer token-of-lab"]
    assert calls(server)[1]["params"] == {
        "site": "lab",
        "as_of": NOW - 5,
        "error": None,
        "orphans": 1,
        "entries": [{"entry": "main", "shape": "core"}],
        "summaries": None,
        "unserved": [],
        "deployment": "glidein",
    }
    assert error["site"] == "away"
    assert "report: not accepted" in error["error"]


def test_the_report_of_a_site_that_could_not_be_reached_has_its_error_and_a_time(server):
    server.result({"accepted": True})
    assert cycle.send_reports(variables(server), [{"site": "lab", "report": {"error": "no ssh"}}], {"lab": TOKEN}) == []
    sent = calls(server)[0]["params"]
    assert (sent["error"], sent["entries"], sent["as_of"]) == ("no ssh", [], NOW)


def test_a_site_without_a_token_is_not_reported(server):
    assert (report(variables(server), "lab", tokens={}), server.requests) == ([], [])


def test_a_server_that_does_not_respond_gets_one_report(monkeypatch):
    asked = []

    def post(url, **more):
        asked.append(url)
        raise demand_client.requests.exceptions.ConnectionError("refused")

    monkeypatch.setattr(demand_client.requests, "post", post)
    errors = report(UNREACHABLE, "lab", "away")
    assert len(asked) == 1
    assert [error["site"] for error in errors if "no answer: refused" in error["error"]] == ["away", "lab"]
