# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of leases, and of what limits them: the pause, the operator's limits, and the owner of a site's name."""

import math
import threading

import pytest
from glidein_demand.store.database import Database
from glidein_demand.store.leases import (
    OWNER_S,
    LeaseLimits,
    Leases,
    LimitError,
    OwnedError,
    Pause,
    SiteOwners,
    grants,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import TOKEN, claim, group, site_report
from databases import NOW, Clock

ONE, TWO = group(100), group(100, cpus=2)
OFF = {"paused": False, "since": None, "reason": "", "by": ""}

jobs = st.integers(0, 50)
groups = st.dictionaries(st.sampled_from("uvw"), jobs, max_size=3)
claims = st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), groups, max_size=3)


@pytest.fixture
def leases(database, clock):
    return Leases(database, clock)


def summed(granted):
    """Return {group: jobs} of {entry: {group: jobs}}."""
    total = {}
    for given_groups in granted.values():
        for name, count in given_groups.items():
            total[name] = total.get(name, 0) + count
    return total


@given(claims, groups)
def test_grants_exceed_neither_the_claims_nor_the_free_jobs(asked, free):
    granted = grants(asked, free)
    assert {entry: set(of) for entry, of in granted.items()} == {entry: set(of) for entry, of in asked.items()}
    assert all(0 <= count <= asked[entry][group] for entry, of in granted.items() for group, count in of.items())
    wanted = summed(asked)
    assert summed(granted) == {group: min(count, free.get(group, 0)) for group, count in wanted.items()}


@given(claims, groups, st.randoms())
def test_the_order_of_the_entries_does_not_matter(asked, free, random):
    def shuffled(mapping):
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    other = shuffled({entry: shuffled(of) for entry, of in asked.items()})
    assert grants(other, shuffled(free)) == grants(asked, free)


def test_nothing_is_granted_of_a_group_whose_leases_exceed_its_jobs():
    assert grants({"q": {"a": 3}}, {"a": -2}) == {"q": {"a": 0}}


steps = st.lists(st.tuples(st.sampled_from("AB"), claims, groups, st.integers(1, 100), st.integers(0, 60)), max_size=12)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_any_sequence_of_claims_matches_a_simple_model(database, steps):
    """Compare the leases with a simple model: {(site, entry): (expires, {group: jobs})} in a dict."""
    clock = Clock(NOW)
    leases = Leases(database, clock)
    for site in "AB":
        leases.claim(site, {entry: {} for entry in ("q1", "q2", "q3")}, 1, {})
    model = {}
    for site, asked, counts, ttl, passes in steps:
        before = leases.version
        answer = leases.claim(site, asked, ttl, counts)
        assert leases.version > before
        model = {
            key: kept for key, kept in model.items() if kept[0] > clock.now and (key[0] != site or key[1] not in asked)
        }
        others = summed({key: kept[1] for key, kept in model.items()})
        for name, count in summed(answer["granted"]).items():
            room = max(counts.get(name, 0) - others.get(name, 0), 0)
            assert count == min(room, summed(asked)[name])
        assert answer["expires"] == clock.now + ttl
        model.update({(site, entry): (answer["expires"], granted) for entry, granted in answer["granted"].items()})
        clock.now += passes
        alive = {key: kept for key, kept in model.items() if kept[0] > clock.now and any(kept[1].values())}
        for excluded in (frozenset(), frozenset("A"), frozenset("AB")):
            expected = summed({key: kept[1] for key, kept in alive.items() if key[0] not in excluded})
            found, until = leases.held(excluded)
            assert found == {group: count for group, count in expected.items() if count}
            ends = [kept[0] for key, kept in alive.items() if key[0] not in excluded]
            assert until == min(ends, default=math.inf)


def test_a_lease_ends_with_its_time_and_its_row_is_deleted(leases, clock, database):
    leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10})
    clock.now = NOW + 59
    assert leases.claim("B", {"q": {"u": 10}}, 60, {"u": 10})["granted"] == {"q": {"u": 0}}
    clock.now = NOW + 60
    assert (leases.held(), leases.rows()) == (({}, math.inf), [])
    assert leases.claim("B", {"q": {"u": 10}}, 60, {"u": 10})["granted"] == {"q": {"u": 10}}
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM lease").scalar() == 1


def test_rows_are_sorted_and_have_all_that_is_held(leases):
    leases.claim("B", {"q": {"u": 4}}, 60, {"u": 10})
    leases.claim("A", {"q": {"v": 1, "u": 3}}, 90, {"u": 10, "v": 1})
    assert leases.rows() == [
        {"site": "A", "entry": "q", "group": "u", "jobs": 3, "expires": NOW + 90},
        {"site": "A", "entry": "q", "group": "v", "jobs": 1, "expires": NOW + 90},
        {"site": "B", "entry": "q", "group": "u", "jobs": 4, "expires": NOW + 60},
    ]


def test_another_processs_claim_counts_at_once(leases, clock, database_url):
    other = Leases(Database(database_url), clock)
    leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10})
    leases.claim("A", {"q2": {"v": 1}}, 60, {"v": 10})
    assert other.claim("B", {"q": {"u": 10, "v": 10}}, 60, {"u": 10, "v": 10})["granted"] == {"q": {"u": 0, "v": 9}}
    assert leases.held()[0] == other.held()[0] == {"u": 10, "v": 10}
    assert leases.rows() == other.rows()


def test_many_threads_never_get_more_than_there_is(leases):
    granted = dict.fromkeys(range(10), 0)

    def claim_in_each_group(site):
        for number in granted:
            answer = leases.claim(site, {f"q{number}": {f"g{number}": 30}}, 600, {f"g{number}": 100})
            got.append((number, answer["granted"][f"q{number}"][f"g{number}"]))
            leases.held({site})

    got = []
    threads = [threading.Thread(target=claim_in_each_group, args=(f"S{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, count in got:
        granted[number] += count
    assert granted == dict.fromkeys(granted, 100)
    assert leases.held()[0] == {f"g{number}": 100 for number in granted}


def lease(service, entries, token=TOKEN, **changes):
    return service.result("lease", {"site": "PSC", "entries": entries, **changes}, token)


@pytest.fixture
def limited(service):
    service.read(ONE, TWO)
    service.server.lease_limits.install({"PSC": 30})
    return service


def test_all_entries_of_a_site_are_granted_jobs_up_to_its_limit_with_a_note(limited):
    answer = lease(limited, {"a": {ONE["id"]: 100}, "b": {TWO["id"]: 100}}, ttl_s=86400)
    assert (answer["granted"], answer["site_limit"]) == ({"a": {ONE["id"]: 30}, "b": {TWO["id"]: 0}}, 30)
    assert sum(row["count"] for row in limited.result("get_demand")["groups"]) == 170
    lease(limited, {"a": {ONE["id"]: 20}, "b": {}})
    assert lease(limited, {"b": {TWO["id"]: 100}})["granted"] == {"b": {TWO["id"]: 10}}
    limited.now += 1801
    answer = lease(limited, {"b": {TWO["id"]: 30}})
    assert (answer["granted"], "site_limit" in answer) == ({"b": {TWO["id"]: 30}}, False)


def test_leases_of_other_sites_are_not_reported_as_the_sites_limit(limited):
    limited.result("lease", {"site": "Cedar", "entries": {"q": {ONE["id"]: 90}}}, limited.token("Cedar"))
    answer = lease(limited, {"a": {ONE["id"]: 20}})
    assert (answer["granted"], "site_limit" in answer) == ({"a": {ONE["id"]: 10}}, False)


@given(claims, groups, st.integers(0, 100))
def test_a_limit_reduces_and_never_adds(asked, free, most):
    without, within = grants(asked, free), grants(asked, free, most=most)
    assert all(count <= without[entry][name] for entry, of in within.items() for name, count in of.items())
    assert sum(summed(within).values()) == min(most, sum(summed(without).values()))


def test_limits_are_set_as_a_whole(database):
    limits = LeaseLimits(database)
    assert limits.install({"A": 5, "B": 7}) == {"A": [None, 5], "B": [None, 7]}
    assert limits.install({"A": 5, "B": 7}) == {}
    assert limits.install({"A": 6}, check=True) == {"A": [5, 6], "B": [7, None]}
    assert (limits.of("A"), limits.of("B")) == (5, 7)
    assert limits.install({"A": 6}) == {"A": [5, 6], "B": [7, None]}
    assert (limits.of("A"), limits.of("B")) == (6, None)


@pytest.mark.parametrize("wanted", [{"a b": 5}, {"A": -1}, {"A": "5"}, {"A": True}, {"A": 1.5}, {"A": None}])
def test_an_invalid_limit_is_refused(database, wanted):
    with pytest.raises(LimitError):
        LeaseLimits(database).install(wanted)
    assert LeaseLimits(database).of("A") is None


def test_a_pause_keeps_its_beginning_and_another_process_sees_it(database, database_url, clock):
    pause, other = Pause(database, clock), Pause(Database(database_url))
    assert other.state() == OFF
    pause.set("disks full", "ada")
    assert other.state() == {"paused": True, "since": NOW, "reason": "disks full", "by": "ada"}
    clock.now += 60
    pause.set("second", "bob")
    assert other.state() == {"paused": True, "since": NOW, "reason": "second", "by": "bob"}
    for _again in range(2):
        pause.clear()
        assert other.state() == OFF
    pause.set()
    assert other.state()["since"] == NOW + 60


@pytest.fixture
def owned(service):
    """Return a service whose site PSC belongs to the deployment lab."""
    service.read(group(6))
    service.result("lease", claim(deployment="lab"), TOKEN)
    return service


@pytest.mark.parametrize("method", ["lease", "report"])
def test_a_second_deployment_with_the_same_site_name_is_refused_with_the_remedy(owned, method):
    params = claim() if method == "lease" else site_report()
    error = owned.error(method, {**params, "deployment": "other"}, TOKEN)
    assert (error["code"], error["message"]) == (-32006, "Used by another deployment")
    assert "site PSC belongs to the deployment 'lab', and this is 'other'" in error["data"]
    assert "Give each deployment its own glidein_site and glidein_demand_token" in error["data"]
    assert [(row["site"], row["jobs"]) for row in owned.server.leases.rows()] == [("PSC", 6)]
    assert owned.server.reports.reports() == {}


def test_the_owner_of_a_site_and_callers_that_name_no_deployment_are_accepted(owned):
    for deployment in ({"deployment": "lab"}, {}, {"deployment": "lab"}):
        assert owned.result("lease", claim(**deployment), TOKEN)["granted"]["RM"] == {group()["id"]: 6}
        assert owned.result("report", site_report(**deployment), TOKEN) == {"accepted": True}
        owned.now += 600


def test_a_new_token_frees_the_name_at_once(owned):
    owned.now += 1
    owned.server.tokens.install({"PSC": "another-secret-of-the-site"})
    owned.result("lease", claim(deployment="other"), "another-secret-of-the-site")


@pytest.mark.parametrize("ttl_s", [60, 3 * OWNER_S])
def test_a_name_is_free_some_time_after_the_last_call_and_not_before_its_leases_expire(database, clock, ttl_s):
    owners = SiteOwners(database, clock)
    for seconds in (60, ttl_s, 60):
        owners.use("PSC", "lab", seconds, 0)
    clock.now += max(ttl_s, OWNER_S) - 60
    with pytest.raises(OwnedError, match="the name is free in 1 min"):
        SiteOwners(database, clock).use("PSC", "other", ttl_s, 0)
    clock.now += 60
    owners.use("PSC", "other", ttl_s, 0)
    with pytest.raises(OwnedError, match="belongs to the deployment 'other'"):
        owners.use("PSC", "lab", ttl_s, 0)
