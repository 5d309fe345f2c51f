# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the rows of the page's tables."""

import pytest

from page_data import NOW, demand, entry, experience, group, many, report, reports, supplied, supply, view


def sites(**changes):
    """Return {site: its row} of the single table that a few sites have."""
    (part,) = view(**changes)["sites"]["parts"]
    return {site["site"]: site for site in part["sites"]}


def numbers(row):
    return [row[name] for name in ("queued", "running", "registered", "sick", "launched", "busy")]


def lease(group_id, jobs):
    return {"site": "A", "entry": "x", "group": group_id, "jobs": jobs, "expires": NOW + 1}


@pytest.mark.parametrize(
    ("given", "jobs", "cores", "groups", "stale", "unmaterialized"),
    [
        (
            demand(group("a", 1000, cpus=2), group("b", 1, cpus=8, stale=1, unmaterialized=1)),
            "1,001 idle jobs", "2,008 cores", "2 groups", "1 of them are from old queries",
            "1 are not in the queue yet (late materialisation)",
        ),
        (demand(as_of=None), "unknown", "0 cores", "0 groups", "", ""),
    ],
)  # fmt: skip
def test_the_demand_is_summed_and_unknown_before_the_first_query(given, jobs, cores, groups, stale, unmaterialized):
    total = view(demand=given)["demand"]
    texts = {"jobs": jobs, "cores": cores, "groups": groups, "stale": stale, "unmaterialized": unmaterialized}
    assert {name: total[name] for name in texts} == texts


def test_a_group_s_notes_have_stale_and_unmaterialized_jobs_and_limits():
    asked = group(
        count=100, stale=20, as_of=NOW - 600, unmaterialized=50, over_limit=7, memory_mb=2176, max_runtime_s=None,
        requirements="Owner == X", attributes={"Owner": "alice"},
        limited_by={"ceiling of submitter alice@pool: 1, 1 in use": 7},
    )  # fmt: skip
    (row,) = view(demand=demand(asked))["groups"]
    notes = ["20 from an old query, 10 min ago", "50 not in the queue yet"]
    assert row["notes"] == notes
    assert (row["stale"], row["over_limit"], row["memory"], row["runtime"]) == (True, "7", "2.1 GiB", "not stated")
    (row,) = view(demand=demand(asked), caller_has_token=True)["groups"]
    assert [row[name] for name in ("users", "requirements", "attributes")] == [
        "alice@pool (100)", "Owner == X", "Owner = alice"
    ]  # fmt: skip
    assert row["notes"] == [*notes, "7 over a limit: ceiling of submitter alice@pool: 1, 1 in use"]


def test_leases_of_all_sites_add_up_per_group():
    held = [lease("aaaa", 20), {**lease("aaaa", 3), "site": "B"}, lease("gone", 100)]
    assert [row["leased"] for row in view(leases=held)["groups"]] == ["23"]


def test_beyond_fifty_groups_there_is_a_sum_and_the_rest_apart():
    every = [group(f"{index:04d}", 1000 - index) for index in range(120)]
    assert view(demand=demand(*every[:50]))["more_groups"] is None
    shown = view(demand=demand(*every), leases=[lease("0060", 5)])
    assert [len(shown["groups"]), len(shown["more_groups"].pop("rows"))] == [50, 70]
    assert shown["more_groups"] == {
        "groups": "70 more groups", "leased": "5",
        "jobs": f"{sum(1000 - index for index in range(50, 120)):,} jobs",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected", "age"),
    [
        ({}, ["1", "2", "2", "0", "1", "28 of 56"], "0 s ago"),
        # The site could not count, and never reported.
        ({"reports": reports(report("PSC", entry(queued=None, running=None, sick=None)))},
         ["–", "–", "2", "–", "1", "28 of 56"], "0 s ago"),
        ({"reports": {}}, ["–", "–", "2", "–", "–", "28 of 56"], "never"),
    ],
)  # fmt: skip
def test_a_site_s_row_has_its_reported_and_registered_glideins_and_unknown_is_not_zero(changes, expected, age):
    row = sites(**changes)["PSC"]
    assert (numbers(row["entries"][0]), row["report"]["ago"]) == (expected, age)


def test_the_entries_of_a_site_are_summed():
    two = report("PSC", entry("RM", queued=1, running=2), entry("GPU", queued=3, running=40))
    gone = supplied(entry="old", registered=0, history=experience())  # has no row
    row = sites(reports=reports(two), supply=supply(supplied(), supplied(entry="GPU", registered=39), gone))["PSC"]
    assert numbers(row)[:3] == ["4", "42", "41"]
    assert [each["entry"] for each in row["entries"]] == ["GPU", "RM"]


def test_used_core_hours_are_shown_for_each_entry_the_site_and_all_sites():
    def hours(granted, used):
        return {"granted_core_s": granted * 3600, "used_core_s": round(used * 3600)}

    shown = view(
        supply=supply(
            supplied(core_hours=hours(100, 50)),
            supplied(entry="long", core_hours=hours(3000, 2999)),
            supplied("B", core_hours=hours(5, 0.001)),
        ),
        reports=reports(report("PSC", entry(), entry("long"), entry("new"))),
    )["sites"]
    rows = {site["site"]: site for site in shown["parts"][0]["sites"]}
    assert [row["used"] for row in rows["PSC"]["entries"]] == ["50 % of 100 h", "99 % of 3,000 h", "–"]
    assert (rows["PSC"]["used"], rows["B"]["used"]) == ("98 % of 3,100 h", "<1 % of 5.0 h")
    assert shown["total"]["used"] == "98 % of 3,105 h"


def test_a_site_that_only_reported_an_error_has_a_row():
    row = sites(reports=reports(report(entries=[], error="Site PSC: cannot be reached")), supply=supply())["PSC"]
    assert (row["entries"], row["error"], row["has_problem"]) == ([], "cannot be reached", True)


def test_the_wait_in_the_queue_is_shown_if_available():
    assert sites(supply=supply(supplied(history=experience())))["PSC"]["entries"][0]["waits"] == "12 min (90 %: 60 min)"
    assert sites()["PSC"]["entries"][0]["waits"] == "–"


@pytest.mark.parametrize(
    ("number", "titles"),
    [
        (20, [("", True)]),
        (500, [("50 sites with problems", True), ("429 sites with glideins", False),
               ("21 sites without glideins", False)]),
    ],
)  # fmt: skip
def test_many_sites_are_split_and_those_with_problems_come_first(number, titles):
    data = many(sites=number)
    shown = view(**data)["sites"]
    assert shown["count"] == number
    assert [(part["title"], part["open"]) for part in shown["parts"]] == titles
    names = [site["site"] for part in shown["parts"] for site in part["sites"]]
    assert sorted(names) == sorted(data["reports"])
    assert all(site["has_problem"] for site in shown["parts"][0]["sites"]) == (number == 500)


def test_a_pyglidein_client_s_partitions_are_summed():
    metrics = {"glideins_idle": {"a": 1, "b": 2}, "glideins_running": {"a": 7.5}}
    client = {"received": NOW - 60, "metrics": metrics}
    (row,) = view(clients=[("glide@login1", client)])["clients"]
    assert [row[name] for name in ("idle", "running", "launched")] == ["3", "7.5", "–"]
    assert row["report"]["ago"] == "60 s ago"
