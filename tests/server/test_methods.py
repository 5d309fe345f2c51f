# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the JSON-RPC methods, their authorization and their results."""

import pytest
from glidein_demand.store.reports import Reports

from conftest import NOW, TOKEN, claim, ended_glidein, group, reported_entry, site_report, summaries_of

PRIVATE = {"requirements": 'Owner == "alice"', "attributes": {"Owner": "alice"}}


def granted(service, jobs, token=TOKEN, **changes):
    """Return the number of jobs that were granted."""
    params = claim(jobs, **changes)
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
    for sites, count in (([], 70), (["PSC"], 100), (["Cedar"], 70), (["Cedar", "PSC"], 100)):
        assert service.result("get_demand", {"sites": sites})["groups"][0]["count"] == count
    assert granted(service, 90, other, site="Cedar") == 70


def test_before_the_first_reading_nothing_is_leased_and_leases_stay(new_service):
    before = new_service()
    before.read(group(100))
    granted(before, 30)
    restarted = new_service()
    error = restarted.error("lease", claim(10), TOKEN)
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
    ("method", "params", "data"),
    [
        ("lease", claim(-1), "entries[...][...]: "), ("report", site_report(orphans=True), "orphans: "),
        ("monitoring", {"uuid": "a", "timestamp": "now"}, "timestamp: "),
        ("get_demand", {"attributes": "A"}, "attributes: "), ("get_state", [1], "expected at most 0 parameters"),
        ("get_job", {"job": "x"}, "job: expected an id"),
        ("get_job", {"job": "gone#12.0"}, "schedd: 'gone' is not one of the schedds"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_reason_and_nothing_is_stored(service, method, params, data):
    service.read(group(100))
    service.server.jobs.run_query = lambda _query, _timeout: {"schedds": []}
    error = service.error(method, params, TOKEN)
    assert (error["code"], error["data"][: len(data)]) == (-32602, data)
    assert (service.server.leases.rows(), service.server.reports.reports()) == ([], {})


# --- reports ---


def test_an_accepted_report_is_on_the_page(service):
    unserved = [{"group": "3f2a", "count": 3, "reason": "no shape"}]
    assert service.result("report", site_report(unserved=unserved), TOKEN) == {"accepted": True}
    stored = service.server.reports.reports()["PSC"]
    assert (stored["received"], stored["unserved"]) == (NOW, unserved)
    assert "28 idle jobs" in service.page()


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
    service.result("report", site_report(entries=[reported_entry(**given)]), TOKEN)
    (found,) = service.result("get_supply")["entries"]
    (plan,) = found["history"]["plans"]
    assert (found["site"], found["registered"], plan["present"], plan["wanted"]) == ("PSC", 0, 3, given.get("wanted"))


def test_get_supply_contains_each_record_of_the_last_hour_s_demand(service):
    for number in range(30):
        service.read(group(number or 1000))
        service.upkeep.record()
        service.now += 300.125
    found = service.result("get_supply")["demand_history"]
    assert [jobs for _time, jobs in found] == list(range(19, 30))
    assert {after[0] - before[0] for before, after in zip(found, found[1:])} == {300}
    assert service.now - 600 < found[-1][0] <= service.now
    assert all(isinstance(value, int) for point in found for value in point)


def test_an_unreadable_demand_is_not_a_point_of_its_history(service):
    service.upkeep.record()
    assert service.result("get_supply")["demand_history"] == []


def test_the_running_glideins_of_a_report_are_followed_and_not_stored_with_it(service):
    running = [{"id": "77_1", "wait_s": 40}, {"id": "78", "wait_s": None}]
    service.result("report", site_report(entries=[reported_entry(running_glideins=running)]), TOKEN)
    assert service.result("get_supply", token=TOKEN)["entries"][0]["history"]["started"] == 2
    assert "running_glideins" not in service.server.reports.reports()["PSC"]["entries"][0]


def test_the_number_of_reporting_sites_is_bounded(service):
    service.server.reports = Reports(service.server.database, max_sites=1)
    service.result("report", site_report(), TOKEN)
    error = service.error("report", site_report(site="B"), service.token("B"))
    assert (error["code"], "1 sites are known already" in error["data"]) == (-32002, True)


@pytest.mark.parametrize("before", [300, 0])
def test_of_a_report_that_was_overtaken_or_comes_again_only_ended_glideins_are_stored(service, before):
    service.result("report", site_report(), TOKEN)
    again = site_report(as_of=NOW - before, entries=[], summaries=summaries_of(ended_glidein()))
    assert service.result("report", again, TOKEN) == {"accepted": True}
    assert service.server.reports.reports()["PSC"]["as_of"] == NOW
    (history,) = service.server.glideins.summary(NOW).values()
    assert [plan["as_of"] for plan in history["plans"]] == [NOW]
    assert service.server.glideins.totals()["PSC", "RM"]["glideins"] == 1
