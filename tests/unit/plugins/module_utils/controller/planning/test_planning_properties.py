# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of every plan."""

import collections
import copy
import random

from ansible_collections.glidein.ops.plugins.module_utils.common.entries import RESOURCES
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.leases import lease_requests_of, trim
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import jobs_per_slot
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    history,
    planned_site,
    queue,
    raw_entry,
    shape,
    site,
    supplied,
    supply,
)
from ansible_collections.glidein.ops.tests.unit.support.growth import SCALE, assert_linear
from ansible_collections.glidein.ops.tests.unit.support.plan_options import options
from hypothesis import given
from hypothesis import strategies as st

NO_LIMITS = {"queued": 10**6, "total": 10**6, "per_cycle": 10**6}
few = st.integers(min_value=0, max_value=6)
sizes = st.fixed_dictionaries(
    {
        "cpus": st.integers(1, 8),
        "memory_mb": st.integers(500, 16000),
        "disk_mb": st.integers(100, 5000),
        "gpus": st.sampled_from([0, 0, 0, 1, 2]),
    }
)
requests = st.fixed_dictionaries(
    {
        "count": st.integers(0, 40),
        "cpus": st.integers(1, 6),
        "memory_mb": st.integers(1, 9000),
        "disk_mb": st.integers(1, 3000),
        "gpus": st.sampled_from([0, 0, 0, 1]),
        "max_runtime_s": st.sampled_from([None, None, 3600, 9000]),
    }
)
limit_sets = st.fixed_dictionaries(
    {"queued": st.integers(0, 20), "total": st.integers(0, 30), "per_cycle": st.integers(0, 20)}
)
counts = st.fixed_dictionaries({"queued": few, "running": few, "completing": few, "sick": few})
groups_of = st.lists(requests, max_size=5).map(
    lambda found: [group("g{0}".format(n), **one) for n, one in enumerate(found)]
)


waiting = st.lists(st.tuples(st.integers(0, 1200), st.integers(1, 4)), max_size=3)
no_slots = st.just(())
ends = st.sampled_from([None, NOW + 1800, NOW + 7200])
slots = st.lists(st.builds(dict, sizes, count=few, until=ends), max_size=3)


@st.composite
def pools(draw, limits=limit_sets, registered=None, free=no_slots):
    """Generate (sites for make_plan, supply).

    registered: None for any number, "all" if all running glideins are registered; free: the free slots that each entry
    of the supply may have, including entries that no site defines.
    """
    sites = []
    supplies = [supplied("gone", "x", 1, draw(free), site_name=name) for name in ("s1", "not-in-this-plan")]
    for name in ("s1", "s2")[: draw(st.integers(1, 2))]:
        entries, have = {}, {}
        for entry in ("a", "b")[: draw(st.integers(1, 2))]:
            shapes = {
                "x{0}".format(n): shape(**one) for n, one in enumerate(draw(st.lists(sizes, min_size=1, max_size=3)))
            }
            accept = draw(st.sampled_from([{}, {}, {"gpus": {"max": 0}}, {"gpus": {"min": 1}}, {"cpus": {"min": 2}}]))
            entries[entry] = raw_entry(
                shapes=shapes, accept=accept, limits=draw(limits), priority=draw(st.integers(0, 2))
            )
            for key in shapes:
                have[(entry, key)] = draw(counts)
                started = [[NOW - 5 - age_s, number] for age_s, number in draw(waiting)]
                have[(entry, key)] = dict(have[(entry, key)], running_since=started)
                running = have[(entry, key)]["running"]
                known = running if registered == "all" else draw(st.integers(0, running + 1))
                supplies.append(supplied(entry, key, known, draw(free), site_name=name))
        site_limits = (
            draw(st.sampled_from([{}, {"total": 15}, {"queued": 8, "per_cycle": 5}])) if limits is limit_sets else {}
        )
        sites.append(planned_site(site(entries, site_limits, name), queue(have, name)))
    return sites, supply(*supplies)


unlimited = pools(limits=st.just(NO_LIMITS), free=slots)


def plan(groups, pool, **variables):
    """Return the plan before the guard, unless the variables, without their prefix, set a guard."""
    variables = {"guard": {"enabled": False}, **variables}
    return make_plan(demand(*groups), pool[1], pool[0], NOW, 900, options=options(**variables))


def rows(result):
    return {item.key: item for item in result["plan"]}


def growth(item):
    return item.present - item.counted - item.running


def presents(result):
    return {item.key: item.present for item in result["plan"]}


def provided(result, groups):
    """Return {group id: its jobs that glideins serve or free slots take}; assert that all are served or unserved."""
    found = {}
    for one in groups:
        left = sum(row["count"] for row in result["unserved"] if row["group"] == one["id"])
        served = sum(item.serves.get(one["id"], 0) for item in result["plan"])
        assert served + left <= one["count"]
        found[one["id"]] = one["count"] - left
    return found


def assert_served_once(result, groups):
    """Assert that each job is served by one glidein or unserved. There must be no free slots."""
    for key, jobs in provided(result, groups).items():
        assert sum(item.serves.get(key, 0) for item in result["plan"]) == jobs


def eager(pool, steps):
    """Return the pool, its entries with these steps of eagerness in turn."""
    sites = []
    for one in pool[0]:
        entries = one["site"]["entries"]
        changed = {
            name: dict(entry, eagerness=steps[n % len(steps)]) for n, (name, entry) in enumerate(entries.items())
        }
        sites.append(dict(one, site=dict(one["site"], entries=changed)))
    return sites, pool[1]


steps_of = st.lists(st.integers(0, 3), min_size=1, max_size=2)
allocations = st.sampled_from(["priority", "spread"])


@given(groups_of, pools(free=slots), steps_of, allocations)
def test_no_limit_is_ever_exceeded(groups, pool, steps, allocation):
    _within_limits(rows(plan(groups, eager(pool, steps), allocation=allocation)), pool)


def _within_limits(items, pool):
    for one in pool[0]:
        name = one["site"]["site"]
        scopes = [(one["site"]["limits"], None)] + [
            (entry["limits"], entry["name"]) for entry in one["site"]["entries"].values()
        ]
        for bounds, entry in scopes:
            here = [growth(item) for key, item in items.items() if key[0] == name and entry in (None, key[1])]
            new, change = sum(change for change in here if change > 0), sum(here)
            there = [count for count in one["queue"]["entries"] if entry in (None, count["entry"])]
            queued = sum(count["queued"] + count["sick"] for count in there)
            total = queued + sum(count["running"] + count["completing"] for count in there)
            for key, used in (("queued", queued), ("total", total), ("per_cycle", 0)):
                assert new == 0 or bounds[key] is None or used + (new if key == "per_cycle" else change) <= bounds[key]


@given(
    groups_of,
    pools(free=slots),
    st.fixed_dictionaries({key: st.integers(0, 30) for key in ("queued", "total", "per_cycle", "cores", "gpus")}),
    allocations,
)
def test_no_limit_of_the_deployment_is_ever_exceeded(groups, pool, limits, allocation):
    used = dict.fromkeys(limits, 0)
    new = change_cores = change_gpus = 0
    for item in plan(groups, pool, deployment_limits=limits, allocation=allocation)["plan"]:
        one = next(one for one in pool[0] if one["site"]["site"] == item.site)
        size = one["site"]["entries"][item.entry]["shapes"][item.shape]
        there = next(c for c in one["queue"]["entries"] if (c["entry"], c["shape"]) == (item.entry, item.shape))
        waiting = item.present - item.running + there["sick"]
        glideins = waiting + there["running"] + there["completing"]
        for key, number in (("queued", waiting), ("total", glideins), ("per_cycle", max(0, growth(item)))):
            used[key] += number
        used["cores"] += glideins * size["cpus"]
        used["gpus"] += glideins * size["gpus"]
        new += max(0, growth(item))
        change_cores += max(0, growth(item)) * size["cpus"]
        change_gpus += max(0, growth(item)) * size["gpus"]
    for key in ("queued", "total", "per_cycle"):
        assert new == 0 or used[key] <= limits[key]
    assert change_cores == 0 or used["cores"] <= limits["cores"]
    assert change_gpus == 0 or used["gpus"] <= limits["gpus"]


@given(groups_of, pools(free=slots), allocations)
def test_no_more_glideins_wait_than_each_group_would_need_for_itself(groups, pool, allocation):
    for item in plan(groups, pool, allocation=allocation)["plan"]:
        needed = sum(-(-jobs // each) for jobs, each in item.waits.values())
        assert item.present - item.running <= needed


@given(groups_of, pools(registered="all", free=slots))
def test_nothing_is_queued_that_serves_no_job(groups, pool):
    for item in plan(groups, pool)["plan"]:
        assert item.present >= item.running
        assert item.present - item.running <= sum(item.serves.values())


@given(groups_of, pools(), steps_of)
def test_every_job_is_served_once_or_unserved_with_a_reason(groups, pool, steps):
    result = plan(groups, eager(pool, steps))
    assert_served_once(result, groups)
    assert all(item["reason"] and item["count"] > 0 for item in result["unserved"])


@given(groups_of, unlimited)
def test_without_limits_a_job_is_left_only_where_nothing_fits(groups, pool):
    for item in plan(groups, pool)["unserved"]:
        assert item["reason"].startswith("no shape fits")


@given(groups_of, unlimited)
def test_at_most_one_glidein_per_job_is_ordered(groups, pool):
    result = plan(groups, pool)
    ordered = sum(max(0, growth(item)) for item in result["plan"])
    assert ordered <= sum(one["count"] for one in groups)


@given(groups_of, pools(free=slots), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(groups, pool, chance):
    for variables in ({}, {"allocation": "spread"}, {"guard": {}}):
        _order_does_not_matter(groups, pool, chance, variables)


def _order_does_not_matter(groups, pool, chance, variables):
    sites = [
        dict(
            one,
            site=dict(one["site"], entries=_shuffled(one["site"]["entries"], chance)),
            queue=dict(one["queue"], entries=_shuffled_list(one["queue"]["entries"], chance)),
        )
        for one in pool[0]
    ]
    other = (_shuffled_list(sites, chance), dict(pool[1], entries=_shuffled_list(pool[1]["entries"], chance)))
    assert plan(_shuffled_list(groups, chance), other, **variables) == plan(groups, pool, **variables)


def _shuffled_list(items, chance):
    items = list(items)
    chance.shuffle(items)
    return items


def _shuffled(mapping, chance):
    return dict(_shuffled_list(mapping.items(), chance))


recent = st.lists(
    st.fixed_dictionaries(
        {"age_s": st.integers(1, 1500), "wanted": st.integers(0, 9), "running": few, "launched": few, "present": few}
    ),
    max_size=4,
)
histories = st.builds(
    history, recent, registered=few, never_registered=st.integers(0, 9), ended_early=st.integers(0, 3)
)


@given(
    groups_of, pools(free=slots), st.lists(histories, min_size=12, max_size=12), st.lists(st.integers(0, 9), max_size=3)
)
def test_the_guard_exceeds_no_limit_either_and_starts_nothing_more_than_was_wanted(groups, pool, told, readings):
    entries = [dict(one, history=past) for one, past in zip(pool[1]["entries"], told)] + pool[1]["entries"][12:]
    known = dict(
        pool[1], entries=entries, demand_history=[[NOW - 290 * (n + 1), jobs] for n, jobs in enumerate(readings)]
    )
    result = plan(groups, (pool[0], known), guard={"ramp_first": 3})
    _within_limits(rows(result), pool)
    for item in result["plan"]:
        assert 0 <= item.queued <= max(item.wanted, item.counted)


@given(groups_of, pools(free=slots), st.data())
def test_a_trimmed_plan_orders_no_more_and_never_for_jobs_that_were_not_granted(groups, pool, data):
    result = plan(groups, pool)
    granted = {
        site_name: {
            entry: {key: data.draw(st.integers(0, jobs)) for key, jobs in requested.items()}
            for entry, requested in entries.items()
        }
        for site_name, entries in result["lease_requests"].items()
    }
    cut = trim(result["plan"], granted)
    requested = lease_requests_of(cut)
    for before, after in zip(result["plan"], cut):
        assert min(before.present, before.counted + before.running) <= after.present <= before.present
        if growth(after) > 0:
            for key in after.serves:
                got = granted[after.site][after.entry][key]
                assert requested[after.site][after.entry][key] <= got


@given(groups_of, pools(free=slots))
def test_free_slots_take_no_more_jobs_than_they_have_cores_for(groups, pool):
    result = plan(groups, pool)
    taken = provided(result, groups)
    for item in result["plan"]:
        for key, jobs in item.serves.items():
            taken[key] -= jobs
    cores = sum(slot["count"] * slot["cpus"] for entry in pool[1]["entries"] for slot in entry["free"])
    assert sum(taken[one["id"]] * one["cpus"] for one in groups) <= cores


@given(requests, st.integers(1, 40), pools(free=slots))
def test_more_jobs_of_a_kind_never_order_less(wanted, more, pool):
    before = rows(plan([group("g", **wanted)], pool))
    after = rows(plan([group("g", **dict(wanted, count=wanted["count"] + more))], pool))
    for key, item in before.items():
        assert after[key].present >= item.present


@given(groups_of, unlimited, st.integers(0, 4), st.integers(1, 40), allocations)
def test_more_jobs_of_one_group_never_provide_for_fewer_of_any_other(groups, pool, which, more, allocation):
    if not groups:
        return
    # Where a slot of unknown machines is the only place, the groups compete for it.
    pool = (pool[0], dict(pool[1], entries=[one for one in pool[1]["entries"] if one["entry"] != "gone"]))
    grown = [dict(one, count=one["count"] + more * (n == which % len(groups))) for n, one in enumerate(groups)]
    before = provided(plan(groups, pool, allocation=allocation), groups)
    after = provided(plan(grown, pool, allocation=allocation), grown)
    assert all(after[key] >= before[key] for key in before)


@given(
    groups_of,
    pools(
        limits=st.fixed_dictionaries(
            {"queued": st.integers(0, 20), "total": st.integers(0, 30), "per_cycle": st.just(10**6)}
        ),
        free=slots,
    ),
    allocations,
)
def test_a_plan_applied_is_followed_by_the_same_plan(groups, pool, allocation):
    first = plan(groups, pool, allocation=allocation)
    second = plan(groups, (_applied(first, pool[0]), pool[1]), allocation=allocation)
    assert presents(second) == presents(first)


def _applied(result, sites):
    items = rows(result)
    after = []
    for one in sites:
        entries = []
        for count in one["queue"]["entries"]:
            present = items[(one["site"]["site"], count["entry"], count["shape"])].present
            entries.append(dict(count, queued=present - count["running"]))
        # The per-cycle limits of a site start again.
        after.append(dict(one, queue=dict(one["queue"], entries=entries)))
    return after


@st.composite
def overdue_pools(draw):
    """Generate pools, some with limits, in which queued glideins have waited for some time."""
    sites, read = draw(pools(limits=st.sampled_from([NO_LIMITS, dict(NO_LIMITS, queued=9), dict(NO_LIMITS, total=12)])))
    aged = []
    for one in sites:
        entries = []
        for count in one["queue"]["entries"]:
            ages = sorted(draw(waiting), reverse=True)
            told = [[NOW - 5 - age_s, number] for age_s, number in ages]
            entries.append(dict(count, queued=sum(number for unused, number in ages), queued_since=told))
        aged.append(dict(one, queue=dict(one["queue"], entries=entries)))
    return aged, read


OVERDUE = {"ramp_first": 10**6, "cancel_delay": 0}


@given(groups_of, overdue_pools(), allocations)
def test_overdue_glideins_take_no_place_twice_and_every_job_is_still_served_once(groups, pool, allocation):
    result = plan(groups, pool, allocation=allocation, guard=OVERDUE)
    _within_limits(rows(result), pool)
    assert_served_once(result, groups)


@given(groups_of, overdue_pools(), allocations)
def test_within_the_overdue_time_a_plan_applied_is_followed_by_the_same_plan(groups, pool, allocation):
    first = plan(groups, pool, allocation=allocation, guard=OVERDUE)
    after = (_later(first, pool[0], 0), pool[1])
    second = plan(groups, after, allocation=allocation, guard=OVERDUE)
    assert presents(second) == presents(first)


@given(groups_of, overdue_pools(), allocations)
def test_cycles_in_which_nothing_starts_come_to_an_end_and_no_entry_gets_more_than_its_jobs_need(
    groups, pool, allocation
):
    seen = []
    sites = pool[0]
    for _cycle in range(15):
        result = plan(groups, (sites, pool[1]), allocation=allocation, guard=OVERDUE)
        seen.append(presents(result))
        sites = _later(result, sites, 300)
    assert seen[-1] == seen[-2] == seen[-3]
    for key, item in rows(result).items():
        size = next(one for one in sites if one["site"]["site"] == key[0])["site"]["entries"][key[1]]["shapes"][key[2]]
        needed = 0
        for one in groups:
            each = jobs_per_slot(*(tuple(each[name] for name in RESOURCES) for each in (size, one)))
            needed += -(-one["count"] // each) if each else 0
        assert item.present - item.running <= needed


def _later(result, sites, seconds):
    """Return the sites after the plan was applied, newest glideins cancelled first, and some time has passed."""
    items = rows(result)
    after = []
    for one in sites:
        entries = []
        for count in one["queue"]["entries"]:
            item = items[(one["site"]["site"], count["entry"], count["shape"])]
            left = item.present - item.running
            told = []
            for time_s, number in count["queued_since"]:
                told.append([time_s - seconds, min(number, left)])
                left -= told[-1][1]
            told.append([NOW - 5 - seconds, left])
            told = [pair for pair in told if pair[1]]
            entries.append(dict(count, queued=sum(number for unused, number in told), queued_since=told))
        after.append(dict(one, queue=dict(one["queue"], entries=entries)))
    return after


@given(groups_of, pools(free=slots))
def test_a_plan_leaves_its_input_as_it_is(groups, pool):
    before = copy.deepcopy((groups, pool))
    assert plan(groups, pool, guard={}) == plan(*before, guard={})
    assert (groups, pool) == before


def test_the_cost_of_planning_grows_in_proportion_to_the_number_of_groups():
    chance = random.Random(1)  # noqa: S311
    sites = [
        planned_site(site({"e": raw_entry(shapes={"n": shape(cpus=16, memory_mb=64000)})}, name="s{0}".format(n)))
        for n in range(10)
    ]
    small, large = (
        [
            group("g{0}".format(n), 20, cpus=chance.randint(1, 8), memory_mb=chance.randint(100, 16000))
            for n in range(times * 10)
        ]
        for times in (1, SCALE)
    )
    result = assert_linear(lambda groups: make_plan(demand(*groups), supply(), sites, NOW, 900), small, large)
    assert sum(item.present for item in result["plan"]) > 0


@given(groups_of, pools(free=slots), steps_of)
def test_redundant_glideins_are_for_jobs_that_wait_for_another_entry(groups, pool, steps):
    pool = eager(pool, steps)
    wants = {
        (one["site"]["site"], name): entry["eagerness"]
        for one in pool[0]
        for name, entry in one["site"]["entries"].items()
    }
    result = plan(groups, pool)["plan"]
    extra, waiting = collections.Counter(), collections.Counter()
    for item in result:
        path = item.path
        for key, jobs in item.redundant.items():
            assert wants[path] >= 2
            extra[(path, key)] += jobs
        for key, (jobs, _each) in item.waits.items():
            waiting[(path, key)] += jobs
    for (path, key), jobs in extra.items():
        assert jobs <= sum(there for (other, same), there in waiting.items() if same == key and other != path)


@given(pools(free=slots), steps_of)
def test_without_jobs_no_eagerness_keeps_a_queued_glidein(pool, steps):
    for item in plan([], eager(pool, steps))["plan"]:
        assert item.present == item.running and not item.redundant


@given(groups_of, pools(limits=st.just(NO_LIMITS)), steps_of, allocations)
def test_with_any_eagerness_a_plan_applied_is_followed_by_the_same_plan(groups, pool, steps, allocation):
    pool = eager(pool, steps)
    first = plan(groups, pool, allocation=allocation)
    second = plan(groups, (_applied(first, pool[0]), pool[1]), allocation=allocation)
    assert presents(second) == presents(first)
