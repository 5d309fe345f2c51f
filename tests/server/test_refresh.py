# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a refresh's queries, and of the storage of their results. Functions stand for the daemons."""

import json
import threading

import pytest
from glidein_demand import background
from glidein_demand.pool import supply
from glidein_demand.pool.pool_state import GONE
from glidein_demand.pool.queries import QueryError, demand_queries, schedds_query, supply_query, waits_query
from glidein_demand.refresh import Refresher

from conftest import NOW, TOKEN, demand_answer, group, settings
from databases import becomes
from supply_ads import Collector, recorded_ads

ANSWER = demand_answer([group(5)])
SUPPLY = {
    **supply.EMPTY, "others": 2,
    "slot_states": {}, "samples": [], "glideins": [], "empty_glideins": [], "job_cores": [],
}  # fmt: skip


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


@pytest.fixture
def refreshing(new_service):
    """Return a function that returns a Refresher of a new server, and its PoolState; `answers` answers the queries."""

    def make(answers, **sections):
        server = new_service(**sections).server
        server.queries.run = answers
        return Refresher(server), server.pool_state

    return make


def test_queries_have_the_values_of_the_settings():
    chosen = settings(
        pool={"collector": "cm:9618", "constraint": "X", "users": ["alice"], "attributes": ["A"], "vo": "lab"},
    )
    (schedd,) = found("cm")["schedds"]
    (query,) = demand_queries(chosen, schedd, False)
    assert (query["schedd"], query["address"], query["part"]) == ("cm", {"Name": "cm"}, [0, 1])
    assert (query["constraint"], query["users"], query["attributes"]) == ("X", ["alice"], ["A"])
    assert schedds_query(chosen) == {"type": "schedds", "collector": "cm:9618"}
    assert supply_query(chosen, NOW, {"slot_states": {}}) == {
        "type": "supply", "collector": "cm:9618", "now": NOW, "vo": "lab", "token_vos": {},
        "slot_states": {},
    }  # fmt: skip
    assert waits_query(chosen, schedd, "7.0")["since"] == "7.0"


def test_the_negotiators_limits_apply_until_it_responds_again(refreshing):
    pool = Pool("cm")
    service, pool_state = refreshing(pool)
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
def test_the_last_result_decides_whether_the_query_is_divided(refreshing, said, parts):
    pool = Pool("cm", cm=demand_answer(by_requirements=said))
    pool.schedds = found("cm", idle=100_000)
    service, _pool_state = refreshing(pool)
    service.refresh_once()
    assert len(pool.asked("demand")) == 1
    service.refresh_once()
    assert len(pool.asked("demand")) == 1 + parts


def test_without_names_every_schedd_of_the_collector_is_read(refreshing):
    service, pool_state = refreshing(Pool("a", "b", "c"))
    service.refresh_once()
    assert pool_state.snapshot().results.demand()["schedds"] == {"answered": ["a", "b", "c"], "failed": []}
    assert pool_state.snapshot().results.demand()["groups"][0]["count"] == 15
    assert (pool_state.snapshot().results.demand()["as_of"], pool_state.snapshot().supply["as_of"]) == (NOW, NOW)


def test_with_names_only_these_schedds_are_read_and_a_missing_one_is_reported(refreshing):
    pool = Pool("a", "b")
    service, pool_state = refreshing(pool, pool={"schedds": ["b", "typo"]})
    service.refresh_once()
    assert pool.asked("demand") == ["b"]
    assert pool_state.snapshot().results.demand()["schedds"]["failed"] == [
        {"name": "typo", "error": GONE, "as_of": None}
    ]


@pytest.mark.parametrize(
    ("failure", "shown"),
    [(QueryError("no answer within 60 s"), "no answer within 60 s"), (KeyError("groups"), "unexpected result")],
)
def test_one_schedd_that_fails_does_not_keep_the_others_from_being_read(refreshing, failure, shown):
    service, pool_state = refreshing(Pool("bad", "good", bad=failure))
    service.refresh_once()
    schedds = pool_state.snapshot().results.demand()["schedds"]
    assert (schedds["answered"], schedds["failed"][0]["name"]) == (["good"], "bad")
    assert shown in schedds["failed"][0]["error"]
    assert pool_state.snapshot().supply["error"] is None


def test_one_schedd_that_hangs_does_not_delay_the_others_results(refreshing):
    release = threading.Event()
    pool = Pool("hangs", "good")

    def read(query, timeout):
        if query.get("schedd") == "hangs":
            release.wait(120)
        return pool(query, timeout)

    service, pool_state = refreshing(read)
    thread = threading.Thread(target=service.refresh_once)
    thread.start()
    try:
        assert becomes(lambda: pool_state.snapshot().results.demand()["schedds"]["answered"] == ["good"])
    finally:
        release.set()
        thread.join()


def test_without_the_collector_the_schedds_of_the_last_refresh_are_queried(refreshing):
    pool = Pool("a")
    service, pool_state = refreshing(pool)
    service.refresh_once()
    pool.schedds = pool.supply = QueryError("refused")
    service.refresh_once()
    assert pool.asked("demand") == ["a", "a"]
    assert pool_state.snapshot().results.demand()["schedds"] == {"answered": ["a"], "failed": []}
    assert pool_state.snapshot().supply["error"] == "refused"


@pytest.mark.parametrize(
    ("answer", "error"), [(QueryError("refused"), "refused"), (found(), "the collector has no schedd")]
)
def test_the_demand_of_a_pool_without_schedds_is_unknown_and_not_empty(refreshing, answer, error):
    pool = Pool()
    pool.schedds = answer
    service, pool_state = refreshing(pool)
    service.refresh_once()
    demand = pool_state.snapshot().results.demand()
    assert demand["as_of"] is None
    assert demand["schedds"] == {"answered": [], "failed": [], "error": error}
    pool.schedds = found("a")
    service.refresh_once()
    assert pool_state.snapshot().results.demand()["schedds"] == {"answered": ["a"], "failed": []}


def test_a_schedd_that_the_collector_has_lost_is_logged_once(refreshing, caplog):
    caplog.set_level("INFO")
    pool = Pool("a")
    service, pool_state = refreshing(pool)
    for known in (found("a"), found(), found(), found("a")):
        pool.schedds = known
        service.refresh_once()
        failed = [row["name"] for row in pool_state.snapshot().results.about["schedds"]["failed"]]
        assert failed == ([] if known["schedds"] else ["a"])
    assert [record.getMessage() for record in caplog.records] == [
        f"the query of a failed: {GONE}; its last result is kept",
        "the query of a succeeded again",
    ]


def test_an_empty_collector_takes_no_demand_away(refreshing):
    """Keep the demand if a collector that has just started lists no schedd yet."""
    pool = Pool("a")
    service, pool_state = refreshing(pool)
    service.refresh_once()
    pool.schedds = found()
    service.refresh_once()
    demand = pool_state.snapshot().results.demand()
    assert (demand["groups"][0]["count"], demand["schedds"]["failed"][0]["name"]) == (5, "a")


def test_a_part_that_fails_makes_its_schedd_fail(refreshing):
    pool = Pool(cm={**ANSWER, "by_requirements": True})
    pool.schedds = found("cm", idle=100_000)
    failing = {"part": None}

    def read(query, timeout):
        if query["type"] == "demand" and query["part"] == failing["part"]:
            raise QueryError("no answer")
        return pool(query, timeout)

    service, pool_state = refreshing(read)
    seen = []
    for failing["part"] in (None, None, [1, 3]):  # whole, in three parts, in three parts of which one fails
        service.refresh_once()
        demand = pool_state.snapshot().results.demand()
        seen.append((demand["schedds"]["answered"], demand["groups"][0]["count"]))
    assert seen == [(["cm"], 5), (["cm"], 15), ([], 15)]


def test_the_next_query_of_the_collector_has_the_state_of_the_last_result(refreshing):
    pool = Pool()
    asked = []

    def read(query, timeout):
        if query["type"] != "supply":
            return pool(query, timeout)
        asked.append({key: query[key] for key in ("slot_states", "token_sites", "sampled")})
        return json.loads(json.dumps(supply.read(query, Collector(*recorded_ads()))))

    service, pool_state = refreshing(read)
    service.refresh_once()
    service.refresh_once()
    assert asked == [
        {"slot_states": {}, "token_sites": [], "sampled": []},
        {
            "slot_states": {"slot1@glidein_2_1_VvfUujia@slurm": [0, 512, 0, 1795230549, 1795230550]},
            "token_sites": ["slurm"],
            "sampled": [["slurm", "cpu", False]],
        },
    ]
    assert set(pool_state.snapshot().supply) == {*supply.EMPTY, "as_of", "error"}


def test_each_result_of_the_collector_is_stored(new_service):
    pool, service = Pool(), new_service()
    service.server.queries.run = pool
    refresher = Refresher(service.server)
    pool.supply = {
        **SUPPLY,
        "glideins": [["PSC", "RM", "node", "1", None, NOW]],
        "job_cores": [["PSC", "RM", "node", "a@pool", "p", "cms", 7]],
    }
    for service.now in (NOW, NOW + 60):
        refresher.refresh_once()
    assert service.server.core_hours.totals(("site", "entry"))[("PSC", "RM")]["job_core_s"] == 420
    assert service.server.glideins.summary(NOW)[("PSC", "RM", "node")]["registered"] == 1


def test_groups_that_were_passed_over_are_stored(new_service):
    pool, service = Pool(cm=demand_answer([group(2)])), new_service()
    service.server.queries.run = pool
    refresher = Refresher(service.server)
    key, name = ("PSC", "RM", "node"), group()["id"]
    refresher.refresh_once()
    service.result("lease", {"site": "PSC", "entries": {"RM": {name: 2}}}, TOKEN)
    for service.now in (NOW, NOW + 300):
        pool.limits = {"limits": None, "cycles": [service.now - 20, service.now - 80, service.now - 140]}
        pool.supply = {**SUPPLY, "empty_glideins": [[*key, 1, [[NOW - 10, None, 1]]]]}
        refresher.refresh_once()
    assert set(service.server.passed_over.closed(service.now)[key]) == {name}


def test_waits_are_stored_with_the_marker_for_the_next_time(new_service):
    pool, service = Pool("cm"), new_service()
    service.server.queries.run = pool
    refresher = Refresher(service.server)
    refresher.refresh_once()
    pool.history = {"waits": {86400: {3: 1}}, "until": "9.0"}
    for since in (None, "9.0"):
        refresher.read_waits()
        assert pool.queries[-1]["since"] == since
    assert service.server.history.wait_marker("cm") == "9.0"


def test_a_history_that_cannot_be_read_is_logged_once_and_demand_is_still_read(refreshing, caplog):
    pool = Pool("cm")
    pool.history = QueryError("no history")
    service, pool_state = refreshing(pool)
    service.refresh_once()
    service.read_waits()
    service.read_waits()
    assert [record.getMessage() for record in caplog.records] == [
        "the query of the job history of cm failed: no history; its last result is kept"
    ]
    assert pool_state.snapshot().results.demand()["schedds"] == {"answered": ["cm"], "failed": []}


def started(service, read, *names):
    """Start the threads of a server that have these names."""
    service.server.queries.run = read
    service.server.start(thread for thread in background.threads(service.server) if thread.name in names)


def test_histories_are_read_in_a_thread_of_their_own(service):
    release, pool = threading.Event(), Pool("cm")

    def read(query, timeout):
        if query["type"] == "supply":
            release.wait(120)  # the refresh takes long
        return pool(query, timeout)

    started(service, read, "refresh", "waits")
    try:
        assert becomes(lambda: service.server.history.wait_marker("cm") == "1.0")
    finally:
        release.set()
        service.server.stop(60)


def test_no_history_is_read_when_the_setting_is_zero(new_service):
    service = new_service(pool={"job_history_seconds": 0})
    assert "waits" not in {thread.name for thread in background.threads(service.server)}


def test_requests_are_answered_while_a_refresh_hangs(service):
    release, hanging = threading.Event(), threading.Event()
    pool = Pool()

    def read(query, timeout):
        hanging.set()
        release.wait(60)
        return pool(query, timeout)

    started(service, read, "refresh")
    try:
        assert hanging.wait(60)
        assert service.result("get_demand")["as_of"] is None
    finally:
        release.set()
    assert becomes(lambda: service.result("get_demand")["groups"])


def test_a_failure_is_logged_once_and_its_end_too(refreshing, caplog):
    pool = Pool("cm", cm=QueryError("refused"))
    service, _pool_state = refreshing(pool)
    with caplog.at_level("INFO"):
        service.refresh_once()
        service.refresh_once()
        pool.answers.clear()
        service.refresh_once()
    assert [record.getMessage() for record in caplog.records] == [
        "the query of cm failed: refused; its last result is kept",
        "the query of cm succeeded again",
    ]
