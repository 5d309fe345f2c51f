# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a refresh asks and what becomes of the answers; the daemons are functions here."""

import threading
import time

import pytest
from glidein_demand.pool.queries import QueryError
from glidein_demand.pool.readings import GONE, Readings
from glidein_demand.pool.refresh import COLLECTOR, Refresher, demand_orders, schedds_order, supply_order, waits_order

from conftest import NOW, demand_answer, group, settings

ANSWER = demand_answer([group(5)])
SUPPLY = {"entries": [], "others": 2}


def found(*names, idle=0):
    return {"schedds": [{"name": name, "address": {"Name": name}, "idle": idle} for name in names]}


class Pool:
    """Answers orders: `schedds` is what the collector knows, `answers` {schedd: answer or exception}."""

    def __init__(self, *schedds, **answers):
        self.schedds = found(*(schedds or ("cm",)))
        self.answers = answers
        self.supply = SUPPLY
        self.history = {"waits": {}, "until": "1.0"}
        self.limits = {"limits": None}
        self.orders = []

    def __call__(self, order, timeout):
        self.orders.append(order)
        if order["what"] == "demand":
            name = order["schedd"]
            answer = self.answers.get(name, ANSWER)
        else:
            answers = {"schedds": self.schedds, "supply": self.supply, "waits": self.history, "limits": self.limits}
            answer = answers[order["what"]]
        if isinstance(answer, Exception):
            raise answer
        return {"schedd": order.get("schedd"), **answer} if order["what"] == "waits" else answer

    def asked(self, what):
        return [order.get("schedd") for order in self.orders if order["what"] == what]


class AtTheEnd:
    """Calls a function at the end of each refresh, as pool/passing.py is called."""

    def __init__(self, act):
        self.act = act

    def refreshed(self, _groups, _cycles, _now):
        self.act()


def refresher(pool, readings=None, clock=lambda: NOW, settings_=None, **more):
    settings_ = settings_ or settings()
    return Refresher(settings_, readings or Readings(settings_, clock), pool, clock=clock, **more)


def test_orders_carry_what_the_settings_say():
    chosen = settings(
        pool={"collector": "cm:9618", "constraint": "X", "users": ["alice"], "attributes": ["A"]},
        rounding={"memory_step_mb": 64},
    )
    (schedd,) = found("cm")["schedds"]
    (order,) = demand_orders(chosen, schedd, False)
    assert (order["schedd"], order["address"], order["part"]) == ("cm", {"Name": "cm"}, [0, 1])
    assert (order["constraint"], order["users"], order["attributes"]) == ("X", ["alice"], ["A"])
    assert order["rounding"] == {
        "memory_mb": 64, "memory_usage_mb": 128, "disk_mb": 1, "disk_usage_mb": 1024,
    }  # fmt: skip
    assert schedds_order(chosen) == {"what": "schedds", "collector": "cm:9618"}
    assert supply_order(chosen, NOW, {"memory": {}}) == {
        "what": "supply", "collector": "cm:9618", "now": NOW, "max_sites": 1000, "memory": {},
    }  # fmt: skip
    assert waits_order(chosen, schedd, "7.0")["since"] == "7.0"


def test_the_negotiators_limits_hold_until_it_answers_again():
    pool, readings = Pool("cm"), Readings(settings())
    service = refresher(pool, readings)
    pool.limits = {"limits": {"concurrency": {}, "used": {}, "submitters": {"alice@pool": [2, 0]}, "groups": {}}}
    service.refresh_once()
    pool.limits = QueryError("it is in a cycle")
    service.refresh_once()
    (row,) = readings.snapshot().answers.demand()["groups"]
    assert (row["count"], row["over_limit"]) == (2, 3)
    pool.limits = {"limits": None}
    service.refresh_once()
    (row,) = readings.snapshot().answers.demand()["groups"]
    assert (row["count"], row["over_limit"]) == (5, 0)


def test_a_large_queue_is_asked_for_in_parts_that_leave_nothing_out():
    (schedd,) = found("cm", idle=100_000)["schedds"]
    assert [order["part"] for order in demand_orders(settings(), schedd, False)] == [[0, 1]]
    assert [order["part"] for order in demand_orders(settings(), schedd, True)] == [[0, 3], [1, 3], [2, 3]]


@pytest.mark.parametrize(("said", "parts"), [(True, 3), (False, 1)])
def test_whether_it_is_divided_is_what_the_last_answer_said(said, parts):
    pool = Pool("cm", cm=demand_answer(by_requirements=said))
    pool.schedds = found("cm", idle=100_000)
    service = refresher(pool)
    service.refresh_once()
    assert len(pool.asked("demand")) == 1
    service.refresh_once()
    assert len(pool.asked("demand")) == 1 + parts


def test_without_names_every_schedd_of_the_collector_is_read():
    pool, readings = Pool("a", "b", "c"), Readings(settings())
    refresher(pool, readings).refresh_once()
    assert readings.snapshot().answers.demand()["schedds"] == {"answered": ["a", "b", "c"], "failed": []}
    assert readings.snapshot().answers.demand()["groups"][0]["count"] == 15
    assert (readings.snapshot().answers.demand()["as_of"], readings.snapshot().supply["as_of"]) == (NOW, NOW)


def test_with_names_only_these_are_read_and_a_missing_one_is_told():
    pool, chosen = Pool("a", "b"), settings(pool={"schedds": ["b", "typo"]})
    readings = Readings(chosen)
    refresher(pool, readings, settings_=chosen).refresh_once()
    assert pool.asked("demand") == ["b"]
    assert readings.snapshot().answers.demand()["schedds"]["failed"] == [{"name": "typo", "error": GONE, "as_of": None}]


@pytest.mark.parametrize(
    ("failure", "shown"),
    [(QueryError("no answer within 60 s"), "no answer within 60 s"), (KeyError("groups"), "unexpected answer")],
)
def test_one_schedd_that_fails_does_not_keep_the_others_from_being_read(failure, shown):
    readings = Readings(settings())
    refresher(Pool("bad", "good", bad=failure), readings).refresh_once()
    schedds = readings.snapshot().answers.demand()["schedds"]
    assert (schedds["answered"], schedds["failed"][0]["name"]) == (["good"], "bad")
    assert shown in schedds["failed"][0]["error"]
    assert readings.snapshot().supply["error"] is None


def test_one_schedd_that_hangs_does_not_hold_the_others_answers_back():
    release = threading.Event()
    pool, readings = Pool("hangs", "good"), Readings(settings())

    def read(order, timeout):
        if order.get("schedd") == "hangs":
            release.wait(30)
        return pool(order, timeout)

    thread = threading.Thread(target=refresher(read, readings).refresh_once)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while readings.snapshot().answers.demand()["schedds"]["answered"] != ["good"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        release.set()
        thread.join()


def test_when_the_collector_does_not_answer_the_schedds_of_last_time_are_asked():
    pool, readings = Pool("a"), Readings(settings())
    service = refresher(pool, readings)
    service.refresh_once()
    pool.schedds = pool.supply = QueryError("refused")
    service.refresh_once()
    assert pool.asked("demand") == ["a", "a"]
    assert readings.snapshot().answers.demand()["schedds"] == {"answered": ["a"], "failed": []}
    assert readings.snapshot().supply["error"] == "refused"


@pytest.mark.parametrize(
    ("answer", "error"), [(QueryError("refused"), "refused"), (found(), "the collector knows no schedd")]
)
def test_a_pool_without_any_known_schedd_is_unknown_and_not_empty(answer, error):
    pool, readings = Pool(), Readings(settings())
    pool.schedds = answer
    service = refresher(pool, readings)
    service.refresh_once()
    demand = readings.snapshot().answers.demand()
    assert demand["as_of"] is None
    assert demand["schedds"]["failed"] == [{"name": COLLECTOR, "error": error, "as_of": None}]
    pool.schedds = found("a")
    service.refresh_once()
    assert readings.snapshot().answers.demand()["schedds"] == {"answered": ["a"], "failed": []}


def test_a_schedd_that_the_collector_has_lost_is_told_once_and_not_the_collector(caplog):
    caplog.set_level("INFO")
    pool, readings = Pool("a"), Readings(settings())
    service = refresher(pool, readings)
    for known in (found("a"), found(), found(), found("a")):
        pool.schedds = known
        service.refresh_once()
        failed = [row["name"] for row in readings.snapshot().answers.about["schedds"]["failed"]]
        assert failed == ([] if known["schedds"] else ["a"])
    assert [record.getMessage() for record in caplog.records] == [
        f"a does not answer: {GONE}; its last answer is kept",
        "a answers again",
    ]


def test_an_empty_collector_takes_no_demand_away():
    """A collector that has just been started knows no schedd yet."""
    pool, readings = Pool("a"), Readings(settings())
    service = refresher(pool, readings)
    service.refresh_once()
    pool.schedds = found()
    service.refresh_once()
    demand = readings.snapshot().answers.demand()
    assert (demand["groups"][0]["count"], demand["schedds"]["failed"][0]["name"]) == (5, "a")


def test_a_part_that_fails_makes_its_schedd_fail():
    readings, pool = Readings(settings()), Pool(cm={**ANSWER, "by_requirements": True})
    pool.schedds = found("cm", idle=100_000)
    failing = {"part": None}

    def read(order, timeout):
        if order["what"] == "demand" and order["part"] == failing["part"]:
            raise QueryError("no answer")
        return pool(order, timeout)

    service = refresher(read, readings)
    seen = []
    for failing["part"] in (None, None, [1, 3]):  # whole, in three parts, in three parts of which one fails
        service.refresh_once()
        demand = readings.snapshot().answers.demand()
        seen.append((demand["schedds"]["answered"], demand["groups"][0]["count"]))
    assert seen == [(["cm"], 5), (["cm"], 15), ([], 15)]


def test_what_follows_the_supply_gives_to_the_order_and_takes_from_the_answer():
    class Following:
        def order(self, now):
            return {"memory": now}

        def answered(self, answer, now):
            return {"others": answer["others"] + 1}

    pool, readings = Pool(), Readings(settings())
    refresher(pool, readings, following=Following()).refresh_once()
    assert [order["memory"] for order in pool.orders if order["what"] == "supply"] == [NOW]
    assert readings.snapshot().supply == {"others": 3, "as_of": NOW, "error": None}


def test_waits_are_handed_over_with_the_marker_for_the_next_time():
    pool, taken = Pool("cm"), []
    pool.history = {"waits": {86400: {3: 1}}, "until": "9.0"}
    service = refresher(pool, on_waits=lambda *what: taken.append(what), wait_marker=lambda schedd: f"{schedd} before")
    service.refresh_once()
    service.read_waits_once()
    assert pool.orders[-1]["since"] == "cm before"
    assert taken == [("cm", {"schedd": "cm", "waits": {86400: {3: 1}}, "until": "9.0"})]


def test_nothing_is_handed_over_when_no_job_has_ended_since():
    taken = []
    service = refresher(Pool("cm"), on_waits=lambda *what: taken.append(what), wait_marker=lambda _schedd: "1.0")
    service.refresh_once()
    service.read_waits_once()
    assert taken == []


def test_a_history_that_cannot_be_read_is_said_once_and_harms_nothing(caplog):
    pool, readings = Pool("cm"), Readings(settings())
    pool.history = QueryError("no history")
    service = refresher(pool, readings, on_waits=lambda *_what: None)
    service.refresh_once()
    service.read_waits_once()
    service.read_waits_once()
    assert [record.getMessage() for record in caplog.records] == [
        "the job history of cm does not answer: no history; its last answer is kept"
    ]
    assert readings.snapshot().answers.demand()["schedds"] == {"answered": ["cm"], "failed": []}


def run_until(service, event):
    service.start()
    try:
        assert event.wait(30)
    finally:
        service.stop(5)


def test_histories_are_read_in_a_thread_of_their_own():
    release, taken = threading.Event(), threading.Event()
    pool = Pool("cm")

    def read(order, timeout):
        if order["what"] == "supply":
            release.wait(30)  # the refresh takes long
        return pool(order, timeout)

    try:
        run_until(refresher(read, on_waits=lambda *_what: taken.set()), taken)
    finally:
        release.set()


def test_no_history_is_read_when_the_setting_says_so():
    pool, told = Pool("cm"), threading.Event()
    chosen = settings(pool={"job_history_seconds": 0})
    run_until(refresher(pool, settings_=chosen, on_waits=print, passing=AtTheEnd(told.set)), told)
    assert pool.asked("waits") == []


def test_requests_are_answered_while_a_refresh_hangs(service):
    release, hanging = threading.Event(), threading.Event()
    pool = Pool()

    def read(order, timeout):
        hanging.set()
        release.wait(30)
        return pool(order, timeout)

    background = Refresher(service.settings, service.readings, read)
    background.start()
    try:
        assert hanging.wait(10)
        assert service.result("get_demand")["as_of"] is None
    finally:
        release.set()
        background.stop(10)
    assert service.result("get_demand")["groups"][0]["count"] == 5


@pytest.mark.parametrize("what", ["read", "told"])
def test_the_thread_goes_on_after_failures(what):
    calls, enough = [], threading.Event()

    def fail(*_what):
        calls.append(what)
        if len(calls) >= 5:
            enough.set()
        raise RuntimeError("boom")

    chosen = settings(pool={"refresh_seconds": 1})
    pool, passing = (fail, None) if what == "read" else (Pool(), AtTheEnd(fail))
    run_until(refresher(pool, settings_=chosen, passing=passing), enough)


def test_a_failure_is_logged_once_and_its_end_too(caplog):
    pool = Pool("cm", cm=QueryError("refused"))
    service = refresher(pool)
    with caplog.at_level("INFO"):
        service.refresh_once()
        service.refresh_once()
        pool.answers.clear()
        service.refresh_once()
    assert [record.getMessage() for record in caplog.records] == [
        "cm does not answer: refused; its last answer is kept",
        "cm answers again",
    ]
