# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the plan stays within the core-hours of a budget and explains it."""

import datetime
import random

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    history,
    planned_site,
    queue,
    raw_entry,
    shape,
    supplied,
    supply,
)
from ansible_collections.glidein.ops.tests.unit.support.plan_options import options
from hypothesis import given
from hypothesis import strategies as st

HOUR = 3600
NODE = {"node": shape(cpus=28, memory_mb=120000, disk_mb=200000)}
MANY = {"queued": 10**6, "total": 10**6, "per_cycle": 10**6}


def epoch(*parts):
    return int(datetime.datetime(*parts, tzinfo=datetime.timezone.utc).timestamp())


NOVEMBER, DECEMBER, YEAR = epoch(2026, 11, 1), epoch(2026, 12, 1), epoch(2026, 1, 1)


def used(*rows, as_of=NOW - 10, month=NOVEMBER, year=YEAR):
    """Return the server's core-hours. rows: (entry, core-hours of the month, core-hours of the year, other keys).

    Entries without a row have used nothing.
    """
    given = {row[0] for row in rows if "shape" not in row[3]}
    rows = [*rows, *((name, 0, 0, {}) for name in ("RM", "other") if name not in given)]
    entries = [
        dict(
            {"site": "lab", "entry": entry, "shape": "node", "month_core_s": int(of_month * HOUR),
             "year_core_s": int(of_year * HOUR), "read_at": as_of, "cores": 0},
            **more,
        )
        for entry, of_month, of_year, more in rows
    ]  # fmt: skip
    return {"month": month, "year": year, "entries": entries}


def entry(core_hours=None, per="month", **changes):
    budget = {} if core_hours is None else {"budget": {"core_hours": core_hours, "per": per}}
    return raw_entry(**dict({"walltime": "48h", "shapes": NODE, "limits": MANY}, **budget, **changes))


def lab(entries, have=None, budget=None):
    return planned_site(normalise_site("glidein", "lab", entries, None, budget), queue(have))


def planned(jobs, site, known, now_s=NOW, guarded=False, **more):
    """Return (result, {entry: item}) of a plan for jobs of 28 cores."""
    told = supply(*more.pop("supplies", ()), as_of=now_s - 10, core_hours=known, **more)
    asked = demand(group(count=jobs, cpus=28, memory_mb=100000), as_of=now_s - 10)
    result = make_plan(asked, told, [site], now_s, 900, options=options(guard={"enabled": guarded}))
    return result, {item.entry: item for item in result["plan"]}


def test_the_plan_orders_within_the_budget_and_explains_it():
    result, items = planned(9, lab({"RM": entry(100000)}), used(("RM", 98000, 98000, {})))
    item = items["RM"]
    assert (item.present, item.cpus) == (1, 28)  # 28 cores x 48 h are 1,344 core-hours
    assert item.reason == (
        "1 idle job to serve: 1 in queued or new glideins; 0 running, 0 queued, 1 to add; "
        "lab/RM budget of 100,000 core-hours in November 2026 reached; "
        "budget: 98,000 of 100,000 core-hours used in November 2026, 1,344 reserved for queued and running glideins; "
        "room for 0 more of 28 cores x 48 h"
    )
    assert result["unserved"] == [
        {"group": "a", "count": 8, "reason": "no more glideins where these jobs fit: lab/RM budget of 100,000 "
         "core-hours in November 2026 reached"}
    ]  # fmt: skip


def test_a_budget_with_room_is_explained_too():
    items = planned(1, lab({"RM": entry(100000)}), used(("RM", 50000, 50000, {})))[1]
    assert items["RM"].reason.endswith(
        "; budget: 50,000 of 100,000 core-hours used in November 2026, 1,344 reserved for queued and running "
        "glideins; room for 36 more of 28 cores x 48 h"
    )


def test_running_glideins_reserve_their_remaining_walltime_and_queued_ones_all_of_it():
    have = {("RM", "node"): {"queued": 1, "running": 2, "sick": 1, "running_since": [[NOW - 5 - 47 * HOUR, 1]]}}
    # One hour, 48 h without a known start, and 48 h each for the queued and the held glidein.
    reserved = 28 * (1 + 48 + 48 + 48)
    for room, present in ((0, 3), (1, 4), (2, 5)):
        known = used(("RM", 0, 0, {"read_at": NOW}))
        items = planned(9, lab({"RM": entry(reserved + 28 * 48 * room)}, have), known)[1]
        assert items["RM"].present == present
    assert planned(9, lab({"RM": entry(reserved - 1)}, have), used())[1]["RM"].present == 2


def test_core_hours_since_the_last_report_are_reserved():
    have = {("RM", "node"): {"running": 1, "running_since": [[NOW - 5 - 47 * HOUR, 1]]}}
    known = used(("RM", 100, 100, {"read_at": NOW - 10 - HOUR, "cores": 3 * 28}))
    item = planned(0, lab({"RM": entry(1000)}, have), known)[1]["RM"]
    # An hour of the mean of three glideins and one, 10 s more, and an hour of the running glidein.
    assert "100 of 1,000 core-hours used in November 2026, 84 reserved" in item.reason


def test_a_removed_shape_keeps_its_used_core_hours_and_reserves_none():
    known = used(("RM", 100, 100, {}), ("RM", 50, 50, {"shape": "removed", "read_at": NOW - 10**6, "cores": 10**4}))
    item = planned(0, lab({"RM": entry(1000)}), known)[1]["RM"]
    assert "150 of 1,000 core-hours used in November 2026, 0 reserved" in item.reason


def test_a_server_clock_that_is_ahead_does_not_reduce_the_reservation():
    known = used(("RM", 0, 0, {"read_at": NOW - HOUR + 600, "cores": 28}), ("other", 0, 0, {"read_at": NOW + 600}))
    item = planned(0, lab({"RM": entry(1000)}), known)[1]["RM"]
    assert "14 reserved" in item.reason  # an hour of the mean of 28 cores and none


def test_glideins_that_the_budget_has_no_room_for_are_withdrawn_also_by_the_guard():
    have = {("RM", "node"): {"queued": 5, "running": 1, "oldest_queued_s": 10, "queued_since": [[NOW - 15, 5]]}}
    wanted = supplied("RM", "node", history=history([{"age_s": 60, "wanted": 6, "running": 1, "launched": 5}]))
    for guarded in (False, True):
        for jobs in (0, 9):
            site = lab({"RM": entry(28 * 48 * 3)}, have)
            known = used(("RM", 0, 0, {"read_at": NOW}))
            item = planned(jobs, site, known, guarded=guarded, supplies=[wanted])[1]["RM"]
            assert item.present <= 3
            assert item.present >= 1
    assert item.present == 3
    assert "withdrawn: lab/RM budget of 4,032 core-hours in November 2026 reached" in item.reason


def test_jobs_go_to_another_entry_when_a_budget_is_used_up():
    items = planned(4, lab({"RM": entry(10, priority=5), "other": entry()}), used(("RM", 10, 10, {})))[1]
    assert (items["RM"].present, items["other"].present) == (0, 4)
    assert "budget" not in items["other"].reason


def test_a_budget_of_the_site_is_shared_by_its_entries_and_counts_removed_ones():
    budget = {"core_hours": 28 * 48 * 5, "per": "year"}
    known = used(("RM", 0, 28 * 48, {}), ("removed", 0, 28 * 48, {}))
    items = planned(9, lab({"RM": entry(28 * 48 * 2), "other": entry()}, budget=budget), known)[1]
    assert {name: item.present for name, item in items.items()} == {"RM": 2, "other": 1}
    assert "site budget: 2,688 of 6,720 core-hours used in 2026" in items["other"].reason


def test_each_month_has_its_own_budget_for_the_hours_within_it():
    now_s = DECEMBER - HOUR
    # The budget of November is nearly used up: it has room for an hour of two nodes.
    known = used(("RM", 28 * 48 * 2 - 56, 0, {}), as_of=now_s - 10)
    item = planned(9, lab({"RM": entry(28 * 48 * 2)}), known, now_s)[1]["RM"]
    assert item.present == 2
    # In December there is room for two nodes of 48 h, whatever remains of November's budget.
    item = planned(9, lab({"RM": entry(28 * 48 * 2)}), used(as_of=now_s - 10), now_s)[1]["RM"]
    assert item.present == 2
    assert "lab/RM budget of 2,688 core-hours in December 2026 reached" in item.reason
    known = used(as_of=DECEMBER, month=DECEMBER)
    item = planned(9, lab({"RM": entry(28 * 48 * 2)}), known, DECEMBER + 5)[1]["RM"]
    assert (item.present, "used in December 2026" in item.reason) == (2, True)


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (None, "supply.core_hours.entries: None is invalid"),
        (used(month=epoch(2026, 10, 1)), "the demand server's are those of October 2026"),
        (dict(used(), entries=None), "supply.core_hours.entries: None is invalid"),
        (dict(used(), entries=[{"site": "lab"}]), "supply.core_hours.entries[0]"),
        (used(("RM", -1, 0, {})), "supply.core_hours.entries[0].month_core_s: -3600 is invalid"),
        (used(("RM", 0, 0, {}), ("RM", 0, 0, {})), "supply.core_hours.entries[1]"),
        (dict(used(), entries=[]), "the demand server has no report of lab/RM/node yet"),
        (used(("RM", 5, 5, {"read_at": None})), "the demand server has no report of lab/RM/node yet"),
        (used(("RM", 0, 0, {"read_at": "now"})), "supply.core_hours.entries[0].read_at"),
    ],
)
def test_an_entry_with_a_budget_is_unchanged_if_its_used_core_hours_are_unknown(known, why):
    have = {("RM", "node"): {"queued": 3, "running": 1}, ("other", "node"): {"queued": 3}}
    for jobs in (0, 1, 50):
        items = planned(jobs, lab({"RM": entry(10**6), "other": entry()}, have), known)[1]
        assert items["RM"].present == 4
        assert f"budget: used core-hours are not known ({why}" in items["RM"].reason
    assert items["other"].present > 3
    result = planned(9, lab({"RM": entry(10**6)}), known)[0]
    limit = "lab/RM gets no new glidein while its used core-hours are not known"
    assert (result["plan"][0].present, limit in result["unserved"][0]["reason"]) == (0, True)


def test_a_budget_is_checked_with_the_other_options():
    for wrong, message in (
        ({"per": "month"}, "budget.core_hours: missing; expected a whole number of at least 0"),
        ({"core_hours": -1}, "budget.core_hours: -1 is invalid"),
        ({"core_hours": 1, "per": "week"}, "budget.per: 'week' is invalid; expected month or year"),
        ({"core_hours": 1, "hours": 2}, "budget.hours: unknown key"),
        (7, "budget: 7 is invalid; expected a mapping with the keys core_hours, per"),
    ):
        with pytest.raises(InputError, match=message.replace(".", r"\.")) as of_entry:
            normalise_site("glidein", "lab", {"main": raw_entry(budget=wrong)})
        assert "glidein_entries.main.budget" in str(of_entry.value)
        with pytest.raises(InputError, match="glidein_budget"):
            normalise_site("glidein", "lab", {"main": raw_entry()}, None, wrong)
    assert normalise_site("glidein", "lab", {"main": raw_entry(budget={"core_hours": "5"})})["entries"]["main"][
        "budget"
    ] == {"core_hours": 5, "per": "month"}


few = st.integers(0, 6)
ages = st.lists(st.tuples(st.integers(0, 50 * HOUR), st.integers(1, 3)), max_size=3)


@st.composite
def budgeted(draw):
    """Generate (sites' entries, glideins, budgets, core-hours of the server, time)."""
    now_s = draw(st.sampled_from([NOW, DECEMBER - 1, DECEMBER - 30 * HOUR, NOVEMBER + 60]))
    entries, have, rows = {}, {}, []
    for name in ("a", "b"):
        limit = draw(st.one_of(st.none(), st.integers(0, 4000)))
        entries[name] = entry(
            limit,
            draw(st.sampled_from(["month", "year"])),
            walltime=draw(st.sampled_from(["1h", "48h", "90m"])),
            shapes={"node": shape(cpus=draw(st.sampled_from([28, 56])), memory_mb=250000, disk_mb=200000)},
            priority=draw(st.integers(0, 1)),
        )
        have[(name, "node")] = {key: draw(few) for key in ("queued", "running", "completing", "sick")}
        have[(name, "node")]["running_since"] = [[now_s - age_s, number] for age_s, number in draw(ages)]
        hours = draw(st.integers(0, 4500))
        more = {"read_at": now_s - draw(st.integers(0, 2 * HOUR)), "cores": 28 * draw(few)}
        rows.append((name, hours, hours + draw(st.integers(0, 500)), more))
    site_budget = draw(st.one_of(st.none(), st.builds(dict, core_hours=st.integers(0, 8000))))
    known = used(*rows, as_of=now_s, month=epoch(2026, 11, 1))
    return lab(entries, have, site_budget), known, now_s


def worst_case(site, known, item, now_s, per):
    """Return an entry's core-seconds until the end of the period, including those used, and after it."""
    one = site["site"]["entries"][item.entry]
    cpus, walltime_s = one["shapes"]["node"]["cpus"], one["walltime_s"]
    left_s = (DECEMBER if per == "month" else epoch(2027, 1, 1)) - now_s
    there = next(count for count in site["queue"]["entries"] if count["entry"] == item.entry)
    row = next(row for row in known["entries"] if row["entry"] == item.entry)
    waiting = item.present - item.running + there["sick"]
    remaining = []
    for started, number in sorted(there["running_since"], reverse=True):
        age_s = max(0, site["queue"]["as_of"] - started)
        remaining += [max(0, walltime_s - age_s)] * number
    remaining = (remaining + [walltime_s] * item.running)[: item.running]
    not_counted = (now_s - row["read_at"]) * (row["cores"] + cpus * item.running) / 2
    this = sum(min(one, left_s) for one in remaining) + waiting * min(walltime_s, left_s)
    later = sum(max(0, one - left_s) for one in remaining) + waiting * walltime_s
    return row[f"{per}_core_s"] + not_counted + cpus * this, cpus * later


@given(st.integers(0, 30), budgeted(), st.booleans(), st.booleans())
def test_no_plan_exceeds_a_budget(jobs, pool, guarded, silent):
    site, known, now_s = pool
    site["queue"]["as_of"] = now_s
    failed = [{"name": "s", "error": "timeout"}] if silent else []
    asked = demand(group(count=jobs, cpus=20, memory_mb=1000), as_of=now_s, schedds={"answered": [], "failed": failed})
    plans = [{"age_s": NOW - now_s + 60, "wanted": 9, "running": 0, "launched": 9}]
    told = supply(*(supplied(name, "node", history=history(plans)) for name in "ab"), as_of=now_s, core_hours=known)
    result = make_plan(asked, told, [site], now_s, 900, options=options(guard={"enabled": guarded}))
    items = {item.entry: item for item in result["plan"]}
    budgets = [(one["budget"], [name]) for name, one in site["site"]["entries"].items()]
    for budget, names in [*budgets, (site["site"]["budget"], list(items))]:
        if budget is None:
            continue
        parts = [worst_case(site, known, items[name], now_s, budget["per"]) for name in names]
        exceeded = max(sum(one[0] for one in parts), sum(one[1] for one in parts)) > budget["core_hours"] * HOUR
        # The plan cannot change running and held glideins.
        assert not exceeded or all(items[name].present == items[name].running for name in names)
    served = sum(item.serves.get("a", 0) for item in items.values())
    assert served + sum(row["count"] for row in result["unserved"]) == jobs


def test_cycles_of_two_months_stay_within_each_month_s_budget():
    """Simulate glideins that start and end at random times.

    The server derives core-hours from the reports; see store/core_hours.py.
    """
    chance = random.Random(7)  # noqa: S311
    step_s, hours, cpus = 900, 5000, 28
    now_s = DECEMBER - 12 * 86400
    end_s = DECEMBER + 12 * 86400
    site = lab({"RM": entry(hours, walltime="24h")})
    walltime_s = 24 * HOUR
    waiting, running = 0, []  # running: (start, end)
    counted, true = {NOVEMBER: 0, DECEMBER: 0}, {NOVEMBER: 0, DECEMBER: 0}
    last, begun = 0, 0
    while now_s < end_s:
        month = NOVEMBER if now_s < DECEMBER else DECEMBER
        row = ("RM", counted[month] / HOUR, 0, {"read_at": now_s, "cores": cpus * last})
        since = [[start, 1] for start, _end in running]
        have = {("RM", "node"): {"queued": waiting, "running": len(running), "running_since": since}}
        one = planned_site(site["site"], dict(queue(have), as_of=now_s))
        item = planned(chance.randint(0, 40), one, used(row, as_of=now_s, month=month), now_s)[1]["RM"]
        waiting = item.present - item.running
        after_s = now_s + step_s
        for _start in range(chance.randint(0, waiting) if chance.random() < 0.5 else 0):
            waiting, begun = waiting - 1, begun + 1
            start = now_s + chance.randint(1, step_s)
            ends = start + (walltime_s if chance.random() < 0.7 else chance.randint(600, walltime_s))
            running.append((start, ends))
        for start, ends in running:
            true[month] += cpus * max(0, min(ends, after_s) - max(start, now_s))
        running = [pair for pair in running if pair[1] > after_s]
        counted[month] += cpus * (last + len(running)) / 2 * step_s
        last, now_s = len(running), after_s
    error = cpus * step_s * begun
    for month in (NOVEMBER, DECEMBER):
        assert abs(counted[month] - true[month]) < error
        assert counted[month] <= hours * HOUR + cpus * step_s * 60
        assert counted[month] > 0.9 * hours * HOUR  # nearly used up
