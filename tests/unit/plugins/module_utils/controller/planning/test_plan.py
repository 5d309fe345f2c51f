# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import re

import pytest
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
    site,
    slots,
    supplied,
    supply,
)
from ansible_collections.glidein.ops.tests.unit.support.plan_options import options

WIDE = {"queued": 1000, "total": 1000, "per_cycle": 1000}


def entry(**changes):
    return raw_entry(**dict({"limits": WIDE}, **changes))


def planned(groups, sites=None, have=None, supply_=None, **more):
    if sites is None:
        sites = [planned_site(site({"main": entry()}), queue(have))]
    return make_plan(demand(*groups), supply_ or supply(), sites, NOW, 900, **more)


def presents(result):
    return {item.key: item.present for item in result["plan"]}


def only(result):
    assert len(result["plan"]) == 1
    return result["plan"][0]


# Fit.


def misfit(entry_changes, shape_changes, group_changes):
    """Return the reason why a job does not fit the only shape, or None."""
    one = site({"main": entry(shapes={"core": shape(**shape_changes)}, **entry_changes)})
    reasons = [row["reason"] for row in planned([group(**group_changes)], [planned_site(one)])["unserved"]]
    return reasons[0].replace("no shape fits: lab/main/core: ", "") if reasons else None


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({}, None),
        ({"cpus": 2}, "each job requests 2 cpus, but the shape has 1"),
        ({"memory_mb": 2000}, None),
        ({"memory_mb": 2001}, "each job requests 2001 MB of memory, but the shape has 2000"),
        ({"disk_mb": 10000}, None),
        ({"disk_mb": 10001}, "each job requests 10001 MB of disk, but the shape has 10000"),
        ({"gpus": 1}, "each job requests 1 gpu, but the shape has 0"),
        # A glidein stops two minutes before its walltime of two hours ends; two more minutes are for its start.
        ({"max_runtime_s": 6960}, None),
        ({"max_runtime_s": 6961}, "each job may run 6961 s, but a glidein there has 6960 s for a job"),
    ],
)
def test_a_job_fits_by_its_resources_and_run_time(changes, reason):
    assert misfit({}, {}, changes) == reason


@pytest.mark.parametrize(
    "rules, changes, reason",
    [
        ({"accept": {"gpus": {"min": 1}}}, {}, "each job requests 0 gpus, but accept admits at least 1"),
        ({"accept": {"gpus": {"max": 0}}}, {"gpus": 1}, "each job requests 1 gpu, but accept admits at most 0"),
        ({"accept": {"memory_mb": {"min": 1000, "max": 1000}}}, {}, None),
        ({"accept": {"memory_mb": {"max": 4000}}}, {"memory_mb": 4000}, None),
        (
            {"accept": {"memory_mb": {"max": 4000}}},
            {"memory_mb": 4001},
            "each job requests 4001 MB of memory, but accept admits at most 4000",
        ),
    ],
)
def test_an_entrys_accept_limits_select_jobs(rules, changes, reason):
    assert misfit(rules, {"cpus": 8, "memory_mb": 64000, "gpus": 8}, changes) == reason


# Pack.


def test_the_last_job_of_a_glidein_needs_only_its_requested_memory_also_after_jobs_of_another_group():
    sites = [planned_site(site({"main": entry(shapes={"node": shape(cpus=8, memory_mb=4000)})}))]
    assert only(planned([group(count=2, memory_mb=1950)], sites)).present == 1
    assert only(planned([group("a", 1, memory_mb=3900), group("b", 1, memory_mb=32)], sites)).present == 1
    assert only(planned([group("a", 1, memory_mb=3900), group("b", 1, memory_mb=33)], sites)).present == 2


@pytest.mark.parametrize(
    "groups, present",
    [
        ([group("a", 28, memory_mb=4000)], 1),
        ([group("a", 29, memory_mb=4000)], 2),
        ([group("a", 28, memory_mb=8192)], 2),
        ([group("big", 1, memory_mb=50000, cpus=2), group("small", 26, memory_mb=1000)], 1),
    ],
)
def test_jobs_of_all_groups_share_glideins_by_all_resources_at_once(groups, present):
    sites = [planned_site(site({"main": entry(shapes={"node": shape(cpus=28, memory_mb=120000)})}))]
    item = only(planned(groups, sites))
    assert (item.present, item.serves) == (present, {one["id"]: one["count"] for one in groups})


def test_a_job_gets_the_smallest_size_of_a_range_that_it_fits():
    ranges = {"cpus": {"min": 1, "max": 8}, "memory_mb": {"min": 2000, "max": 32000}}
    one = planned_site(site({"main": entry(shapes={"job": shape(**ranges)})}))
    result = planned([group(count=2, cpus=3, memory_mb=12000), group("b", memory_mb=20000)], [one])
    ordered = {name: number for (_site, _entry, name), number in presents(result).items() if number}
    assert ordered == {"job-4c-16000m": 2, "job-1c-32000m": 1}
    assert result["unserved"] == []


def test_the_smallest_shape_that_fits_is_taken():
    shapes = {"large": shape(cpus=8, memory_mb=16000), "gpu": shape(gpus=1), "core": shape()}
    sites = [planned_site(site({"main": entry(shapes=shapes)}))]
    result = planned([group("one", 2), group("four", 1, cpus=4)], sites)
    # The job with 4 cores leaves room for the others in its glidein.
    assert presents(result) == {("lab", "main", "core"): 0, ("lab", "main", "gpu"): 0, ("lab", "main", "large"): 1}
    assert presents(planned([group("one", 2)], sites))[("lab", "main", "core")] == 2


def test_entries_are_used_in_order_of_their_priority():
    sites = [
        planned_site(
            site({"a": entry(limits={"queued": 2}), "b": entry(priority=5, limits={"queued": 3})}, name="one")
        ),
        planned_site(site({"c": entry(priority=9, limits={"queued": 1})}, name="two")),
    ]
    assert presents(planned([group(count=5)], sites)) == {
        ("two", "c", "core"): 1,
        ("one", "b", "core"): 3,
        ("one", "a", "core"): 1,
    }


NODE = {"shapes": {"node": shape(8, 16000, 100000)}}


@pytest.mark.parametrize("eagerness, present", [(0, 1), (1, 2), (2, 2), (3, 4)])
def test_a_glidein_that_has_not_started_gets_fewer_jobs_with_more_eagerness(eagerness, present):
    sites = [planned_site(site({"a": entry(eagerness=eagerness, **NODE)}))]
    assert presents(planned([group(count=8)], sites)) == {("lab", "a", "node"): present}


def test_a_job_that_needs_more_than_a_part_of_a_glidein_gets_one_with_any_eagerness():
    sites = [planned_site(site({"a": entry(eagerness=3, **NODE)}))]
    assert presents(planned([group(count=2, cpus=7)], sites)) == {("lab", "a", "node"): 2}


@pytest.mark.parametrize("steps, present", [((0, 0, 0), [1, 0, 0]), ((2, 2, 2), [1, 1, 0]), ((3, 3, 3), [1, 1, 1])])
def test_jobs_that_wait_are_ordered_for_at_as_many_other_entries_as_the_eagerness_allows(steps, present):
    sites = [planned_site(site({name: entry(eagerness=step) for name, step in zip("abc", steps)}))]
    result = planned([group(count=1)], sites)
    assert list(presents(result).values()) == present
    assert [item.serves for item in result["plan"]] == [{"a": 1}, {}, {}]
    assert [item.wanted for item in result["plan"]] == [1, 0, 0]
    assert result["lease_requests"] == {"lab": {"a": {"a": 1}, "b": {}, "c": {}}}
    for item in result["plan"][1:]:
        assert ("1 redundant" in item.reason) == bool(item.present) == (item.redundant == {"a": 1})


def test_a_redundant_glidein_is_withdrawn_when_its_job_has_a_slot():
    one = site({name: entry(eagerness=2) for name in "ab"})
    queued = {(name, "core"): {"queued": 1, "oldest_queued_s": 60} for name in "ab"}
    started = {("a", "core"): {"running": 1}, ("b", "core"): {"queued": 1, "oldest_queued_s": 60}}
    assert presents(planned([group(count=1)], [planned_site(one, queue(queued))])) == {
        ("lab", "a", "core"): 1,
        ("lab", "b", "core"): 1,
    }
    # The guard keeps queued glideins that an earlier plan wanted, but no redundant ones.
    plans = [{"age_s": age_s, "wanted": 0, "running": 0, "launched": 1} for age_s in (700, 300)]
    known = supply(supplied("b", history=history(plans)))
    assert presents(planned([group(count=1)], [planned_site(one, queue(started))], supply_=known)) == {
        ("lab", "a", "core"): 1,
        ("lab", "b", "core"): 0,
    }


def two_entries(**changes):
    """Return two sites of equal priority with one entry each, `a` and `b`."""
    return [planned_site(site({name: entry(**changes.get(name, {}))}, name="s" + name)) for name in ("a", "b")]


SHARES = {
    "equal parts": ({}, 10, "spread", [5, 5]),
    "only if the operator wants it": ({}, 10, "priority", [10, 0]),
    "beyond the room of one": ({"a": {"limits": {"queued": 2}}}, 10, "spread", [2, 8]),
    "priority comes first": ({"b": {"priority": 1}}, 10, "spread", [0, 10]),
}


@pytest.mark.parametrize("entries, count, allocation, shares", SHARES.values(), ids=SHARES)
def test_entries_of_one_priority_share_the_jobs(entries, count, allocation, shares):
    result = planned([group(count=count)], two_entries(**entries), options=options(allocation=allocation))
    assert [presents(result)[("s" + name, name, "core")] for name in ("a", "b")] == shares


def test_entries_share_jobs_by_their_present_glideins_too():
    sites = two_entries()
    sites[0]["queue"]["entries"][0]["running"] = 4
    known = supply(supplied("a", registered=4, site_name="sa"))
    result = planned([group(count=10)], sites, supply_=known, options=options(allocation="spread"))
    assert presents(result) == {("sa", "a", "core"): 7, ("sb", "b", "core"): 7}


@pytest.mark.parametrize(
    "order, served",
    [
        (None, "large"),
        (["-memory"], "small"),
        (["cpus", "-memory"], "wide"),
        (["count"], "many"),
        (["-runtime"], "short"),
    ],
)
def test_the_operators_order_of_groups_applies(order, served):
    sites = [planned_site(site({"main": entry(shapes={"n": shape(cpus=4, memory_mb=4000)}, limits={"total": 1})}))]
    groups = [
        group("large", 1, memory_mb=3968),
        group("small", 1, memory_mb=128, cpus=3),
        group("wide", 1, memory_mb=3840, cpus=4),
        group("many", 4, memory_mb=896, cpus=1),
        group("short", 1, memory_mb=3000, cpus=2, max_runtime_s=60),
    ]
    assert served in only(planned(groups, sites, options=options(order=order))).serves


def test_among_equals_the_oldest_job_comes_first_and_ids_are_numbers():
    sites = [planned_site(site({"main": entry(limits={"total": 1})}))]
    groups = [group("a", 1, first_job="10.0"), group("b", 1, first_job="9.12"), group("c", 1, first_job="9.2")]
    assert only(planned(groups, sites)).serves == {"c": 1}


def test_without_shapes_an_entry_has_the_whole_of_its_node_and_parts_of_it():
    node = {"cpus": 28, "memory_mb": 112000, "disk_mb": 100000}
    one = entry(node=node)
    del one["shapes"]
    sites = [planned_site(site({"main": one}))]
    result = planned([group("big", 1, cpus=20, memory_mb=60000)], sites)
    assert presents(result)[("lab", "main", "whole")] == 1
    result = planned([group("one", 1, cpus=1, memory_mb=5000)], sites)
    assert presents(result)[("lab", "main", "sixteenth")] == 1


# Subtract.


def passed_over(passed, free, registered, retired=0, **changes):
    """Return how many glideins are ordered for three jobs beside these passed-over and free whole glideins."""
    whole = {"disk_mb": 10000, **changes}
    busy = {"running": registered}
    known = supplied(
        registered=registered, retired=retired, passed_over=slots(passed, **whole), free=slots(free, disk_mb=10000)
    )
    groups = [group(count=3 + free)]
    return only(planned(groups, have={("main", "core"): busy}, supply_=supply(known))).present - registered


@pytest.mark.parametrize(
    "passed, free, registered, more, ordered",
    [
        (1, 0, 1, {}, 0),  # all of them
        (1, 0, 9, {}, 3),  # one of nine
        (2, 0, 9, {}, 3),
        (3, 0, 9, {}, 0),
        (3, 0, 31, {}, 3),  # less than one in ten
        (4, 0, 31, {}, 0),
        (3, 3, 9, {}, 0),
        (3, 4, 9, {}, 3),  # most of the free ones match
        (1, 0, 2, {"retired": 1}, 0),  # the other one is retired
        (3, 0, 3, {"memory_mb": 900}, 3),  # they have no room for such jobs
    ],
)
def test_passed_over_glideins_close_an_entry_unless_they_are_few(passed, free, registered, more, ordered):
    assert passed_over(passed, free, registered, **more) == ordered


def test_one_passed_over_glidein_closes_nothing_while_others_of_its_shape_start():
    shapes = {"core": shape(), "large": shape(cpus=8, memory_mb=16000)}
    have = {("main", "core"): {"running": 6, "queued": 1}}
    sites = [planned_site(site({"main": entry(shapes=shapes)}), queue(have))]
    known = supply(supplied(registered=1, passed_over=slots(1, disk_mb=10000)))
    result = planned([group(count=6)], sites, supply_=known)
    assert presents(result) == {("lab", "main", "core"): 7, ("lab", "main", "large"): 0}


def test_nothing_is_ordered_for_jobs_that_would_find_a_whole_glidein_there_passed_over():
    known = supply(supplied(registered=2, passed_over=slots(2, disk_mb=10000)))
    sites = [planned_site(site({"main": entry()})), planned_site(site({"m": entry()}, name="other"))]
    result = planned([group(count=3)], sites, supply_=known, explain="a")
    assert presents(result) == {("lab", "main", "core"): 0, ("other", "m", "core"): 3}
    assert result["explanation"][0]["reason"] == (
        "the negotiator has left 2 of 2 free glideins empty there, although these jobs fit in them"
    )


def test_unserved_jobs_have_a_reason_for_each_site():
    small = planned_site(site({"main": entry()}))
    full = planned_site(site({"m": entry(shapes={"big": {"cpus": 8, "memory_mb": 9000, "disk_mb": 10000}},
                                         limits={"queued": 0})}, name="other"))  # fmt: skip
    assert planned([group(count=3, cpus=2)], [small, full])["unserved_at"] == {
        "a": {
            "lab": "main/core: each job requests 2 cpus, but the shape has 1",
            "other": "m/big: other/m limit queued 0 reached",
        }
    }


def test_only_the_largest_unserved_groups_have_reasons_for_each_site():
    told = planned([group(f"g{number}", number, cpus=2) for number in range(1, 31)])["unserved_at"]
    assert set(told) == {f"g{number}" for number in range(11, 31)}


@pytest.mark.parametrize("until, served", [(NOW + 600, {"b": 2}), (NOW, {"a": 3, "b": 2})])
def test_nothing_is_ordered_for_a_group_while_it_is_recorded_as_passed_over_there(until, served):
    known = supply(supplied(registered=0, passed_over_groups={"a": {"until": until, "times": 2}}))
    result = planned([group(count=3), group(id="b", count=2)], supply_=known, explain="a")
    assert only(result).serves == served
    closed = "the negotiator left these jobs idle beside free glideins there; none is ordered before "
    assert result["explanation"][0]["reason"].startswith(closed) == ("a" not in served)


def test_free_slots_of_other_machines_serve_jobs_too():
    assert only(planned([group(count=5)], supply_=supply(others_free=slots(2)))).present == 3


@pytest.mark.parametrize(
    "have, supply_entry, new",
    [
        ({}, None, 5),
        ({"queued": 2}, None, 3),
        ({"running": 2}, None, 3),
        ({"running": 2}, supplied(registered=2), 5),
        ({"running": 2}, supplied(registered=1), 4),
        ({"running": 2}, supplied(registered=2, free=slots(2)), 3),
        ({"running": 2}, supplied(registered=2, free=slots(2, memory_mb=512)), 5),
        ({"sick": 4}, None, 5),
        ({"completing": 4}, None, 5),
        ({}, supplied(free=slots(2, memory_mb=512), site_name="not-in-this-plan"), 5),
    ],
)
def test_present_glideins_are_used_before_new_ones_are_ordered(have, supply_entry, new):
    known = supply(*([supply_entry] if supply_entry else []))
    item = only(planned([group(count=5)], have={("main", "core"): have}, supply_=known))
    assert item.present - have.get("queued", 0) - have.get("running", 0) == new


@pytest.mark.parametrize(
    "where",
    [{"site_name": "not-in-this-plan"}, {"entry": "removed"}, {"shape_name": "removed"}],
)
def test_free_slots_of_glideins_that_no_entry_stands_for_take_jobs_first(where):
    known = supply(supplied(registered=2, free=slots(2), **where))
    result = planned([group(count=5)], supply_=known)
    assert (only(result).present, only(result).serves) == (3, {"a": 3})
    assert planned([group(count=2, max_runtime_s=999999)], supply_=known)["unserved"] == []


@pytest.mark.parametrize("where", [{}, {"site_name": "not-in-this-plan"}])
def test_free_slots_take_no_job_that_may_run_longer_than_their_glidein(where):
    def ordered(**states):
        known = supply(supplied(free=slots(2, until=NOW + 3600) + slots(1, until=NOW + 4000), **where))
        return planned([group(count=5, **states)], supply_=known)["plan"][0].present

    assert [ordered(max_runtime_s=runtime_s) for runtime_s in (3599, 3600, 3999, 4000)] == [2, 4, 4, 5]
    assert ordered() == 2


def test_jobs_with_a_known_run_time_leave_longer_lasting_slots_to_others():
    known = supply(supplied(free=slots(2) + slots(2, until=NOW + 9000) + slots(2, until=NOW + 3600)))
    groups = [group("a", 2, memory_mb=1500, max_runtime_s=600), group("b", 2, max_runtime_s=5000), group("c", 2)]
    assert only(planned(groups, supply_=known)).present == 0


def test_a_queued_glidein_is_withdrawn_if_a_free_slot_elsewhere_serves_its_job():
    known = supply(supplied(registered=1, free=slots(1), site_name="not-in-this-plan"))
    item = only(planned([group(count=2)], have={("main", "core"): {"queued": 2}}, supply_=known))
    assert item.present == 1


def test_free_slots_elsewhere_are_left_to_jobs_that_no_entry_is_for():
    sites = [planned_site(site({"main": entry(accept={"gpus": {"max": 0}})}))]
    known = supply(
        supplied(registered=2, free=slots(2, gpus=1), site_name="not-in-this-plan"),
        supplied(registered=2, free=slots(2)),
    )
    result = planned([group("gpu", 2, gpus=1), group("core", 2)], sites, supply_=known)
    assert (only(result).present, result["unserved"]) == (0, [])


def test_a_surplus_queued_glidein_is_withdrawn_and_a_running_one_stays():
    have = {("main", "core"): {"queued": 3, "running": 2}}
    item = only(planned([group(count=1)], have=have, supply_=supply(supplied(registered=2))))
    assert item.present == 3


# Glideins that the batch system reports as never able to start; test_reasons.py has the reasons.

NEVER = {"sick": 2, "never_starts": 2}


def test_no_second_glidein_of_a_request_that_can_never_start_is_ordered():
    item = only(planned([group(count=5)], have={("main", "core"): NEVER}))
    assert (item.present, item.kept_sick) == (0, 1)
    # Glideins that are sick for another reason close nothing.
    item = only(planned([group(count=5)], have={("main", "core"): {"sick": 2}}))
    assert (item.present, item.kept_sick) == (5, 0)


@pytest.mark.parametrize(
    "entries, other",
    [
        ({"main": entry(shapes={"core": shape(), "pair": shape(cpus=2, memory_mb=4000)})}, ("lab", "main", "pair")),
        ({"main": entry(priority=9), "other": entry()}, ("lab", "other", "core")),
    ],
)
def test_its_jobs_go_to_other_shapes_and_entries(entries, other):
    result = planned([group(count=2)], [planned_site(site(entries), queue({("main", "core"): NEVER}))])
    assert [key for key, present in presents(result).items() if present] == [other]


def test_other_queued_glideins_of_its_entry_still_serve_jobs():
    item = only(planned([group(count=3)], have={("main", "core"): dict(NEVER, queued=3)}))
    assert (item.present, item.serves) == (3, {"a": 3})


# Limit.


@pytest.mark.parametrize(
    "limits, have, new",
    [({"queued": 3}, {"queued": 1}, 2), ({"queued": 3}, {"sick": 2}, 1), ({"total": 4}, {"running": 2, "sick": 1}, 1)],
)
def test_limits_count_what_is_in_the_queue(limits, have, new):
    sites = [planned_site(site({"main": entry(limits=dict(WIDE, **limits))}), queue({("main", "core"): have}))]
    result = planned([group(count=50)], sites)
    assert only(result).present - have.get("queued", 0) - have.get("running", 0) == new
    ((name, value),) = limits.items()
    assert result["unserved"][0]["reason"].endswith(f": lab/main limit {name} {value} reached")


def test_a_limit_is_named_only_where_a_job_wanted_more():
    shapes = {"core": shape(), "large": shape(cpus=4, memory_mb=8000)}
    sites = [planned_site(site({"main": entry(shapes=shapes, limits=dict(WIDE, queued=2))}))]
    enough, short = (planned([group(count=count)], sites)["plan"] for count in (2, 3))
    assert [item.present for item in enough] == [item.present for item in short] == [2, 0]
    assert not any("limit" in item.reason for item in enough)
    assert enough[1].reason.startswith("no idle job needs it; ")
    assert all("lab/main limit queued 2 reached" in item.reason for item in short)
    assert short[1].reason.startswith("it serves no idle job; ")


def test_limits_of_a_site_are_kept_by_its_entries_together():
    sites = [
        planned_site(site({"a": entry(), "b": entry()}, {"queued": 4}), queue(orphans={"queued": 1, "running": 0}))
    ]
    result = planned([group(count=9)], sites)
    assert sum(presents(result).values()) == 3
    assert result["unserved"] == [
        {"group": "a", "count": 6, "reason": "no more glideins where these jobs fit: lab site limit queued 4 reached"}
    ]


@pytest.mark.parametrize(
    "limits, most", [({"queued": 4}, 4), ({"total": 5}, 5), ({"per_cycle": 3}, 3), ({"cores": 6}, 3), ({"gpus": 4}, 4)]
)
def test_limits_of_an_entry_of_a_site_and_of_the_deployment_are_kept(limits, most):
    shapes = {"pair": shape(cpus=2, memory_mb=4000, gpus=1)}
    free = {"limits": WIDE, "shapes": shapes}
    of_entry = [planned_site(site({"main": entry(shapes=shapes, limits=dict(WIDE, **limits))}))]
    of_site = [planned_site(site({"a": entry(**free), "b": entry(**free)}, limits))]
    of_all = [planned_site(site({"a": entry(**free)}, name=name)) for name in ("x", "y")]
    jobs = group(count=50, cpus=2, gpus=1)
    for sites, variables in ((of_entry, {}), (of_site, {}), (of_all, {"deployment_limits": limits})):
        assert sum(presents(planned([jobs], sites, options=options(**variables))).values()) == most


def test_the_deployments_limit_counts_glideins_last_queued_at_unreadable_sites():
    sites = [planned_site(site({"a": entry()}, name="x")), planned_site(site(name="away"), None, "down")]
    told = history([{"age_s": 300, "queued": 4, "running": 3}])
    for registered, ordered in ((3, 1), (0, 1), (6, 4)):  # three of the six registered glideins have started since
        known = supply(supplied(registered=registered, site_name="away", history=told))
        result = planned([group(count=50)], sites, supply_=known, options=options(deployment_limits={"queued": 5}))
        assert presents(result)[("x", "a", "core")] == ordered
        assert "deployment limit queued 5 reached" in result["plan"][1].reason


# Reasons.


def test_no_site_is_a_reason_too():
    assert planned([group(count=2)], [])["unserved"] == [{"group": "a", "count": 2, "reason": "no site has an entry"}]


def test_every_item_has_a_sentence():
    item = only(planned([group(count=3)], have={("main", "core"): {"queued": 1, "running": 1, "sick": 1}}))
    assert item.reason == (
        "3 idle jobs to serve: 1 in starting glideins, 2 in queued or new glideins; "
        "1 running (1 starting), 1 queued, 1 to add; 1 sick"
    )


def test_a_group_can_be_explained_entry_by_entry():
    sites = [planned_site(site({"a": entry(accept={"cpus": {"min": 2}}), "b": entry()}))]
    shown = {"site": "lab", "shape": "core", "passed_over": False}
    assert planned([group(count=3)], sites, explain="a")["explanation"] == [
        dict(shown, entry="a", serves=0, fits=False, reason="each job requests 1 cpu, but accept admits at least 2"),
        dict(shown, entry="b", serves=3, fits=True, reason="fits 1 job per glidein"),
    ]
    with pytest.raises(InputError, match="explain: 'zzz'"):
        planned([], explain="zzz")


# Stale and failed input.


@pytest.mark.parametrize(
    "changes, words",
    [
        (
            {"as_of": NOW - 901},
            "901 s old, at most 900 s are allowed: nothing is changed; check the demand server and both clocks",
        ),
        ({"as_of": None}, "no demand yet"),
        ({"as_of": NOW + 901}, "the clocks of demand server and controller disagree"),
        ({"as_of": NOW - 901, "paused": True}, "901 s old"),
        ({"supply": supply(as_of=NOW - 901)}, "the supply is 901 s old"),
    ],
)
def test_old_demand_or_supply_changes_nothing(changes, words):
    sites = [planned_site(site({"main": entry()}), queue({("main", "core"): {"queued": 3, "running": 1, "sick": 2}}))]
    changes = dict(changes)
    read = changes.pop("supply", supply())
    result = make_plan(demand(group(count=9), **changes), read, sites, NOW, 900)
    assert (only(result).present, only(result).differs, only(result).order()["kept_sick"]) == (4, False, 2)
    assert words in only(result).reason
    assert (result["unserved"][0]["count"], result["lease_requests"]) == (9, {})


def test_jobs_that_only_an_unreadable_site_could_run_have_that_reason():
    result = planned([group(count=2)], [planned_site(error="down")])
    assert result["unserved"][0]["reason"] == "the queue is not known where these jobs fit: lab/main"


@pytest.mark.parametrize(
    "groups, place",
    [
        ([group(count=-1)], "demand.groups[0].count: -1"),
        ([group(count=10**13)], "demand.groups[0].count: 10000000000000"),
        ([group(requirements=7)], "demand.groups[0].requirements: 7"),
        ([group(attributes=[])], "demand.groups[0].attributes: []"),
        ([group(), group("b", cpus="x")], "demand.groups[1].cpus: 'x'"),
        ([group(), group()], "demand.groups[1].id: 'a'"),
        ([group(cpus=0)], "demand.groups[0].cpus: 0"),
        ([group(memory_mb=1.5)], "demand.groups[0].memory_mb: 1.5"),
        ([None], "demand.groups[0].id: None"),
    ],
)
def test_invalid_demand_is_an_error_with_its_path(groups, place):
    with pytest.raises(InputError, match=re.escape(place)):
        planned(groups)


@pytest.mark.parametrize(
    "entries, place",
    [
        ([supplied(), supplied()], "supply.entries[1]: {'site': 'lab', 'entry': 'main', 'shape': 'core'"),
        ([supplied(entry=3)], "supply.entries[0]: {'site': 'lab', 'entry': 3"),
        ([supplied(sample=[1])], "supply.entries[0].sample: [1]"),
        ([supplied(registered=-1)], "supply.entries[0].registered: -1"),
        ([supplied(free=[{"cpus": 1}])], "supply.entries[0].free[0].memory_mb: None"),
        ([supplied(history={"registered": "9"})], "supply.entries[0].history.registered: '9'"),
        ([supplied(history=[1])], "supply.entries[0].history: [1]"),
        ([supplied(history=history([{"age_s": 1, "wanted": 1.5}]))], "supply.entries[0].history.plans[0].wanted: 1.5"),
        ([supplied(history={"plans": [{"wanted": 1}]})], "supply.entries[0].history.plans[0].as_of: None"),
        ([supplied(passed_over_groups={"a": {"until": "x"}})], "supply.entries[0].passed_over_groups.a.until: 'x'"),
        ([3], "supply.entries[0]: 3"),
    ],
)
def test_invalid_supply_is_an_error_with_its_path(entries, place):
    with pytest.raises(InputError, match=re.escape(place)):
        planned([], supply_=supply(*entries))


def invalid_queue(**changes):
    reading = queue({("main", "core"): {"queued": 1}})
    reading["entries"][0].update(changes)
    return reading


@pytest.mark.parametrize(
    "reading, error, reason",
    [
        (None, "Connection timed out", "Connection timed out"),
        (None, None, "no reading"),
        (queue(), "Permission denied", "Permission denied"),
        (dict(queue(), site="other"), None, "queue.site: 'other' is invalid"),
        (invalid_queue(queued="x"), None, "queue.entries[0].queued: 'x' is invalid"),
        (invalid_queue(queued_since=[5]), None, "queue.entries[0].queued_since: [5] is invalid"),
        (invalid_queue(running_since="x"), None, "queue.entries[0].running_since: 'x' is invalid"),
        (invalid_queue(sick_reasons=7), None, "queue.entries[0].sick_reasons: 7 is invalid"),
        (dict(queue(), entries={}), None, "queue.entries: {} is invalid"),
        (dict(queue(), orphans=[1]), None, "queue.orphans.queued: None is invalid"),
        ([1], None, "queue: [1] is invalid"),
    ],
)
def test_a_site_with_an_unknown_queue_is_unchanged_and_the_others_are_planned(reading, error, reason):
    lab = {"site": site({"main": entry(priority=9)}), "queue": reading, "error": error}
    result = planned([group(count=2)], [lab, planned_site(site({"m": entry()}, name="ok"))])
    assert presents(result) == {("lab", "main", "core"): None, ("ok", "m", "core"): 2}
    assert result["plan"][0].reason.startswith(f"kept as it is, because its queue is not known: {reason}")
    assert list(result["lease_requests"]) == ["ok"]


# Notes about the demand server's demand.


def test_nothing_is_ordered_for_jobs_of_a_schedd_that_is_silent_for_long():
    assert only(planned([group(count=5, stale=3)])).present == 2
    assert only(planned([group(count=5, stale=5)])).present == 0


def test_while_the_server_is_paused_only_running_glideins_are_planned():
    sites = [planned_site(site({"main": entry()}), queue({("main", "core"): {"queued": 3, "running": 2}}))]
    result = make_plan(demand(group(count=9), paused=True), supply(), sites, NOW, 900)
    assert only(result).present == 2
    assert "paused" in only(result).reason
    assert [(row["count"], "paused" in row["reason"]) for row in result["unserved"]] == [(9, True)]


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"as_of": "x"}, "demand.as_of: 'x' is invalid"),
        ({"as_of": float("nan")}, "demand.as_of: nan is invalid"),
        ({"schedds": [1]}, "demand.schedds: [1] is invalid"),
        ({"schedds": {"failed": 5}}, "demand.schedds.failed: 5 is invalid"),
        ({"schedds": {"failed": [{"name": 5}]}}, "demand.schedds.failed[0].name: 5 is invalid"),
        ({"concurrency_limits": {"maxima": [1], "used": {}}}, "demand.concurrency_limits.maxima: [1] is invalid"),
        ({"demand_history": [5]}, "supply.demand_history: [5] is invalid"),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_error_that_names_the_place(changes, words):
    with pytest.raises(InputError, match=re.escape(words)):
        make_plan(dict(demand(group()), **changes), dict(supply(), **changes), [planned_site()], NOW, 900)


def test_a_plan_with_one_round_for_each_glidein_is_followed_by_the_same_plan():
    # In each round, a job of 2 cores takes the place of the job that only b has the disk for.
    one = site(
        {
            "a": entry(shapes={"core": shape(cpus=2, memory_mb=501, disk_mb=100)}),
            "b": entry(shapes={"core": shape(cpus=2, memory_mb=500, disk_mb=101)}),
        }
    )
    groups = [
        group("small", 1, cpus=1, memory_mb=1, disk_mb=101),
        group("wide", 20, cpus=2, memory_mb=1, disk_mb=1),
    ]
    first = presents(planned(groups, [planned_site(one, queue({("a", "core"): {}, ("b", "core"): {}}))]))
    after = {key[1:]: {"queued": number} for key, number in first.items()}
    assert presents(planned(groups, [planned_site(one, queue(after))])) == first
