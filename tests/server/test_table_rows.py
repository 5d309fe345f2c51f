# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the rows of the page's tables."""

from page_data import NOW, demand, entry, experience, group, many, report, reports, supplied, supply, view


def sites(**changes):
    """Return {site: its row} of the single table that a few sites have."""
    (part,) = view(**changes)["sites"]["parts"]
    return {site["site"]: site for site in part["sites"]}


def numbers(row):
    return [row[name] for name in ("queued", "running", "registered", "sick", "launched", "busy")]


def test_the_demand_is_summed():
    total = view(demand=demand(group("a", 1000, cpus=2), group("b", 1, cpus=8, stale=1, unmaterialized=1)))["demand"]
    assert (total["jobs"], total["cores"], total["groups"]) == ("1,001 idle jobs", "2,008 cores", "2 groups")
    assert total["stale"].startswith("1 of them")
    assert total["unmaterialized"].startswith("1 ")


def test_a_demand_that_was_never_read_is_unknown_and_not_zero():
    assert view(demand=demand(as_of=None))["demand"]["jobs"] == "unknown"


def test_a_group_s_notes_have_stale_and_unmaterialized_jobs():
    asked = group(
        count=100, stale=20, as_of=NOW - 600, unmaterialized=50, over_limit=7, memory_mb=2176, max_runtime_s=None
    )
    (row,) = view(demand=demand(asked))["groups"]
    assert row["notes"] == ["20 from an old query, 10 min ago", "50 not in the queue yet"]
    assert (row["stale"], row["over_limit"], row["memory"], row["runtime"]) == (True, "7", "2.1 GiB", "not stated")


def test_leases_of_all_sites_add_up_per_group_until_they_expire():
    held = [
        {"site": "A", "entry": "x", "group": "aaaa", "jobs": 20, "expires": NOW + 1},
        {"site": "B", "entry": "y", "group": "aaaa", "jobs": 3, "expires": NOW + 1},
        {"site": "B", "entry": "z", "group": "aaaa", "jobs": 100, "expires": NOW},
        {"site": "B", "entry": "z", "group": "gone", "jobs": 100, "expires": NOW + 1},
    ]
    assert [row["leased"] for row in view(leases=held)["groups"]] == ["23"]


def test_used_core_hours_are_shown_for_each_entry_the_site_and_all_sites():
    def hours(granted, used):
        return {"glidein_core_s": granted * 3600, "job_core_s": round(used * 3600)}

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


def test_beyond_fifty_groups_there_is_a_sum_and_the_rest_apart():
    every = [group(f"{index:04d}", 1000 - index) for index in range(120)]
    held = [{"site": "A", "entry": "x", "group": "0060", "jobs": 5, "expires": NOW + 1}]
    shown = view(demand=demand(*every), leases=held)
    assert [len(shown["groups"]), len(shown["more_groups"]["rows"])] == [50, 70]
    assert shown["more_groups"]["groups"] == "70 more groups"
    assert shown["more_groups"]["jobs"] == f"{sum(1000 - index for index in range(50, 120)):,} jobs"
    assert shown["more_groups"]["leased"] == "5"


def test_fifty_groups_need_no_sum():
    assert view(demand=demand(*(group(str(index)) for index in range(50))))["more_groups"] is None


def test_users_and_requirements_are_there_only_with_a_token():
    asked = group(requirements="Owner == X", attributes={"Owner": "alice"})
    without, with_token = (view(demand=demand(asked), caller_has_token=has)["groups"][0] for has in (False, True))
    assert not {"users", "requirements", "attributes"} & set(without)
    assert with_token["users"] == "alice@pool (120)"
    assert (with_token["requirements"], with_token["attributes"]) == ("Owner == X", "Owner = alice")


def test_a_site_s_row_has_its_reported_and_its_registered_glideins():
    row = sites()["PSC"]
    assert numbers(row["entries"][0]) == ["1", "2", "2", "0", "1", "28 of 56"]
    assert row["report"]["ago"] == "0 s ago"


def test_the_entries_of_a_site_are_summed():
    two = report("PSC", entry("RM", queued=1, running=2), entry("GPU", queued=3, running=40))
    row = sites(reports=reports(two), supply=supply(supplied(registered=2), supplied(entry="GPU", registered=39)))[
        "PSC"
    ]
    assert numbers(row)[:3] == ["4", "42", "41"]
    assert [each["entry"] for each in row["entries"]] == ["GPU", "RM"]


def test_an_unknown_count_of_a_site_is_a_dash_and_not_zero():
    row = sites(reports=reports(report("PSC", entry(queued=None, running=None, sick=None))))["PSC"]
    assert numbers(row["entries"][0])[:4] == ["–", "–", "2", "–"]


def test_glideins_of_a_site_that_never_reported_are_shown():
    row = sites(reports={}, supply=supply(supplied("Elsewhere")))["Elsewhere"]
    assert numbers(row["entries"][0]) == ["–", "–", "2", "–", "–", "28 of 56"]
    assert row["report"]["ago"] == "never"


def test_an_entry_with_history_only_has_no_row():
    gone = supplied(entry="old", registered=0, history=experience())
    assert [each["entry"] for each in sites(supply=supply(supplied(), gone))["PSC"]["entries"]] == ["RM"]


def test_a_site_that_only_reported_an_error_has_a_row():
    row = sites(reports=reports(report(entries=[], error="Site PSC: cannot be reached")), supply=supply())["PSC"]
    assert (row["entries"], row["error"], row["has_problem"]) == ([], "cannot be reached", True)


def test_the_wait_in_the_queue_is_shown_if_available():
    assert sites(supply=supply(supplied(history=experience())))["PSC"]["entries"][0]["waits"] == "12 min (90 %: 60 min)"
    assert sites()["PSC"]["entries"][0]["waits"] == "–"


def test_few_sites_are_in_one_table_sorted_by_name():
    data = many(sites=20)
    (part,) = view(**data)["sites"]["parts"]
    assert part["title"] == ""
    assert [site["site"] for site in part["sites"]] == sorted(data["reports"])


def test_many_sites_are_split_and_those_with_problems_come_first():
    shown = view(**many(sites=500))["sites"]
    assert shown["count"] == 500
    titles = [(part["title"], part["open"]) for part in shown["parts"]]
    assert titles[0] == ("50 sites with problems", True)
    assert [is_open for _title, is_open in titles[1:]] == [False, False]
    assert sum(len(part["sites"]) for part in shown["parts"]) == 500
    assert all(site["has_problem"] for site in shown["parts"][0]["sites"])
    assert not any(site["has_problem"] for part in shown["parts"][1:] for site in part["sites"])
    assert not any(site["active"] for site in shown["parts"][2]["sites"])


def test_a_pyglidein_client_s_partitions_are_summed():
    metrics = {"glideins_idle": {"a": 1, "b": 2}, "glideins_running": {"a": 7.5}}
    (row,) = view(monitoring={"glide@login1": {"received": NOW - 60, "metrics": metrics, "site": "DESY"}})["clients"]
    assert [row[name] for name in ("idle", "running", "launched", "site")] == ["3", "7.5", "–", "DESY"]
    assert row["report"]["ago"] == "60 s ago"
