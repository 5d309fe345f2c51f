# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a refresh's queries, and of the storage of their results. Functions stand for the daemons."""

import threading

import pytest
from glidein_demand.pool.pool_state import GONE, PoolState
from glidein_demand.pool.queries import QueryError
from glidein_demand.pool.refresh import Refresher, demand_queries, schedds_query, supply_query, waits_query

from conftest import NOW, demand_answer, group, settings
from databases import becomes

ANSWER = demand_answer([group(5)])
SUPPLY = {"entries": [], "others": 2}


def found(*names, idle=0):
    return {"schedds": [{"name": name, "address": {"Name": name}, "idle": idle} for name in names]}


class Pool:
    """A pool that answers queries: `schedds` are in the collector, `answers` are {schedd: answer or exception}."""

    def __init__(self, *schedds, **answers):
        self.schedds = found(*(schedds or ("cm",)))
        self.answers = answers
        self.supply = SUPPLY
        self.history = {"waits": {}, "until": "1.0"}
        self.limits = {"limits": None}
        self.queries = []

    def __call__(self, query, timeout):
        self.queries.append(query)
        if query["type"] == "demand":
            name = query["schedd"]
            answer = self.answers.get(name, ANSWER)
        else:
            answers = {"schedds": self.schedds, "supply": self.supply, "waits": self.history, "limits": self.limits}
            answer = answers[query["type"]]
        if isinstance(answer, Exception):
            raise answer
        return {"schedd": query.get("schedd"), **answer} if query["type"] == "waits" else answer

    def asked(self, what):
        return [query.get("schedd") for query in self.queries if query["type"] == what]


class AtTheEnd:
    """A detector that calls a function at the end of each refresh, as pool/passed_over_detector.py is called."""

    def __init__(self, act):
        self.act = act

    def detect(self, _groups, _cycles, _now):
        self.act()


def refresher(pool, pool_state=None, clock=lambda: NOW, settings_=None, **more):
    settings_ = settings_ or settings()
    return Refresher(settings_, pool_state or PoolState(settings_, clock), pool, clock=clock, **more)


def test_queries_have_the_values_of_the_settings():
    chosen = settings(
        pool={"collector": "cm:9618", "constraint": "X", "users": ["alice"], "attributes": ["A"], "vo": "lab"},
        rounding={"memory_step_mb": 64},
    )
    (schedd,) = found("cm")["schedds"]
    (query,) = demand_queries(chosen, schedd, False)
    assert (query["schedd"], query["address"], query["part"]) == ("cm", {"Name": "cm"}, [0, 1])
    assert (query["constraint"], query["users"], query["attributes"]) == ("X", ["alice"], ["A"])
    assert query["rounding"] == {
        "memory_mb": 64, "memory_usage_mb": 128, "disk_mb": 1, "disk_usage_mb": 1024,
    }  # fmt: skip
    assert schedds_query(chosen) == {"type": "schedds", "collector": "cm:9618"}
    assert supply_query(chosen, NOW, {"slot_states": {}}) == {
        "type": "supply", "collector": "cm:9618", "now": NOW, "max_sites": 1000, "vo": "lab", "token_vos": {},
        "slot_states": {},
    }  # fmt: skip
    assert waits_query(chosen, schedd, "7.0")["since"] == "7.0"


def test_the_negotiators_limits_apply_until_it_responds_again():
    pool, pool_state = Pool("cm"), PoolState(settings())
    service = refresher(pool, pool_state)
    pool.limits = {"limits": {"concurrency": {}, "used": {}, "submitters": {"alice@pool": [2, 0]}, "groups": {}}}
    service.refresh_once()
    pool.limits = QueryError("it is in a cycle")
    service.refresh_once()
    (row,) = pool_state.snapshot().results.demand()["groups"]
    assert (row["count"], row["over_limit"]) == (2, 3)
    pool.limits = {"limits": None}
    service.refresh_once()
    (row,) = pool_state.snapshot().results.demand()["groups"]
    assert (row["count"], row["over_limit"]) == (5, 0)


def test_the_query_of_a_large_queue_is_divided_into_complete_parts():
    (schedd,) = found("cm", idle=100_000)["schedds"]
    assert [query["part"] for query in demand_queries(settings(), schedd, False)] == [[0, 1]]
    assert [query["part"] for query in demand_queries(settings(), schedd, True)] == [[0, 3], [1, 3], [2, 3]]


@pytest.mark.parametrize(("said", "parts"), [(True, 3), (False, 1)])
def test_the_last_result_decides_whether_the_query_is_divided(said, parts):
    pool = Pool("cm", cm=demand_answer(by_requirements=said))
    pool.schedds = found("cm", idle=100_000)
    service = refresher(pool)
    service.refresh_once()
    assert len(pool.asked("demand")) == 1
    service.refresh_once()
    assert len(pool.asked("demand")) == 1 + parts


def test_without_names_every_schedd_of_the_collector_is_read():
    pool, pool_state = Pool("a", "b", "c"), PoolState(settings())
    refresher(pool, pool_state).refresh_once()
    assert pool_state.snapshot().results.demand()["schedds"] == {"answered": ["a", "b", "c"], "failed": []}
    assert pool_state.snapshot().results.demand()["groups"][0]["count"] == 15
    assert (pool_state.snapshot().results.demand()["as_of"], pool_state.snapshot().supply["as_of"]) == (NOW, NOW)


def test_with_names_only_these_schedds_are_read_and_a_missing_one_is_reported():
    pool, chosen = Pool("a", "b"), settings(pool={"schedds": ["b", "typo"]})
    pool_state = PoolState(chosen)
    refresher(pool, pool_state, settings_=chosen).refresh_once()
    assert pool.asked("demand") == ["b"]
    assert pool_state.snapshot().results.demand()["schedds"]["failed"] == [
        {"name": "typo", "error": GONE, "as_of": None}
    ]


@pytest.mark.parametrize(
    ("failure", "shown"),
    [(QueryError("no answer within 60 s"), "no answer within 60 s"), (KeyError("groups"), "unexpected result")],
)
def test_one_schedd_that_fails_does_not_keep_the_others_from_being_read(failure, shown):
    pool_state = PoolState(settings())
    refresher(Pool("bad", "good", bad=failure), pool_state).refresh_once()
    schedds = pool_state.snapshot().results.demand()["schedds"]
    assert (schedds["answered"], schedds["failed"][0]["name"]) == (["good"], "bad")
    assert shown in schedds["failed"][0]["error"]
    assert pool_state.snapshot().supply["error"] is None


def test_one_schedd_that_hangs_does_not_delay_the_others_results():
    release = threading.Event()
    pool, pool_state = Pool("hangs", "good"), PoolState(settings())

    def read(query, timeout):
        if query.get("schedd") == "hangs":
            release.wait(120)
        return pool(query, timeout)

    thread = threading.Thread(target=refresher(read, pool_state).refresh_once)
    thread.start()
    try:
        assert becomes(lambda: pool_state.snapshot().results.demand()["schedds"]["answered"] == ["good"])
    finally:
        release.set()
        thread.join()


def test_without_the_collector_the_schedds_of_the_last_refresh_are_queried():
    pool, pool_state = Pool("a"), PoolState(settings())
    service = refresher(pool, pool_state)
    service.refresh_once()
    pool.schedds = pool.supply = QueryError("refused")
    service.refresh_once()
    assert pool.asked("demand") == ["a", "a"]
    assert pool_state.snapshot().results.demand()["schedds"] == {"answered": ["a"], "failed": []}
    assert pool_state.snapshot().supply["error"] == "refused"


@pytest.mark.parametrize(
    ("answer", "error"), [(QueryError("refused"), "refused"), (found(), "the collector has no schedd")]
)
def test_the_demand_of_a_pool_without_schedds_is_unknown_and_not_empty(answer, error):
    pool, pool_state = Pool(), PoolState(settings())
    pool.schedds = answer
    service = refresher(pool, pool_state)
    service.refresh_once()
    demand = pool_state.snapshot().results.demand()
    assert demand["as_of"] is None
    assert demand["schedds"] == {"answered": [], "failed": [], "error": error}
    pool.schedds = found("a")
    service.refresh_once()
    assert pool_state.snapshot().results.demand()["schedds"] == {"answered": ["a"], "failed": []}


def test_a_schedd_that_the_collector_has_lost_is_logged_once(caplog):
    caplog.set_level("INFO")
    pool, pool_state = Pool("a"), PoolState(settings())
    service = refresher(pool, pool_state)
    for known in (found("a"), found(), found(), found("a")):
        pool.schedds = known
        service.refresh_once()
        failed = [row["name"] for row in pool_state.snapshot().results.about["schedds"]["failed"]]
        assert failed == ([] if known["schedds"] else ["a"])
    assert [record.getMessage() for record in caplog.records] == [
        f"the query of a failed: {GONE}; its last result is kept",
        "the query of a succeeded again",
    ]


def test_an_empty_collector_takes_no_demand_away():
    """Keep the demand if a collector that has just started lists no schedd yet."""
    pool, pool_state = Pool("a"), PoolState(settings())
    service = refresher(pool, pool_state)
    service.refresh_once()
    pool.schedds = found()
    service.refresh_once()
    demand = pool_state.snapshot().results.demand()
    assert (demand["groups"][0]["count"], demand["schedds"]["failed"][0]["name"]) == (5, "a")


def test_a_part_that_fails_makes_its_schedd_fail():
    pool_state, pool = PoolState(settings()), Pool(cm={**ANSWER, "by_requirements": True})
    pool.schedds = found("cm", idle=100_000)
    failing = {"part": None}

    def read(query, timeout):
        if query["type"] == "demand" and query["part"] == failing["part"]:
            raise QueryError("no answer")
        return pool(query, timeout)

    service = refresher(read, pool_state)
    seen = []
    for failing["part"] in (None, None, [1, 3]):  # whole, in three parts, in three parts of which one fails
        service.refresh_once()
        demand = pool_state.snapshot().results.demand()
        seen.append((demand["schedds"]["answered"], demand["groups"][0]["count"]))
    assert seen == [(["cm"], 5), (["cm"], 15), ([], 15)]


def test_the_collector_state_adds_to_the_query_and_filters_the_result():
    class CollectorState:
        def query_parameters(self, now):
            return {"slot_states": now}

        def store_result(self, result, now):
            return {"others": result["others"] + 1}

    pool, pool_state = Pool(), PoolState(settings())
    refresher(pool, pool_state, collector_state=CollectorState()).refresh_once()
    assert [query["slot_states"] for query in pool.queries if query["type"] == "supply"] == [NOW]
    assert pool_state.snapshot().supply == {"others": 3, "as_of": NOW, "error": None}


def test_waits_are_handed_over_with_the_marker_for_the_next_time():
    pool, taken = Pool("cm"), []
    pool.history = {"waits": {86400: {3: 1}}, "until": "9.0"}
    service = refresher(pool, on_waits=lambda *what: taken.append(what), wait_marker=lambda schedd: f"{schedd} before")
    service.refresh_once()
    service.read_waits_once()
    assert pool.queries[-1]["since"] == "cm before"
    assert taken == [("cm", {"schedd": "cm", "waits": {86400: {3: 1}}, "until": "9.0"})]


def test_nothing_is_handed_over_when_no_job_has_ended_since():
    taken = []
    service = refresher(Pool("cm"), on_waits=lambda *what: taken.append(what), wait_marker=lambda _schedd: "1.0")
    service.refresh_once()
    service.read_waits_once()
    assert taken == []


def test_a_history_that_no_callback_receives_is_read_without_failure(caplog):
    pool = Pool("cm")
    service = refresher(pool)
    service.refresh_once()
    service.read_waits_once()
    assert pool.asked("waits") == ["cm"]
    assert caplog.records == []


def test_a_history_that_cannot_be_read_is_logged_once_and_demand_is_still_read(caplog):
    pool, pool_state = Pool("cm"), PoolState(settings())
    pool.history = QueryError("no history")
    service = refresher(pool, pool_state, on_waits=lambda *_what: None)
    service.refresh_once()
    service.read_waits_once()
    service.read_waits_once()
    assert [record.getMessage() for record in caplog.records] == [
        "the query of the job history of cm failed: no history; its last result is kept"
    ]
    assert pool_state.snapshot().results.demand()["schedds"] == {"answered": ["cm"], "failed": []}


def run_until(service, event, at_the_end=lambda: None):
    """Run the threads of a refresher until the event; when this returns, they have ended."""
    service.start()
    try:
        assert event.wait(60)
    finally:
        at_the_end()
        service.stop(60)


def test_histories_are_read_in_a_thread_of_their_own():
    release, taken = threading.Event(), threading.Event()
    pool = Pool("cm")

    def read(query, timeout):
        if query["type"] == "supply":
            release.wait(120)  # the refresh takes long
        return pool(query, timeout)

    run_until(refresher(read, on_waits=lambda *_what: taken.set()), taken, at_the_end=release.set)


def test_no_history_is_read_when_the_setting_is_zero():
    pool, told = Pool("cm"), threading.Event()
    chosen = settings(pool={"job_history_seconds": 0})
    run_until(refresher(pool, settings_=chosen, on_waits=print, passed_over=AtTheEnd(told.set)), told)
    assert pool.asked("waits") == []


def test_requests_are_answered_while_a_refresh_hangs(service):
    release, hanging = threading.Event(), threading.Event()
    pool = Pool()

    def read(query, timeout):
        hanging.set()
        release.wait(60)
        return pool(query, timeout)

    background = Refresher(service.settings, service.pool_state, read)
    background.start()
    try:
        assert hanging.wait(60)
        assert service.result("get_demand")["as_of"] is None
    finally:
        release.set()
        background.stop(60)
    assert service.result("get_demand")["groups"][0]["count"] == 5


@pytest.mark.parametrize("what", ["read", "told"])
def test_the_thread_continues_after_failures(what):
    calls, enough = [], threading.Event()

    def fail(*_what):
        calls.append(what)
        if len(calls) >= 5:
            enough.set()
        raise RuntimeError("boom")

    chosen = settings(pool={"refresh_seconds": 1})
    pool, passed_over = (fail, None) if what == "read" else (Pool(), AtTheEnd(fail))
    run_until(refresher(pool, settings_=chosen, passed_over=passed_over), enough)


def test_a_failure_is_logged_once_and_its_end_too(caplog):
    pool = Pool("cm", cm=QueryError("refused"))
    service = refresher(pool)
    with caplog.at_level("INFO"):
        service.refresh_once()
        service.refresh_once()
        pool.answers.clear()
        service.refresh_once()
    assert [record.getMessage() for record in caplog.records] == [
        "the query of cm failed: refused; its last result is kept",
        "the query of cm succeeded again",
    ]
