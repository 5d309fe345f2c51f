# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a refresh's queries, and of the storage of their results. Functions stand for the daemons."""

import json
import threading

import pytest
from glidein_demand import service as running_service
from glidein_demand.pool import supply
from glidein_demand.pool.pool_state import GONE
from glidein_demand.pool.queries import QueryError
from glidein_demand.refresh import Refresher
from glidein_demand.store import schema
from sqlalchemy.exc import SQLAlchemyError

from conftest import NOW, TOKEN, claim, demand_answer, group
from databases import becomes
from supply_ads import Collector, recorded_ads

ANSWER = demand_answer([group(5)])
SUPPLY = {
    "supply": {**supply.EMPTY, "others": 2},
    "slot_states": {}, "samples": [], "glideins": [], "empty_glideins": [], "job_cores": [],
}  # fmt: skip


def found(*names):
    schedds = [{"name": name, "address": {"Name": name}, "jobs_started": 2, "start_wait_s": 90} for name in names]
    return {"schedds": schedds, "gateways": []}


class Pool:
    """A pool that answers queries: `schedds` are in the collector, `demand` are {schedd: answer or exception}.

    `before(query)` is called before each answer.
    """

    def __init__(self, *schedds, **demand):
        self.demand = demand
        self.answers = {
            "schedds": found(*(schedds or ("cm",))),
            "supply": SUPPLY,
            "limits": {"limits": None, "cycles": []},
        }
        self.queries = []
        self.before = lambda query: None

    def __call__(self, query, timeout):
        self.queries.append(query)
        self.before(query)
        answer = self.demand.get(query["schedd"], ANSWER) if query["type"] == "demand" else self.answers[query["type"]]
        if isinstance(answer, Exception):
            raise answer
        return answer(query) if callable(answer) else answer

    def asked(self, what):
        return [query.get("schedd") for query in self.queries if query["type"] == what]


class Refreshing(Refresher):
    """A Refresher of a server whose queries the pool answers."""

    def __init__(self, service, pool):
        super().__init__(service.server)
        service.server.queries.run = pool

    @property
    def database(self):
        return self._server.database

    @property
    def demand(self):
        return self._pool_state.snapshot().results.demand()

    @property
    def supply(self):
        return self._pool_state.snapshot().supply

    @property
    def starts(self):
        return self._pool_state.snapshot().starts


@pytest.fixture
def refreshing(new_service):
    """Return a function that returns a Refresher of a new server whose queries `answers` answers."""
    return lambda answers, **sections: Refreshing(new_service(**sections), answers)


def messages(caplog):
    return [record.getMessage() for record in caplog.records]


def test_queries_have_the_values_of_the_settings(refreshing):
    pool = Pool("cm")
    values = {"collector": "cm:9618", "constraint": "X", "users": ["alice"], "attributes": ["A"], "vo": "lab"}
    refresher = refreshing(pool, pool={**values, "token_vos": {"issuer": "cms"}})
    refresher.refresh_once()
    queries = {query["type"]: query for query in pool.queries}
    assert queries["demand"] == {
        "type": "demand", "schedd": "cm", "address": {"Name": "cm"}, "constraint": "X", "users": ["alice"],
        "attributes": ["A"], "requested_attributes": [],
        "runtime_attributes": ["AllowedExecuteDuration", "AllowedJobDuration"],
    }  # fmt: skip
    assert queries["supply"].items() >= {"now": NOW, "vo": "lab", "token_vos": {"issuer": "cms"}}.items()
    assert {queries[name]["collector"] for name in ("schedds", "limits", "supply")} == {"cm:9618"}


def test_the_negotiators_limits_apply_until_it_responds_again(refreshing):
    pool = Pool("cm")
    refresher = refreshing(pool)
    limits = {"concurrency": {}, "used": {}, "submitters": {"alice@pool": [2, 0]}, "groups": {}}
    for answer, counts in (
        ({"limits": limits, "cycles": []}, (2, 3)),
        (QueryError("it is in a cycle"), (2, 3)),
        ({"limits": None, "cycles": []}, (5, 0)),
    ):
        pool.answers["limits"] = answer
        refresher.refresh_once()
        (row,) = refresher.demand["groups"]
        assert (row["count"], row["over_limit"]) == counts


def test_the_schedds_of_the_settings_are_read(refreshing):
    pool = Pool("a", "b", "c")
    refresher = refreshing(pool, pool={"schedds": ["a", "b", "typo"]})
    refresher.refresh_once()
    assert sorted(pool.asked("demand")) == ["a", "b"]
    failed = [{"name": "typo", "error": GONE, "as_of": None}]
    assert refresher.demand["schedds"] == {"answered": ["a", "b"], "failed": failed}
    assert refresher.demand["groups"][0]["count"] == 10
    assert (refresher.demand["as_of"], refresher.supply["as_of"], refresher.supply["others"]) == (NOW, NOW, 2)
    assert refresher.starts == (NOW, 4, 180)


@pytest.mark.parametrize(
    ("failure", "shown"),
    [(QueryError("no answer within 60 s"), "no answer within 60 s"), (KeyError("groups"), "unexpected result")],
)
def test_one_schedd_that_fails_does_not_keep_the_others_from_being_read(refreshing, failure, shown):
    refresher = refreshing(Pool("bad", "good", bad=failure))
    refresher.refresh_once()
    schedds = refresher.demand["schedds"]
    assert (schedds["answered"], schedds["failed"][0]["name"]) == (["good"], "bad")
    assert shown in schedds["failed"][0]["error"]
    assert refresher.supply["error"] is None


def test_one_schedd_that_hangs_does_not_delay_the_others_results(refreshing):
    release, pool = threading.Event(), Pool("hangs", "good")
    pool.before = lambda query: query.get("schedd") == "hangs" and release.wait(120)
    refresher = refreshing(pool)
    thread = threading.Thread(target=refresher.refresh_once)
    thread.start()
    try:
        assert becomes(lambda: refresher.demand["schedds"]["answered"] == ["good"])
    finally:
        release.set()
        thread.join()


def test_without_the_collector_the_schedds_of_the_last_refresh_are_queried(refreshing):
    pool = Pool("a")
    refresher = refreshing(pool)
    refresher.refresh_once()
    pool.answers["schedds"] = pool.answers["supply"] = QueryError("refused")
    refresher.refresh_once()
    assert pool.asked("demand") == ["a", "a"]
    assert refresher.demand["schedds"] == {"answered": ["a"], "failed": []}
    assert refresher.supply["error"] == "refused"


def test_a_database_that_cannot_be_used_is_no_error_of_the_collector(refreshing):
    refresher = refreshing(Pool("a"))
    with refresher.database.begin() as connection:
        schema.marker.drop(connection)
    with pytest.raises(SQLAlchemyError):
        refresher.refresh_once()
    assert (refresher.supply["error"], refresher.supply["others"]) == (None, 2)


@pytest.mark.parametrize(
    ("answer", "error"), [(QueryError("refused"), "refused"), (found(), "the collector has no schedd")]
)
def test_the_demand_of_a_pool_without_schedds_is_unknown_and_not_empty(refreshing, answer, error):
    pool = Pool()
    refresher = refreshing(pool)
    pool.answers["schedds"] = answer
    refresher.refresh_once()
    assert refresher.demand["as_of"] is None
    assert refresher.demand["schedds"] == {"answered": [], "failed": [], "error": error}
    pool.answers["schedds"] = found("a")
    refresher.refresh_once()
    assert refresher.demand["schedds"] == {"answered": ["a"], "failed": []}


def test_a_schedd_that_the_collector_has_lost_keeps_its_demand_and_is_logged_once(refreshing, caplog):
    """Keep the demand also if a collector that has just started lists no schedd yet."""
    caplog.set_level("INFO")
    pool = Pool("a")
    refresher = refreshing(pool)
    for known in (found("a"), found(), found(), found("a")):
        pool.answers["schedds"] = known
        refresher.refresh_once()
        failed = [row["name"] for row in refresher.demand["schedds"]["failed"]]
        assert failed == ([] if known["schedds"] else ["a"])
        assert refresher.demand["groups"][0]["count"] == 5
    assert messages(caplog) == [
        f"the query of a failed: {GONE}; its last result is kept",
        "the query of a succeeded again",
    ]


def test_a_failure_is_logged_once_and_its_end_too(refreshing, caplog):
    caplog.set_level("INFO")
    pool = Pool("cm", cm=QueryError("refused"))
    refresher = refreshing(pool)
    for _time in range(2):
        refresher.refresh_once()
    pool.demand.clear()
    refresher.refresh_once()
    assert messages(caplog) == [
        "the query of cm failed: refused; its last result is kept",
        "the query of cm succeeded again",
    ]


def test_the_next_query_of_the_collector_has_the_state_of_the_last_result(refreshing):
    pool = Pool()
    pool.answers["supply"] = lambda query: json.loads(json.dumps(supply.read(query, Collector(*recorded_ads()))))
    refresher = refreshing(pool)
    refresher.refresh_once()
    refresher.refresh_once()
    asked = [query for query in pool.queries if query["type"] == "supply"]
    assert [(query["slot_states"], query["token_sites"], query["sampled"]) for query in asked] == [
        ({}, [], []),
        (
            {"slot1@glidein_2_1_VvfUujia@slurm": [0, 512, 0, 1795230549, 1795230550]},
            ["slurm"],
            [["slurm", "cpu", False]],
        ),
    ]
    assert set(refresher.supply) == {*supply.EMPTY, "as_of", "error"}


def test_each_result_of_the_collector_is_stored(service):
    pool = Pool()
    refresher = Refreshing(service, pool)
    pool.answers["supply"] = {
        **SUPPLY,
        "glideins": [["PSC", "RM", "node", "1", None, NOW]],
        "job_cores": [["PSC", "RM", "node", "a@pool", "p", "cms", 7]],
    }
    for service.now in (NOW, NOW + 60):
        refresher.refresh_once()
    assert service.server.core_hours.totals(("site", "entry"))[("PSC", "RM")]["used_core_s"] == 420
    assert service.server.glideins.summary(NOW)[("PSC", "RM", "node")]["registered"] == 1


@pytest.mark.parametrize("failures", [[], [NOW + 300]])
def test_groups_that_were_passed_over_are_stored_although_queries_of_the_collector_fail(service, failures):
    pool = Pool(cm=demand_answer([group(2)]))
    refresher = Refreshing(service, pool)
    key, name = ("PSC", "RM", "node"), group()["id"]
    refresher.refresh_once()
    service.result("lease", claim(2), TOKEN)
    read = {**SUPPLY, "empty_glideins": [[*key, 1, [[NOW - 10, None, 1]]]]}
    last = NOW + 300 * (1 + len(failures))
    for service.now in (NOW, *failures, last):
        pool.answers["limits"] = {"limits": None, "cycles": [service.now - 20, service.now - 80, service.now - 140]}
        pool.answers["supply"] = QueryError("no answer") if service.now in failures else read
        refresher.refresh_once()
    assert set(service.server.passed_over.closed(service.now)[key]) == {name}
    # A reading counts once: the collector fails, and the group stays open after its time.
    pool.answers["supply"] = QueryError("no answer")
    for service.now in (last + 600, last + 1200):
        refresher.refresh_once()
        assert service.server.passed_over.closed(service.now) == {}


# --- threads ---


def test_while_a_refresh_hangs_requests_are_answered(service):
    release, hanging, pool = threading.Event(), threading.Event(), Pool("cm")

    def wait(query):
        if query["type"] == "supply":
            hanging.set()
            release.wait(120)

    pool.before = wait
    service.server.queries.run = pool
    threads = running_service.threads(service.server)
    service.server.start(thread for thread in threads if thread.name == "refresh")
    try:
        assert hanging.wait(60)
        assert service.result("get_supply")["as_of"] is None
    finally:
        release.set()
    assert becomes(lambda: service.server.pool_state.snapshot().supply["as_of"])
    service.server.stop(60)
