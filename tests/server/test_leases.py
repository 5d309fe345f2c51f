# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import math
import multiprocessing
import threading

import pytest
from glidein_demand.store.database import Database
from glidein_demand.store.leases import Leases, grants, left
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from databases import NOW, Clock

jobs = st.integers(0, 50)
groups = st.dictionaries(st.sampled_from("uvw"), jobs, max_size=3)
claims = st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), groups, max_size=3)


@pytest.fixture
def clock():
    return Clock(NOW)


@pytest.fixture
def leases(database, clock):
    return Leases(database, clock)


def summed(granted):
    """Return {group: jobs} of {entry: {group: jobs}}."""
    total = {}
    for given_groups in granted.values():
        for group, count in given_groups.items():
            total[group] = total.get(group, 0) + count
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


@given(claims, groups)
def test_while_paused_all_grants_are_zero(asked, free):
    assert set(summed(grants(asked, free, paused=True)).values()) <= {0}


@given(groups, groups)
def test_remaining_jobs_are_never_negative(counts, held):
    assert left(counts, held) == {group: max(0, count - held.get(group, 0)) for group, count in counts.items()}


steps = st.lists(
    st.tuples(st.sampled_from("AB"), claims, groups, st.integers(1, 100), st.integers(0, 60), st.booleans()),
    max_size=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_any_sequence_of_claims_matches_a_simple_model(database, steps):
    """Compare the leases with a simple model: {(site, entry): (expires, {group: jobs})} in a dict."""
    clock = Clock(NOW)
    leases = Leases(database, clock)
    for site in "AB":
        leases.claim(site, {entry: {} for entry in ("q1", "q2", "q3")}, 1, {})
    model = {}
    for site, asked, counts, ttl, passes, paused in steps:
        before = leases.version()
        answer = leases.claim(site, asked, ttl, counts, paused)
        assert leases.version() > before
        model = {
            key: kept for key, kept in model.items() if kept[0] > clock.now and (key[0] != site or key[1] not in asked)
        }
        others = summed({key: kept[1] for key, kept in model.items()})
        for group, count in summed(answer["granted"]).items():
            room = 0 if paused else max(counts.get(group, 0) - others.get(group, 0), 0)
            assert count == min(room, summed(asked)[group])
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


def test_a_claim_replaces_its_entrys_lease(leases):
    assert leases.claim("A", {"q": {"u": 8, "v": 2}}, 60, {"u": 10, "v": 10})["granted"] == {"q": {"u": 8, "v": 2}}
    assert leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10, "v": 10})["granted"] == {"q": {"u": 10}}
    assert leases.held()[0] == {"u": 10}


def test_entries_that_are_not_named_keep_their_leases(leases):
    leases.claim("A", {"q1": {"u": 6}, "q2": {"u": 2}}, 60, {"u": 10})
    assert leases.claim("A", {"q2": {"u": 9}}, 60, {"u": 10})["granted"] == {"q2": {"u": 4}}
    assert leases.claim("A", {"q1": {}}, 60, {"u": 10})["granted"] == {"q1": {}}
    assert leases.held()[0] == {"u": 4}


def test_two_entries_of_one_claim_share_the_free_jobs(leases):
    assert leases.claim("A", {"q2": {"u": 8}, "q1": {"u": 8}}, 60, {"u": 10})["granted"] == {
        "q1": {"u": 8},
        "q2": {"u": 2},
    }


def test_a_group_without_idle_jobs_is_not_granted(leases):
    assert leases.claim("A", {"q": {"gone": 3}}, 60, {"u": 10})["granted"] == {"q": {"gone": 0}}
    assert leases.rows() == []


def test_others_get_nothing_while_more_is_held_than_there_is_now(leases):
    leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10})
    assert leases.claim("B", {"q": {"u": 5}}, 60, {"u": 4})["granted"] == {"q": {"u": 0}}


def test_a_lease_ends_with_its_time(leases, clock):
    leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10})
    clock.now = NOW + 59
    assert leases.claim("B", {"q": {"u": 10}}, 60, {"u": 10})["granted"] == {"q": {"u": 0}}
    clock.now = NOW + 60
    assert (leases.held(), leases.rows()) == (({}, math.inf), [])
    assert leases.claim("B", {"q": {"u": 10}}, 60, {"u": 10})["granted"] == {"q": {"u": 10}}


def test_an_expired_lease_is_not_kept_for_ever(leases, clock, database):
    leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10})
    clock.now += 60
    leases.claim("B", {"q": {}}, 60, {})
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM lease").scalar() == 0


def test_pausing_releases_the_callers_leases(leases):
    leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10})
    assert leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10}, paused=True)["granted"] == {"q": {"u": 0}}
    assert leases.held()[0] == {}


def test_a_sites_own_leases_can_be_excluded(leases):
    leases.claim("A", {"q": {"u": 3, "v": 1}}, 60, {"u": 10, "v": 1})
    leases.claim("B", {"q": {"u": 4}}, 90, {"u": 10})
    assert leases.held() == ({"u": 7, "v": 1}, NOW + 60)
    assert leases.held({"A"})[0] == {"u": 4}
    assert leases.held(frozenset({"A", "B", "unknown"}))[0] == {}


def test_rows_are_sorted_and_have_all_that_is_held(leases):
    leases.claim("B", {"q": {"u": 4}}, 60, {"u": 10})
    leases.claim("A", {"q": {"v": 1, "u": 3}}, 90, {"u": 10, "v": 1})
    assert leases.rows() == [
        {"site": "A", "entry": "q", "group": "u", "jobs": 3, "expires": NOW + 90},
        {"site": "A", "entry": "q", "group": "v", "jobs": 1, "expires": NOW + 90},
        {"site": "B", "entry": "q", "group": "u", "jobs": 4, "expires": NOW + 60},
    ]


def test_leases_outlive_their_process(leases, clock, database_url):
    leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10})
    later = Leases(Database(database_url), clock)
    assert later.rows() == leases.rows()
    assert later.claim("B", {"q": {"u": 10}}, 60, {"u": 10})["granted"] == {"q": {"u": 0}}


def test_another_processs_claim_counts_at_once(leases, clock, database_url):
    other = Leases(Database(database_url), clock)
    leases.claim("A", {"q": {"u": 10}}, 60, {"u": 10})
    leases.claim("A", {"q2": {"v": 1}}, 60, {"v": 10})
    assert other.claim("B", {"q": {"u": 10, "v": 10}}, 60, {"u": 10, "v": 10})["granted"] == {"q": {"u": 0, "v": 9}}
    assert leases.held()[0] == other.held()[0] == {"u": 10, "v": 10}
    assert leases.rows() == other.rows()


def test_many_threads_never_get_more_than_there_is(leases):
    granted = dict.fromkeys(range(10), 0)

    def claim(site):
        for number in granted:
            answer = leases.claim(site, {f"q{number}": {f"g{number}": 30}}, 600, {f"g{number}": 100})
            got.append((number, answer["granted"][f"q{number}"][f"g{number}"]))
            leases.held({site})

    got = []
    threads = [threading.Thread(target=claim, args=(f"S{number}",)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, count in got:
        granted[number] += count
    assert granted == dict.fromkeys(granted, 100)
    assert leases.held()[0] == {f"g{number}": 100 for number in granted}


ROUNDS = 20


def claims_in_rounds(url, start, results, site):
    """Claim 30 of the same 100 jobs in each round, at the same time as the other processes."""
    granted = []
    try:
        leases = Leases(Database(url))
        for number in range(ROUNDS):
            start.wait(300)
            answer = leases.claim(site, {f"q{number}": {f"g{number}": 30}}, 600, {f"g{number}": 100})
            granted.append(answer["granted"][f"q{number}"][f"g{number}"])
    except Exception as error:
        start.abort()
        granted.append(repr(error))
    results.put((site, granted))


def test_many_processes_at_the_same_moment_never_get_more_than_there_is(database_url):
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(6), context.Queue()
    processes = [
        context.Process(target=claims_in_rounds, args=(database_url, start, results, f"S{number}"))
        for number in range(6)
    ]
    for process in processes:
        process.start()
    found = dict(results.get(timeout=300) for _process in processes)
    for process in processes:
        process.join(60)
    for number in range(ROUNDS):
        assert sorted(granted[number] for granted in found.values()) == [0, 0, 10, 30, 30, 30]
    assert Leases(Database(database_url)).held()[0] == {f"g{number}": 100 for number in range(ROUNDS)}
