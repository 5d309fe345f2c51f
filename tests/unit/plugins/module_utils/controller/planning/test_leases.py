# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the leases that a plan requests, and of the plan after the server has granted fewer."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.leases import (
    lease_requests_of,
    request_leases,
    trim,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    planned_site,
    queue,
    raw_entry,
    shape,
    site,
    slots,
    supplied,
    supply,
)

NODE = {"node": shape(cpus=4, memory_mb=8000)}


def planned(*groups, have=None, known=()):
    sites = [planned_site(site({"main": raw_entry(shapes=NODE)}), queue({("main", "node"): have or {}}))]
    return make_plan(demand(*groups), supply(*known), sites, NOW, 900)


def presents(items):
    return [item.present for item in items]


def test_leases_are_requested_for_jobs_of_starting_queued_and_new_glideins():
    have = {"running": 2, "queued": 1}
    known = supplied(shape_name="node", registered=1, free=slots(1))
    assert planned(group(count=11), have=have, known=[known])["lease_requests"] == {"lab": {"main": {"a": 10}}}


def test_an_entry_without_jobs_releases_its_lease_and_an_unknown_one_keeps_it():
    assert planned()["lease_requests"] == {"lab": {"main": {}}}
    result = make_plan(demand(group()), supply(), [planned_site(error="down")], NOW, 900)
    assert result["lease_requests"] == {}


def test_granted_jobs_are_not_assigned_to_overdue_glideins():
    late = {"queued": 2, "queued_since": [[NOW - 4000, 2]]}
    result = planned(group(count=16), have=late)
    assert (presents(result["plan"]), result["lease_requests"]) == ([4], {"lab": {"main": {"a": 8}}})
    assert presents(trim(result["plan"], {"lab": {"main": {"a": 4}}})) == [3]
    assert presents(trim(result["plan"], {"lab": {}})) == [2]


def test_leases_of_a_removed_or_renamed_entry_are_released_if_the_site_is_known():
    known = [supplied("old"), supplied("older", site_name="not-in-this-plan")]
    assert planned(group(), known=known)["lease_requests"] == {"lab": {"main": {"a": 1}, "old": {}}}
    result = make_plan(demand(group()), supply(*known), [planned_site(error="down")], NOW, 900)
    assert result["lease_requests"] == {}


class Server:
    """A stand-in for the demand server: it grants the free ones of ten jobs in the order of the requests."""

    def __init__(self, **held):
        self.held = held

    def lease(self, name, asked):
        free = 10 - sum(jobs for other, jobs in self.held.items() if other != name)
        self.held[name] = max(0, min(asked["main"]["a"], free))
        return {"main": {"a": self.held[name]}}


def test_jobs_that_move_between_sites_are_granted_in_any_order_of_requests():
    for before, after in (({"x": 10}, {"x": 2, "w": 8}), ({"x": 4, "y": 6}, {"x": 6, "y": 1, "w": 3})):
        server = Server(**before)
        requests = {name: {"main": {"a": jobs}} for name, jobs in after.items()}
        assert request_leases(requests, server.lease) == (requests, {})


def test_jobs_leased_by_other_controllers_are_not_granted():
    server = Server(stranger=7, x=3)
    requests = {"w": {"main": {"a": 3}}, "x": {"main": {"a": 2}}}
    granted, errors = request_leases(requests, server.lease)
    assert (granted, errors) == ({"w": {"main": {"a": 1}}, "x": {"main": {"a": 2}}}, {})


def test_a_full_grant_changes_nothing():
    result = planned(group(count=10))
    assert trim(result["plan"], result["lease_requests"]) == result["plan"]
    assert trim(result["plan"], {}) == result["plan"]


def test_less_granted_is_less_ordered():
    plan = planned(group(count=10))["plan"]
    assert presents(plan) == [3]
    cut = trim(plan, {"lab": {"main": {"a": 5}}})
    assert (presents(cut), cut[0].serves) == ([2], {"a": 5})
    assert cut[0].reason.endswith("3 to add; 5 of its jobs are no longer idle, or leased to others: 1 fewer to add")
    assert presents(trim(plan, {"lab": {"main": {"a": 4}}})) == [1]


def test_without_a_lease_nothing_is_ordered_and_present_glideins_stay():
    plan = planned(group(count=20), have={"queued": 2, "running": 1})["plan"]
    assert presents(plan) == [5]
    cut = trim(plan, {"lab": None})
    assert presents(cut) == [3]
    assert cut[0].reason.endswith("2 to add; 16 of its jobs have no lease: 2 fewer to add")


def test_groups_that_share_a_glidein_lose_it_together():
    plan = planned(group("a", 2), group("b", 2, cpus=1, memory_mb=500))["plan"]
    assert presents(plan) == [1]
    assert presents(trim(plan, {"lab": {"main": {"a": 2}}})) == [1]
    assert presents(trim(plan, {"lab": {"main": {}}})) == [0]


def test_a_trimmed_plan_requests_the_granted_jobs():
    plan = planned(group("a", 9), group("b", 3))["plan"]
    granted = {"lab": {"main": {"a": 4, "b": 3}}}
    assert lease_requests_of(trim(plan, granted)) == granted


def test_no_redundant_glidein_is_added_for_jobs_that_others_lease():
    entries = {name: raw_entry(shapes=NODE, eagerness=2) for name in ("a", "b")}
    result = make_plan(demand(group(count=2)), supply(), [planned_site(site(entries))], NOW, 900)
    assert presents(result["plan"]) == [1, 1]
    assert presents(trim(result["plan"], {"lab": {"a": {"a": 2}, "b": {}}})) == [1, 1]
    cut = trim(result["plan"], {"lab": {"a": {"a": 1}, "b": {}}})
    assert presents(cut) == [1, 0]
    assert cut[1].reason.endswith("1 redundant not added: their jobs have no lease")


def test_without_a_lease_no_redundant_glidein_is_ordered():
    eager = {"main": raw_entry(shapes=NODE, eagerness=2)}
    there = queue({("main", "node"): {"queued": 1}}, "a")
    sites = [planned_site(site(eager, name="a"), there), planned_site(site(eager, name="b"))]
    plan = make_plan(demand(group(count=2)), supply(), sites, NOW, 900)["plan"]
    assert (presents(plan), plan[1].serves) == ([1, 1], {})
    cut = trim(plan, {"a": {"main": {"a": 2}}, "b": None})
    assert presents(cut) == [1, 0]
    assert cut[1].reason.endswith("; its site has no lease: 1 fewer to add")
