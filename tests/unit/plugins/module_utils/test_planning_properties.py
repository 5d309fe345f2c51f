# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is true of every plan."""

import random

from ansible_collections.glidein.ops.plugins.module_utils.entries import RESOURCES
from ansible_collections.glidein.ops.plugins.module_utils.planning import make_plan
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    planned_site,
    queue,
    raw_entry,
    shape,
    site,
    supplied,
    supply,
)
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
        "memory_mb": st.integers(0, 9000),
        "disk_mb": st.integers(0, 3000),
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


no_slots = st.just(())
slots = st.lists(st.builds(dict, sizes, count=few), max_size=3)


@st.composite
def pools(draw, limits=limit_sets, registered=None, free=no_slots):
    """(sites for make_plan, supply).

    registered: None for any number, else all running glideins are registered; free: the free slots that each entry of
    the supply may have, and those of glideins that no entry of a site stands for.
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
                running = have[(entry, key)]["running"]
                known = running if registered == "all" else draw(st.integers(0, running + 1))
                supplies.append(supplied(entry, key, known, draw(free), site_name=name))
        site_limits = (
            draw(st.sampled_from([{}, {"total": 15}, {"queued": 8, "per_cycle": 5}])) if limits is limit_sets else {}
        )
        sites.append(planned_site(site(entries, site_limits, name), queue(have, name)))
    return sites, supply(*supplies)


unlimited = pools(limits=st.just(NO_LIMITS), free=slots)


def plan(groups, pool):
    return make_plan(demand(*groups), pool[1], pool[0], NOW, 900)


def rows(result):
    return {(item["site"], item["entry"], item["shape"]): item for item in result["plan"]}


def growth(item):
    return item["present"] - item["queued"] - item["running"]


@given(groups_of, pools(free=slots))
def test_no_limit_is_ever_exceeded(groups, pool):
    items = rows(plan(groups, pool))
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


@given(groups_of, pools(registered="all", free=slots))
def test_nothing_is_queued_that_serves_no_job(groups, pool):
    for item in plan(groups, pool)["plan"]:
        assert item["present"] >= item["running"]
        assert item["present"] - item["running"] <= sum(item["serves"].values())


@given(groups_of, pools())
def test_every_job_is_served_once_or_unserved_with_a_reason(groups, pool):
    result = plan(groups, pool)
    for one in groups:
        served = sum(item["serves"].get(one["id"], 0) for item in result["plan"])
        left = sum(item["count"] for item in result["unserved"] if item["group"] == one["id"])
        assert served + left == one["count"]  # these pools have no free slots
    assert all(item["reason"] and item["count"] > 0 for item in result["unserved"])


@given(groups_of, unlimited)
def test_without_limits_a_job_is_left_only_where_nothing_fits(groups, pool):
    for item in plan(groups, pool)["unserved"]:
        assert item["reason"].startswith("no shape fits")


@given(groups_of, unlimited)
def test_what_is_ordered_is_no_more_than_one_glidein_per_job(groups, pool):
    result = plan(groups, pool)
    ordered = sum(max(0, growth(item)) for item in result["plan"])
    assert ordered <= sum(one["count"] for one in groups)


@given(groups_of, pools(free=slots), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(groups, pool, chance):
    sites = [
        dict(
            one,
            site=dict(one["site"], entries=_shuffled(one["site"]["entries"], chance)),
            queue=dict(one["queue"], entries=_shuffled_list(one["queue"]["entries"], chance)),
        )
        for one in pool[0]
    ]
    other = (_shuffled_list(sites, chance), dict(pool[1], entries=_shuffled_list(pool[1]["entries"], chance)))
    assert plan(_shuffled_list(groups, chance), other) == plan(groups, pool)


def _shuffled_list(items, chance):
    items = list(items)
    chance.shuffle(items)
    return items


def _shuffled(mapping, chance):
    return dict(_shuffled_list(mapping.items(), chance))


@given(groups_of, pools(free=slots))
def test_free_slots_take_no_more_jobs_than_they_have_cores_for(groups, pool):
    result = plan(groups, pool)
    cores = sum(slot["count"] * slot["cpus"] for entry in pool[1]["entries"] for slot in entry["free"])
    used = 0
    for one in groups:
        served = sum(item["serves"].get(one["id"], 0) for item in result["plan"])
        left = sum(item["count"] for item in result["unserved"] if item["group"] == one["id"])
        assert served + left <= one["count"]
        used += (one["count"] - served - left) * one["cpus"]
    assert used <= cores


@given(requests, st.integers(1, 40), pools(free=slots))
def test_more_jobs_of_a_kind_never_order_less(wanted, more, pool):
    before = rows(plan([group("g", **wanted)], pool))
    after = rows(plan([group("g", **dict(wanted, count=wanted["count"] + more))], pool))
    for key, item in before.items():
        assert after[key]["present"] >= item["present"]


@given(
    groups_of,
    pools(
        limits=st.fixed_dictionaries(
            {"queued": st.integers(0, 20), "total": st.integers(0, 30), "per_cycle": st.just(10**6)}
        ),
        free=slots,
    ),
)
def test_a_plan_applied_is_followed_by_the_same_plan(groups, pool):
    first = plan(groups, pool)
    second = plan(groups, (_applied(first, pool[0]), pool[1]))
    assert {key: item["present"] for key, item in rows(second).items()} == {
        key: item["present"] for key, item in rows(first).items()
    }


def _applied(result, sites):
    items = rows(result)
    after = []
    for one in sites:
        entries = []
        for count in one["queue"]["entries"]:
            present = items[(one["site"]["site"], count["entry"], count["shape"])]["present"]
            entries.append(dict(count, queued=present - count["running"]))
        # Limits of a site that are per cycle start anew.
        after.append(dict(one, queue=dict(one["queue"], entries=entries)))
    return after


def test_a_thousand_jobs_in_fifty_groups_over_ten_entries_take_milliseconds():
    import time

    chance = random.Random(1)  # noqa: S311
    groups = [
        group("g{0}".format(n), 20, cpus=chance.randint(1, 8), memory_mb=chance.randint(100, 16000)) for n in range(50)
    ]
    sites = [
        planned_site(site({"e": raw_entry(shapes={"n": shape(cpus=16, memory_mb=64000)})}, name="s{0}".format(n)))
        for n in range(10)
    ]
    started = time.process_time()
    result = make_plan(demand(*groups), supply(), sites, NOW, 900)
    assert time.process_time() - started < 0.5
    assert sum(item["present"] for item in result["plan"]) > 0
    assert set(result["plan"][0]) >= {"present", "reason", "serves"}
    assert len(RESOURCES) == 4
