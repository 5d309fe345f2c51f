# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the JSON-RPC methods, their authorization and their results."""

import pytest
from glidein_demand.store.reports import Reports

from conftest import NOW, TOKEN, group, site_report

PRIVATE = {"requirements": 'Owner == "alice"', "attributes": {"Owner": "alice"}}


def lease(jobs, site="PSC", entry="RM", **changes):
    """Return the parameters of a claim on the group that group() makes."""
    return {"site": site, "entries": {entry: {group()["id"]: jobs}}, **changes}


def granted(service, jobs, token=TOKEN, **changes):
    """Return the number of jobs that were granted."""
    params = lease(jobs, **changes)
    return service.result("lease", params, token)["granted"][next(iter(params["entries"]))][group()["id"]]


# --- reading ---


def test_get_demand_with_a_token_has_everything_also_for_a_reader(service):
    service.read(group(120, **PRIVATE))
    demand = service.result("get_demand", token=TOKEN)
    assert (demand["as_of"], demand["paused"]) == (NOW, False)
    assert demand["schedds"] == {"answered": ["cm"], "failed": []}
    found = demand["groups"][0]
    assert (found["count"], found["leased"], found["users"]) == (120, 0, {"alice@pool": 120})
    assert found["requirements"] == PRIVATE["requirements"]
    reader = service.token("grafana", "reader")
    assert service.result("get_demand", token=reader) == demand
    assert service.result("get_supply", token=reader) == service.result("get_supply", token=TOKEN)


@pytest.mark.parametrize("get", [lambda s: s.call("get_demand"), lambda s: s.get("/demand"), lambda s: s.get("/")])
def test_without_a_token_no_user_is_named(service, get):
    service.read(group(120, **PRIVATE), unreadable=[
        {"count": 2, "first_job": "3.0", "attribute": "RequestMemory", "error": "RequestMemory is alice"}
    ])  # fmt: skip
    response = get(service)
    assert response.status_code == 200
    assert "120" in response.text
    assert "alice" not in response.text
    assert service.result("get_demand")["unreadable"][0]["count"] == 2


def test_a_sample_of_a_machine_is_for_callers_with_a_token(service):
    ad = {"OpSysAndVer": "Debian13", "GLIDEIN_Shape": "node"}
    service.server.machine_ads.add([{"site": "PSC", "entry": "RM", "by_token": True, "ad": ad}], NOW)
    assert service.result("get_supply", token=TOKEN)["entries"][0]["sample"]["OpSysAndVer"] == "Debian13"
    assert "Debian13" not in service.call("get_supply").text
    assert "Debian13" not in service.get("/supply").text


# --- leases ---


def test_a_lease_reduces_the_demand_of_other_sites_and_not_of_its_holder(service):
    service.read(group(100))
    other = service.token("Cedar")
    assert granted(service, 30) == 30
    assert service.result("get_demand", token=TOKEN)["groups"][0]["count"] == 100
    seen = service.result("get_demand", token=other)["groups"][0]
    assert (seen["count"], seen["leased"]) == (70, 30)
    assert service.result("get_demand")["groups"][0]["count"] == 70
    assert service.result("get_demand", {"sites": ["PSC"]})["groups"][0]["count"] == 100
    assert granted(service, 90, other, site="Cedar") == 70


def test_before_the_first_reading_nothing_is_leased_and_leases_stay(new_service):
    before = new_service()
    before.read(group(100))
    granted(before, 30)
    restarted = new_service()
    error = restarted.error("lease", lease(10), TOKEN)
    assert (error["code"], error["message"]) == (-32003, "Not ready")
    restarted.read(group(100))
    assert restarted.result("get_demand")["groups"][0]["leased"] == 30


def test_while_paused_leases_are_zero_and_pyglidein_clients_see_no_demand(service):
    service.read(group(5))
    assert granted(service, 5) == 5
    service.server.pause.set("maintenance", "operator")
    assert granted(service, 5, entry="other") == 0
    demand = service.result("get_demand")
    assert (demand["paused"], [row["count"] for row in demand["groups"]]) == (True, [5])
    assert service.result("get_state") == []
    assert "glidein_demand_paused 1.0" in service.get("/metrics").text
    service.server.pause.clear()
    assert [row["count"] for row in service.result("get_demand")["groups"]] == [0]
    assert service.result("get_state", token=TOKEN)[0]["count"] == 5


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"entries": []}, "entries"), ({"entries": {"RM": 5}}, "entries[...]"),
        ({"entries": {"a b": {}}}, "key in entries"),
        ({"entries": {"RM": {"g": -1}}}, "entries[...][...]"), ({"entries": {"RM": {"g": 1.5}}}, "entries[...][...]"),
        ({"entries": {"RM": {"g": True}}}, "entries[...][...]"),
        ({"entries": {"RM": {"no group": 1}}}, "key in entries[...]"),
        ({"entries": {"RM": {f"g{n}": 1 for n in range(20001)}}}, "entries"), ({"ttl_s": 0}, "ttl_s"),
        ({"ttl_s": 86401}, "ttl_s"), ({"ttl_s": 10.5}, "ttl_s"), ({"ttl_s": None}, "ttl_s"), ({"site": "a b"}, "site"),
    ],
)  # fmt: skip
def test_a_lease_with_a_wrong_value_is_refused_with_its_field(service, change, named):
    service.read(group(100))
    error = service.error("lease", {**lease(1), **change}, TOKEN)
    assert error["code"] == -32602
    assert error["data"].startswith((named + " ", named + ":"))
    assert service.server.leases.rows() == []


# --- reports ---


def test_an_accepted_report_is_on_the_page(service):
    assert service.result("report", site_report(), TOKEN) == {"accepted": True}
    assert service.server.reports.reports()["PSC"]["received"] == NOW
    assert "28 idle jobs" in service.page()


def test_long_texts_of_a_report_are_truncated_and_unknown_keys_dropped(service):
    unserved = [{"group": "3f2a", "count": 3, "reason": "x" * 501, "more": 1}]
    service.result("report", site_report(unserved=unserved, error="x" * 5000), TOKEN)
    kept = service.server.reports.reports()["PSC"]
    assert kept["unserved"] == [{"group": "3f2a", "count": 3, "reason": "x" * 499 + "…"}]
    assert len(kept["error"]) == 2000


def test_a_report_that_was_only_stored_in_part_is_not_stored_at_all(service):
    report = site_report(entries=[{"entry": "RM", "shape": "node", "running": 2, "cpus": 28}])
    for table, other in (("glidein_reading", "lost"), ("lost", "glidein_reading")):
        with service.server.database.begin() as connection:
            connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {other}")
        response = service.call("report", report, TOKEN)
        assert response.status_code == (503 if other == "lost" else 200)
        assert set(service.server.reports.reports()) == (set() if other == "lost" else {"PSC"})
    (history,) = service.server.glideins.summary(NOW).values()
    assert [plan["as_of"] for plan in history["plans"]] == [NOW]
    (core_hours,) = service.server.core_hours.current(NOW)["entries"]
    assert core_hours["cores"] == 56


@pytest.mark.parametrize("given", [{"wanted": 0}, {"wanted": 7}, {"wanted": None}, {}])
def test_get_supply_has_the_plans_of_a_report_at_once(service, given):
    assert service.result("get_supply")["entries"] == []
    service.result("report", site_report(entries=[{**site_report()["entries"][0], **given}]), TOKEN)
    (found,) = service.result("get_supply")["entries"]
    (plan,) = found["history"]["plans"]
    assert (found["site"], found["registered"], plan["present"], plan["wanted"]) == ("PSC", 0, 3, given.get("wanted"))


def test_get_supply_contains_each_record_of_the_last_hour_s_demand(service):
    for number in range(30):
        service.read(group(number or 1000))
        assert service.upkeep.record() is True
        service.now += 300.125
    found = service.result("get_supply")["demand_history"]
    assert [jobs for _time, jobs in found] == list(range(19, 30))
    assert {after[0] - before[0] for before, after in zip(found, found[1:])} == {300}
    assert service.now - 600 < found[-1][0] <= service.now
    assert all(isinstance(value, int) for point in found for value in point)


def test_an_unreadable_demand_is_not_a_point_of_its_history(service):
    service.upkeep.record()
    assert service.result("get_supply")["demand_history"] == []


@pytest.mark.parametrize(
    ("changes", "started"),
    [({"running_glideins": [{"id": "77_1", "wait_s": 40}, {"id": "78", "wait_s": None}]}, 2), ({}, None)],
)
def test_running_glideins_are_followed_and_without_them_outcomes_are_unknown(service, changes, started):
    service.result("report", site_report(entries=[{**site_report()["entries"][0], **changes}]), TOKEN)
    assert service.result("get_supply", token=TOKEN)["entries"][0]["history"]["started"] == started
    assert "running_glideins" not in service.server.reports.reports()["PSC"]["entries"][0]


def test_a_site_that_could_not_count_reports_unknown_and_not_zero(service):
    entry = {"entry": "RM", "shape": "node", "queued": None, "error": "squeue: exit status 1"}
    service.result("report", site_report(entries=[entry]), TOKEN)
    kept = service.server.reports.reports()["PSC"]["entries"][0]
    assert (kept["queued"], kept["running"], kept["launched"]) == (None, None, 0)


def of_entry(**changes):
    return {"entries": [{"entry": "a", "shape": "b", **changes}]}


def unserved(**changes):
    return {"unserved": [{"group": "a", "count": 1, "reason": "", **changes}]}


def glidein(**changes):
    return [{"entry": "a", "shape": "b", "running_glideins": [{"id": "1", "wait_s": 5, **changes}]}]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"site": ""}, "site"), ({"site": "a b"}, "site"), ({"site": "<b>"}, "site"), ({"site": "A\n"}, "site"),
        ({"site": 5}, "site"), ({"as_of": "now"}, "as_of"), ({"as_of": -1}, "as_of"), ({"as_of": 10**30}, "as_of"),
        ({"orphans": True}, "orphans"), ({"orphans": None}, "orphans"), ({"error": 5}, "error"),
        ({"entries": {}}, "entries"), ({"entries": [5]}, "entries[0]"),
        ({"entries": [{"entry": "a"}]}, "entries[0]"),
        (of_entry(queued="3"), "entries[0].queued"), (of_entry(launched=-1), "entries[0].launched"),
        (of_entry(launched=10**9 + 1), "entries[0].launched"), (of_entry(wanted=True), "entries[0].wanted"),
        (of_entry(sick_reasons="x"), "entries[0].sick_reasons"),
        ({"entries": [{"entry": "a", "shape": "b"}] * 1001}, "entries"),
        ({"entries": glidein(id="")}, "entries[0].running_glideins[0].id"),
        ({"entries": glidein(id="x" * 101)}, "entries[0].running_glideins[0].id"),
        ({"entries": glidein(id="a\nb")}, "entries[0].running_glideins[0]"),
        ({"entries": glidein(wait_s=-1)}, "entries[0].running_glideins[0].wait_s"),
        (of_entry(running_glideins=[{"id": "1"}] * 2001), "entries[0].running_glideins"),
        ({"entries": [{"entry": "a", "shape": f"s{n}", "running_glideins": [{"id": "1"}] * 1700} for n in range(6)]},
         "entries"),
        ({"unserved": "x"}, "unserved"), ({"unserved": [1]}, "unserved[0]"), ({"unserved": [{}]}, "unserved[0]"),
        (unserved(group="a b"), "unserved[0].group"), (unserved(count=-1), "unserved[0].count"),
        (unserved(reason=None), "unserved[0].reason"), ({"unserved": unserved()["unserved"] * 51}, "unserved"),
    ],
)  # fmt: skip
def test_a_report_with_a_wrong_value_is_refused_with_its_field(service, change, named):
    error = service.error("report", site_report(**change), TOKEN)
    assert error["code"] == -32602
    assert error["data"].startswith((named + " ", named + ":"))
    assert service.server.reports.reports() == {}


@pytest.mark.parametrize(
    "params",
    [{}, {"uuid": []}, {"uuid": "a", "metrics": 5}, {"uuid": "a", "glideins_idle": "3"},
     {"uuid": "a", "metrics": {"glideins_idle": {"Cluster": None}}}, {"uuid": "a", "timestamp": "now"}],
)  # fmt: skip
def test_monitoring_with_a_wrong_value_is_refused(service, params):
    assert service.error("monitoring", params, TOKEN)["code"] == -32602


def test_the_number_of_reporting_sites_is_bounded(new_service):
    service = new_service()
    service.server.reports = Reports(service.server.database, max_sites=1)
    service.result("report", site_report(), TOKEN)
    error = service.error("report", site_report(site="B"), service.token("B"))
    assert (error["code"], "1 sites are known already" in error["data"]) == (-32002, True)


@pytest.mark.parametrize("before", [300, 0])
def test_a_report_that_was_overtaken_or_comes_again_is_answered_and_changes_nothing(service, before):
    service.result("report", site_report(), TOKEN)
    assert service.result("report", site_report(as_of=NOW - before, entries=[]), TOKEN) == {"accepted": True}
    assert service.server.reports.reports()["PSC"]["as_of"] == NOW
    (history,) = service.server.glideins.summary(NOW).values()
    assert [plan["as_of"] for plan in history["plans"]] == [NOW]
