# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of core-hours: from reports and claimed slots, sums by period, /usage, and metrics."""

import csv
import io
import socket
from datetime import datetime, timezone

import classad2
import pytest
from glidein_demand.pool import supply
from glidein_demand.store import core_hours as core_hours_module
from glidein_demand.store.core_hours import (
    DAY,
    HOUR,
    MAX_GAP_S,
    MONTH,
    CoreHours,
    Reading,
    glidein_core_seconds,
)
from glidein_demand.store.database import Database
from glidein_demand.values import DAY_S, HOUR_S, OTHER_MACHINES, WEEK_S, begin_of, month_of, year_of
from glidein_demand.web import metrics, usage
from hypothesis import given
from hypothesis import strategies as st

from conftest import NOW, TOKEN, Service, site_report, slot
from supply_ads import Collector, recorded_ads, supply_query
from test_metrics import samples


def epoch(text):
    return int(datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc).timestamp())


def report(running, at, entry="RM", as_of=None, cpus=28, since=None, site="PSC"):
    row = {"entry": entry, "shape": "node", "cpus": cpus, "running": running, "running_since": since}
    return {"site": site, "as_of": at if as_of is None else as_of, "entries": [row]}


def totals(hours, by=("site", "entry")):
    """Return {values of `by`: (core-seconds of glideins, of jobs)} of all time."""
    return {key: (row.get("granted_core_s"), row["used_core_s"]) for key, row in hours.totals(by).items()}


def of_jobs(hours, *by, level=MONTH, since=0):
    """Return {values of `by`: core-seconds of jobs} of the periods that begin at `since` or later."""
    found = {}
    for row in hours.sums(level, since, 2**40, by):
        key = tuple(row[name] for name in by)
        found[key] = found.get(key, 0) + row["used_core_s"]
    return found


@pytest.fixture
def hours(database):
    return CoreHours(database)


def test_periods_begin_at_midnight_utc():
    assert month_of(epoch("2026-11-30 23:59")) == epoch("2026-11-01 00:00")
    assert month_of(epoch("2026-12-01 00:00")) == epoch("2026-12-01 00:00")
    assert year_of(epoch("2026-12-31 23:59")) == epoch("2026-01-01 00:00")
    assert begin_of(epoch("2026-12-31 23:59"), DAY_S) == epoch("2026-12-31 00:00")
    assert begin_of(epoch("2026-11-29 23:59"), WEEK_S) == epoch("2026-11-23 00:00")  # a Monday


def test_running_glideins_count_between_reports(hours):
    for number, running in enumerate((0, 2, 2, 0)):
        hours.reported(report(running, NOW + 300 * number), NOW + 300 * number)
    # Half of the first interval, the second one, and half of the third.
    assert totals(hours) == {("PSC", "RM"): (2 * 28 * 600, 0)}


def test_a_clock_of_the_server_that_is_set_back_counts_nothing_twice(hours):
    for now in (NOW, NOW + 300, NOW - 2700):
        hours.reported(report(2, now), now)
    assert totals(hours) == {("PSC", "RM"): (2 * 28 * 300, 0)}


def test_an_entry_that_a_report_lists_twice_counts_once_whatever_the_clock_of_the_site(hours):
    for number in range(3):
        one = report(2, 0, as_of=NOW - 10**6 * number)
        hours.reported({**one, "entries": one["entries"] * 2}, NOW + 300 * number)
    assert totals(hours) == {("PSC", "RM"): (2 * 28 * 600, 0)}


def test_a_restart_and_a_report_without_counts_lose_nothing(hours, database_url):
    hours.reported(report(1, NOW), NOW)
    hours.reported({"site": "PSC", "as_of": NOW + 300, "entries": []}, NOW + 300)
    hours.reported(report(None, NOW + 600), NOW + 600)
    again = CoreHours(Database(database_url))
    again.reported(report(1, NOW + 900), NOW + 900)
    assert totals(again) == {("PSC", "RM"): (28 * 900, 0)}


def test_an_interval_over_midnight_is_divided_between_hours_days_and_months(hours):
    begin = epoch("2026-12-31 23:55")
    hours.reported(report(1, begin, cpus=1), begin)
    hours.reported(report(1, begin + 900, cpus=1), begin + 900)
    for level, first in ((HOUR, "2026-12-31 23:00"), (DAY, "2026-12-31 00:00"), (MONTH, "2026-12-01 00:00")):
        found = [(row["time"], row["granted_core_s"]) for row in hours.sums(level, 0, 2**40, ())]
        assert found == [(epoch(first), 300), (epoch("2027-01-01 00:00"), 600)]
    current = hours.current(begin + 900)
    assert (current["month"], current["year"]) == (epoch("2027-01-01 00:00"),) * 2
    assert current["entries"] == [
        {"site": "PSC", "entry": "RM", "shape": "node", "month_core_s": 600, "year_core_s": 600,
         "read_at": begin + 900, "cores": 1}
    ]  # fmt: skip


def test_after_a_long_gap_the_starts_of_the_glideins_decide():
    day = NOW // DAY_S * DAY_S
    last, new = Reading(day, 4, 3), Reading(day + 36000, 4, 3)
    half = MAX_GAP_S // 2
    # Two of three glideins continued, one ended, and another one has run for 100 s.
    assert sum(glidein_core_seconds(last, new, [(50000, 2), (100, 1)]).values()) == 4 * (2 * 36000 + 100 + half)
    # Without starts, the gap counts like an interval of MAX_GAP_S.
    assert sum(glidein_core_seconds(last, new, []).values()) == 4 * 3 * MAX_GAP_S
    # There are more starts than running glideins; a site cannot have more than it reports.
    assert sum(glidein_core_seconds(last, new, [(50000, 9)]).values()) == 4 * 3 * 36000


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(60, 40_000)), max_size=12),
    st.lists(st.integers(1, 7000), min_size=1, max_size=12),
)
def test_the_error_is_at_most_one_interval_for_each_glidein_and_gap(glideins, steps):
    """Check random glideins: (start, seconds); reports arrive after these steps."""
    times = [NOW + sum(steps[:number]) for number in range(len(steps) + 1)]
    spans = [(NOW + start, NOW + start + length) for start, length in glideins]

    def reading(time_s):
        ages = [(time_s - begin, 1) for begin, end in spans if begin <= time_s < end]
        return Reading(time_s, 2, len(ages)), ages

    counted, allowed = 0, 2
    for before, after in zip(times, times[1:]):
        new, ages = reading(after)
        counted += sum(glidein_core_seconds(reading(before)[0], new, ages).values())
        starts_or_ends = sum(before < time_s <= after for span in spans for time_s in span)
        allowed += 2 * (after - before) * starts_or_ends
    true = sum(2 * max(0, min(end, times[-1]) - max(begin, times[0])) for begin, end in spans)
    assert abs(counted - true) <= allowed


def test_jobs_count_by_user_and_project_for_the_time_between_results(hours):
    rows = [["PSC", "RM", "node", "alice@pool", "physics", "", 3], ["PSC", "RM", "node", "bob@pool", "", "", 1]]
    hours.jobs_seen(rows, NOW)
    assert totals(hours) == {}
    hours.jobs_seen(rows, NOW + 300)
    hours.jobs_seen(rows[:1], NOW + 600)
    hours.jobs_seen(rows[:1], NOW + 600)
    assert totals(hours) == {("PSC", "RM"): (0, 4 * 300 + 3 * 300)}
    assert of_jobs(hours, "user") == {("alice@pool",): 1800, ("bob@pool",): 300}
    assert totals(hours, ("project",)) == {("physics",): (None, 1800), ("",): (None, 300)}


def test_a_gap_between_results_of_the_collector_is_bounded(database):
    for refresh_s, most in ((300, 900), (3600, 7200)):
        hours = CoreHours(database, refresh_s=refresh_s)
        hours.jobs_seen([], NOW)  # the clock is set back before the second run
        hours.jobs_seen([["PSC", str(refresh_s), "node", "a", "", "", 1]], NOW + 10**6)
        assert totals(hours)[("PSC", str(refresh_s))] == (0, most)


def test_the_entries_and_shapes_of_a_site_are_bounded(hours, monkeypatch):
    monkeypatch.setattr(core_hours_module, "MAX_KEYS_OF_A_SITE", 2)
    for now in (NOW, NOW + 1):
        for number in range(5):
            hours.reported(report(1, now, entry=f"e{number}", cpus=1), now)
    assert sorted(key[1] for key, found in totals(hours).items() if found[0]) == ["e0", "e1"]


def test_the_series_of_hours_days_and_weeks_have_every_step_and_the_cores_of_other_machines(hours):
    assert hours.series(HOUR_S, NOW - DAY_S, NOW) == []
    begin = begin_of(NOW, WEEK_S) - 600
    rows = [["PSC", "RM", "node", "alice@pool", "", "", 3], [OTHER_MACHINES, "", "", "", "", "", 1]]
    for number in range(5):
        hours.reported(report(1, begin + 300 * number, cpus=4), begin + 300 * number)
        hours.jobs_seen(rows, begin + 300 * number)
    for step_s, later in ((HOUR_S, [0]), (DAY_S, []), (WEEK_S, [])):
        found = hours.series(step_s, begin, begin + 2 * HOUR_S)
        first = begin_of(begin, step_s)
        assert [row.pop("time") for row in found] == [first + step_s * number for number in range(2 + len(later))]
        counted = {"granted_core_s": 2400, "used_core_s": 1800, "other_core_s": 600}
        assert found == [counted, counted, *(dict.fromkeys(counted, 0) for _hour in later)]
    assert totals(hours) == {("PSC", "RM"): (4800, 3600)}


def test_the_last_days_are_summed_by_entry_and_shape(hours):
    today = begin_of(NOW, DAY_S)
    for begin in (today - 7 * DAY_S, today - 6 * DAY_S, NOW - 300):
        for running, now in ((0, begin), (1, begin), (1, begin + 300), (0, begin + 300)):
            hours.reported(report(running, now, cpus=4), now)
        hours.jobs_seen([], begin)
        hours.jobs_seen([["PSC", "RM", "node", "alice@pool", "", "", 2]], begin + 300)
    sums = {"since": today - 6 * DAY_S, "granted_core_s": 2400, "used_core_s": 1200}
    assert hours.recent(NOW) == {("PSC", "RM", "node"): sums}


def test_days_are_deleted_and_months_are_kept(database):
    hours = CoreHours(database, keep_days=100)
    for now in (NOW, NOW + 300):
        hours.reported(report(1, now), now)
        hours.jobs_seen([["PSC", "RM", "node", "alice@pool", "", "", 1]], now)
    hours.delete_old(NOW + 3 * DAY_S)
    assert (hours.sums(HOUR, 0, 2**40, ()), len(hours.sums(DAY, 0, 2**40, ()))) == ([], 1)
    hours.delete_old(NOW + 102 * DAY_S)
    assert hours.sums(DAY, 0, 2**40, ()) == []
    assert [row["granted_core_s"] for row in hours.sums(MONTH, 0, 2**40, ())] == [28 * 300]
    assert hours.current(NOW + 102 * DAY_S)["entries"] == []
    assert totals(hours) == {("PSC", "RM"): (28 * 300, 300)}


def claimed(owner="alice@pool", group=None, cpus=2, **changes):
    more = {} if group is None else {"AccountingGroup": group}
    known = {"SlotType": "Dynamic", "State": "Claimed", "Cpus": cpus, "RemoteOwner": owner}
    return slot("slot1_1@glidein_1@node1", **{**known, **more, **changes})


def test_claimed_slots_count_for_their_user_and_project():
    key = ("PSC", "RM", "node")
    slots = [
        slot(State="Claimed"),  # partitionable: the jobs are in its dynamic slots
        claimed(),
        claimed(group="physics.alice", cpus=3),
        claimed(group="physics.alice", ProjectName="Neutrino"),
        claimed(ProjectName="Neutrino", cpus=4),
        claimed(owner="x" * 500, SlotType="Static", State="Preempting"),
        claimed(State="Unclaimed"),
    ]
    assert supply.job_cores({key: slots}, others=7) == [
        [OTHER_MACHINES, "", "", "", "", "", 7],
        ["PSC", "RM", "node", "", "", "", 2],
        ["PSC", "RM", "node", "alice@pool", "", "", 2],
        ["PSC", "RM", "node", "alice@pool", "Neutrino", "", 4],
        ["PSC", "RM", "node", "alice@pool", "physics", "", 5],
    ]


def test_the_vo_of_a_job_is_that_of_its_proxy_then_of_its_token_then_of_the_pool():
    issuer = "https://tokens.example.org/"
    slots = [
        claimed(x509UserProxyVOName="cms", AuthTokenIssuer=issuer),
        claimed(AuthTokenIssuer=issuer, cpus=3),
        claimed(AuthTokenIssuer="https://other.example.org/", cpus=4),
        claimed(x509UserProxyVOName="bad\nname", cpus=5),
    ]
    query = supply_query(vo="lab", token_vos={issuer: "icecube"})
    result = supply.read(query, Collector(*map(classad2.ClassAd, slots)))
    assert {row[5]: row[6] for row in result["job_cores"]} == {"cms": 2, "icecube": 3, "lab": 9}


def test_the_stored_names_of_a_site_are_bounded_and_no_core_hour_is_lost(hours, monkeypatch):
    monkeypatch.setattr(core_hours_module, "MAX_JOB_KEYS_OF_A_SITE", 3)
    for number in range(6):
        rows = [["PSC", "RM", "node", f"u{number}", "p", "cms", 1], ["TACC", "RM", "node", "alice@pool", "", "cms", 1]]
        hours.jobs_seen([*rows, ["PSC", "RM", "node", "u0", "p", "cms", 2]] if number else rows, NOW + 100 * number)
    found = of_jobs(hours, "site", "user")
    assert found[("PSC", "")] == 3 * 100
    assert found[("TACC", "alice@pool")] == 500
    assert sum(core_s for key, core_s in found.items() if key[0] == "PSC") == 5 * 300
    assert len([key for key in found if key[0] == "PSC"]) == 3 + 1


def test_the_names_of_a_month_count_in_the_next_months_however_many_there_were(hours, monkeypatch):
    monkeypatch.setattr(core_hours_module, "MAX_JOB_KEYS_OF_A_SITE", 2)
    for month in range(4):
        for number in range(2):
            at = NOW + 31 * DAY_S * month + 300 * number
            rows = [["PSC", "RM", "node", f"u{month}{user}", "p", "", number] for user in range(2)]
            hours.jobs_seen(rows, at)
    assert of_jobs(hours, "entry", "user", since=month_of(at)) == {("RM", "u30"): 300, ("RM", "u31"): 300}
    assert totals(hours, ("entry", "project")) == {("RM", "p"): (None, 4 * 600)}


def test_invented_entries_of_a_site_are_bounded_and_make_no_rows_of_the_supply(service, monkeypatch):
    hours = service.server.core_hours
    monkeypatch.setattr(core_hours_module, "MAX_JOB_KEYS_OF_A_SITE", 3)
    monkeypatch.setattr(core_hours_module, "MAX_KEYS_OF_A_SITE", 2)
    hours.jobs_seen([], NOW)
    hours.jobs_seen([["PSC", f"q{number}", f"s{number}", "a", "", "", 1] for number in range(9)], NOW + 300)
    places = of_jobs(hours, "entry", "shape")
    assert places == {**{(f"q{number}", f"s{number}"): 300 for number in range(5)}, ("", ""): 4 * 300}
    assert totals(hours, ("entry",)).keys() == {(entry,) for entry, _shape in places}
    assert service.result("get_supply")["entries"] == []


@pytest.mark.parametrize(
    ("group", "project"),
    [("", ""), ("<none>", ""), ("alice.b", ""), ("alice.b@pool", ""), ("physics.alice.b", "physics"),
     ("physics.cms.alice.b@pool", "physics.cms"), ("physics.prod", "physics"), ("physics", "physics")],
)  # fmt: skip
def test_the_project_is_the_group_of_the_accounting_group(group, project):
    assert supply.project_of(group, "alice.b@pool") == project


def test_recorded_ads_have_the_users_of_their_jobs():
    result = supply.read(supply_query(), Collector(*recorded_ads()))
    assert [row[3:] for row in result["job_cores"]] == [["alice@cm", "", "", 1]]


@pytest.fixture
def used(service):
    """Return a service that has counted an hour of two nodes of 28 cores, and of jobs of two users."""
    rows = [["PSC", "RM", "node", "alice@pool", "physics", "", 40], ["PSC", "RM", "node", "=1+1", "", "", 10]]
    entry = {"entry": "RM", "shape": "node", "running": 2, "cpus": 28, "running_since": [[NOW - 50, 2]]}
    for number in range(13):
        service.now = NOW + number * 300
        service.result("report", site_report(entries=[entry], as_of=service.now), TOKEN)
        service.server.core_hours.jobs_seen(rows, service.now)
    return service


def test_usage_by_month_and_site_is_the_default(used):
    assert used.get("/usage").json == {
        "as_of": used.now, "per": "month", "by": ["site", "entry"],
        "rows": [{"month": "2026-11", "site": "PSC", "entry": "RM", "granted_core_hours": 56.0,
                  "used_core_hours": 50.0}],
    }  # fmt: skip


def test_usage_by_day_project_and_user(used):
    rows = used.get("/usage?per=day&by=project&since=2026-11-01").json["rows"]
    assert rows == [
        {"day": "2026-11-20", "project": "", "used_core_hours": 10.0},
        {"day": "2026-11-20", "project": "physics", "used_core_hours": 40.0},
    ]
    assert used.get("/usage?per=day&since=2026-11-23&until=2026-11-30").json["rows"] == []
    rows = used.get("/usage?by=user,project", TOKEN).json["rows"]
    assert {"month": "2026-11", "user": "alice@pool", "project": "physics", "used_core_hours": 40.0} in rows
    assert used.get("/usage?by=").json["rows"] == [
        {"month": "2026-11", "granted_core_hours": 56.0, "used_core_hours": 50.0}
    ]


def test_usage_as_csv_cannot_become_a_formula(used):
    response = used.get("/usage?by=user&format=csv", TOKEN)
    assert response.content_type == "text/csv; charset=utf-8"
    assert list(csv.reader(io.StringIO(response.text))) == [
        ["month", "user", "used_core_hours"],
        ["2026-11", "'=1+1", "10.0"],
        ["2026-11", "alice@pool", "40.0"],
    ]
    first = used.get("/usage?format=csv").text.splitlines()
    assert first == ["month,site,entry,granted_core_hours,used_core_hours", "2026-11,PSC,RM,56.0,50.0"]


@pytest.mark.parametrize(
    ("query", "message"),
    [("per=week", "per must be one of month, day, not 'week'"), ("format=xml", "format must be one of json, csv"),
     ("by=site,site", "by must be a list of"), ("by=password", "by must be a list of"),
     ("since=yesterday", "since must be a date such as 2026-11"), ("until=2026-13", "until must be a date"),
     ("since=2026-11&until=2026-10", "since must not be after until"),
     ("until=0001-01", "from 1971 to 9998, not '0001-01'"), ("until=9999-12", "until must be a date"),
     ("form=csv", "unknown parameter 'form'"), ("layout=wide", "layout must be one of table, records, not 'wide'")],
)  # fmt: skip
def test_an_invalid_request_names_the_parameter(service, query, message):
    response = service.get(f"/usage?{query}")
    assert response.status_code == 400
    assert message in response.text


def test_the_default_is_a_year_of_months_and_a_month_of_days():
    now = epoch("2026-02-03 12:00")
    assert usage.parse({}, now, False).since == epoch("2025-03-01 00:00")
    assert usage.parse({"per": "day"}, now, False).since == epoch("2026-01-04 00:00")
    assert usage.parse({"until": "2026-01-31"}, now, False).until == epoch("2026-01-01 00:00")


def test_a_month_means_its_first_or_last_day():
    asked = usage.parse({"per": "day", "since": "2026-02", "until": "2026-02"}, NOW, False)
    assert (asked.since, asked.until) == (epoch("2026-02-01 00:00"), epoch("2026-02-28 00:00"))
    for date in ("1971-01", "9998-12"):
        assert usage.parse({"until": date}, NOW, False).until == epoch(f"{date}-01 00:00")


@pytest.fixture
def recorded(service, monkeypatch):
    """Return a service with two hours of a node, of which jobs of two VOs used a part, around the end of a month."""
    monkeypatch.setattr(socket, "gethostname", lambda: "cm")
    begin = epoch("2026-10-31 23:00")
    rows = [["PSC", "RM", "node", "alice@pool", "physics", "cms", 20], ["PSC", "RM", "node", "=1+1", "", "", 4]]
    for number in range(25):
        service.now = begin + number * 300
        entry = {"entry": "RM", "shape": "node", "running": 1, "cpus": 28}
        service.result("report", site_report(entries=[entry], as_of=service.now), TOKEN)
        service.server.core_hours.jobs_seen(rows, service.now)
    return service


def record(kind, month, **changes):
    times = {10: ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"), 11: ("2026-11-01T00:00:00Z", "2026-11-01T01:00:00Z")}
    start, end = times[month]
    known = {"ResourceType": kind, "ProbeName": "glidein-demand:cm", "StartTime": start, "EndTime": end,
             "SiteName": "PSC", "VOName": "", "ProjectName": "", "Processors": 1}  # fmt: skip
    return {**known, **changes}


def test_records_have_pilots_and_jobs_by_month_site_vo_and_project(recorded):
    reply = recorded.get("/usage?layout=records").json
    pilots = {"WallDuration": 28 * 3600, "CoreHours": 28.0}
    cms = {"VOName": "cms", "ProjectName": "physics", "WallDuration": 20 * 3600, "CoreHours": 20.0}
    other = {"WallDuration": 4 * 3600, "CoreHours": 4.0}
    assert reply == {
        "as_of": recorded.now, "per": "month", "by": ["site", "vo", "project"],
        "records": [
            record(kind, month, **values)
            for month in (10, 11)
            for kind, values in (("Batch", pilots), ("Payload", other), ("Payload", cms))
        ],
    }  # fmt: skip


def test_the_records_of_pilots_have_the_vo_of_the_pool(database_url):
    service = Service(url=database_url, pool={"vo": "icecube"})
    entry = {"entry": "RM", "shape": "node", "running": 1, "cpus": 28}
    for _number in range(2):
        service.now += 300
        service.result("report", site_report(entries=[entry], as_of=service.now), TOKEN)
    (found,) = service.get("/usage?layout=records&by=site,entry,vo,user", TOKEN).json["records"]
    assert [found[name] for name in ("VOName", "SiteName", "Queue", "GlobalUserName")] == ["icecube", "PSC", "RM", ""]


@pytest.mark.parametrize("query", ["by=user", "layout=records&by=site,user", "by=user&format=csv"])
def test_users_need_a_token(used, query):
    response = used.get(f"/usage?{query}")
    assert (response.status_code, "alice" in response.text) == (401, False)
    assert "alice" in used.get(f"/usage?{query}", TOKEN).text


def test_records_as_csv_have_the_fields_of_json_and_no_formula(recorded):
    response = recorded.get("/usage?layout=records&by=user,site&per=day&format=csv", TOKEN)
    assert response.headers["Content-Disposition"] == "attachment; filename=usage-records.csv"
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert rows[0] == {
        "ResourceType": "Batch", "ProbeName": "glidein-demand:cm", "StartTime": "2026-10-31T00:00:00Z",
        "EndTime": "2026-11-01T00:00:00Z", "SiteName": "PSC", "GlobalUserName": "", "Processors": "1",
        "WallDuration": "100800", "CoreHours": "28.0",
    }  # fmt: skip
    assert [row["GlobalUserName"] for row in rows[1:3]] == ["'=1+1", "alice@pool"]


def test_usage_by_vo_omits_the_glideins(recorded):
    assert recorded.get("/usage?by=vo&since=2026-11").json["rows"] == [
        {"month": "2026-11", "vo": "", "used_core_hours": 4.0},
        {"month": "2026-11", "vo": "cms", "used_core_hours": 20.0},
    ]


def test_the_page_shows_vos_only_if_a_job_has_one(recorded):
    for text in ("Core-hours of jobs by VO", "no VO"):
        assert text in recorded.page()


def test_metrics_have_entries_and_projects_but_no_users(used, monkeypatch):
    found = samples(used)
    place = (("entry", "RM"), ("site", "PSC"))
    assert found[("glidein_site_granted_core_seconds_total", *place)] == 56 * 3600
    assert found[("glidein_site_used_core_seconds_total", *place)] == 50 * 3600
    assert found[("glidein_project_used_core_seconds_total", ("project", "physics"))] == 40 * 3600
    assert "alice" not in used.get("/metrics").text
    monkeypatch.setattr(metrics, "MAX_PROJECTS", 1)
    found = samples(used)
    assert [key for key in found if key[0] == "glidein_project_used_core_seconds_total"] == [
        ("glidein_project_used_core_seconds_total", ("project", "physics"))
    ]
    assert found[("glidein_demand_projects_left_out",)] == 1


def test_the_page_shows_core_hours_and_users_to_callers_with_a_token(used):
    page = used.page()
    for text in ("Core-hours by site and entry", "PSC/RM", "November 2026", "October 2026", "physics", "no project"):
        assert text in page
    assert "alice" not in page
    assert "Core-hours of jobs by VO" not in page
    assert "Core-hours of jobs by user" in used.page(TOKEN)
    assert "alice@pool" in used.page(TOKEN)


def test_the_supply_has_the_core_hours_of_the_last_days_and_for_budgets(used):
    found = used.result("get_supply")
    since = begin_of(NOW, DAY_S) - 6 * DAY_S
    (entry,) = found["entries"]
    assert entry["core_hours"] == {"since": since, "granted_core_s": 56 * 3600, "used_core_s": 50 * 3600}
    assert found["core_hours"] == {
        "month": epoch("2026-11-01 00:00"), "year": epoch("2026-01-01 00:00"),
        "entries": [{"site": "PSC", "entry": "RM", "shape": "node", "month_core_s": 56 * 3600,
                     "year_core_s": 56 * 3600, "read_at": used.now, "cores": 56}],
    }  # fmt: skip
