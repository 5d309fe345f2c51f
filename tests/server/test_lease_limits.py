# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the operator's limits cap a site's leases, whatever a caller with its token requests."""

import pytest
from glidein_demand.store.lease_limits import LeaseLimits, LimitError
from glidein_demand.store.leases import grants
from hypothesis import given
from hypothesis import strategies as st

from conftest import TOKEN, group

ONE, TWO = group(100), group(100, cpus=2)


def lease(service, entries, **changes):
    return service.result("lease", {"site": "PSC", "entries": entries, **changes}, TOKEN)


@pytest.fixture
def limited(service):
    service.read(ONE, TWO)
    service.server.lease_limits.install({"PSC": 30})
    return service


def test_a_site_is_granted_jobs_up_to_its_limit_with_a_note(limited):
    answer = lease(limited, {"a": {ONE["id"]: 100}, "b": {TWO["id"]: 100}}, ttl_s=86400)
    assert answer["granted"] == {"a": {ONE["id"]: 30}, "b": {TWO["id"]: 0}}
    assert answer["site_limit"] == 30
    assert sum(row["count"] for row in limited.result("get_demand")["groups"]) == 170


def test_leases_of_other_entries_of_the_site_count(limited):
    lease(limited, {"a": {ONE["id"]: 20}})
    assert lease(limited, {"b": {TWO["id"]: 100}})["granted"] == {"b": {TWO["id"]: 10}}
    assert lease(limited, {"a": {ONE["id"]: 100}})["granted"] == {"a": {ONE["id"]: 20}}
    limited.now += 1801
    assert lease(limited, {"b": {TWO["id"]: 100}})["granted"] == {"b": {TWO["id"]: 30}}


def test_a_claim_within_the_limit_is_granted_without_a_note(limited):
    answer = lease(limited, {"a": {ONE["id"]: 30}})
    assert (answer["granted"], "site_limit" in answer) == ({"a": {ONE["id"]: 30}}, False)


def test_leases_of_other_sites_are_not_reported_as_the_sites_limit(limited):
    other = limited.token("Cedar")
    limited.result("lease", {"site": "Cedar", "entries": {"q": {ONE["id"]: 90}}}, other)
    answer = lease(limited, {"a": {ONE["id"]: 20}})
    assert (answer["granted"], "site_limit" in answer) == ({"a": {ONE["id"]: 10}}, False)


def test_a_site_without_a_limit_may_lease_all_jobs(service):
    service.read(ONE)
    assert lease(service, {"a": {ONE["id"]: 100}})["granted"] == {"a": {ONE["id"]: 100}}


def test_nothing_that_a_caller_sends_raises_its_limit(limited):
    error = limited.error("lease", {"site": "PSC", "entries": {}, "site_limit": 1000}, TOKEN)
    assert error["code"] == -32602
    assert limited.server.lease_limits.of("PSC") == 30


JOBS = st.integers(0, 50)


@given(st.tuples(JOBS, JOBS, JOBS, JOBS), st.tuples(JOBS, JOBS), st.integers(0, 100))
def test_a_limit_reduces_and_never_adds(asked, free, most):
    claims = {"a": {"x": asked[0], "y": asked[1]}, "b": {"x": asked[2], "y": asked[3]}}
    groups = {"x": free[0], "y": free[1]}
    without, within = grants(claims, groups), grants(claims, groups, most=most)
    pairs = [(entry, name) for entry in claims for name in claims[entry]]
    assert all(within[entry][name] <= without[entry][name] for entry, name in pairs)
    total = sum(within[entry][name] for entry, name in pairs)
    assert total == min(most, sum(without[entry][name] for entry, name in pairs))


def test_limits_are_set_as_a_whole(database):
    limits = LeaseLimits(database)
    assert limits.install({"A": 5, "B": 7}) == {"changed": ["A", "B"], "removed": []}
    assert limits.install({"A": 5, "B": 7}) == {"changed": [], "removed": []}
    assert limits.install({"A": 6}, check=True) == {"changed": ["A"], "removed": ["B"]}
    assert (limits.of("A"), limits.of("B")) == (5, 7)
    assert limits.install({"A": 6}) == {"changed": ["A"], "removed": ["B"]}
    assert (limits.of("A"), limits.of("B")) == (6, None)


@pytest.mark.parametrize("wanted", [{"a b": 5}, {"A": -1}, {"A": "5"}, {"A": True}, {"A": 1.5}, {"A": None}])
def test_an_invalid_limit_is_refused(database, wanted):
    with pytest.raises(LimitError):
        LeaseLimits(database).install(wanted)
    assert LeaseLimits(database).of("A") is None
