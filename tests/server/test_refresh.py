# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
import threading
import time

import pytest
from glidein_demand.reader import ReadError
from glidein_demand.refresh import Refresher, orders

from conftest import NOW, Service, group, new_state, settings

DEMAND = {"name": "cm", "groups": [group(5)], "unreadable": []}
SUPPLY = {"entries": [], "others": 2}


def good(order, timeout):
    return DEMAND if order["what"] == "demand" else SUPPLY


def test_one_order_for_each_schedd_and_one_for_the_collector():
    made = orders(settings(pool={"schedds": ["a", "b"], "collector": "cm:9618", "constraint": "X"}), NOW)
    assert [(order["what"], order.get("schedd")) for order in made] == [
        ("demand", "a"),
        ("demand", "b"),
        ("supply", None),
    ]
    assert {order["collector"] for order in made} == {"cm:9618"}


def test_without_names_the_local_schedd_is_read():
    assert [order["schedd"] for order in orders(settings(), NOW) if order["what"] == "demand"] == [""]


def test_a_refresh_puts_both_answers_in_the_state():
    state = new_state()
    Refresher(settings(), state, good, clock=lambda: NOW).refresh_once()
    assert (state.snapshot().demand["as_of"], state.snapshot().supply["as_of"]) == (NOW, NOW)


@pytest.mark.parametrize(
    ("failure", "shown"),
    [(ReadError("no answer within 60 s"), "no answer within 60 s"), (KeyError("groups"), "unexpected answer")],
)
def test_one_schedd_that_fails_does_not_keep_the_others_from_being_read(failure, shown):
    def read(order, timeout):
        if order.get("schedd") == "bad":
            raise failure
        return good(order, timeout)

    state = new_state()
    Refresher(settings(pool={"schedds": ["bad", "good"]}), state, read, clock=lambda: NOW).refresh_once()
    schedds = state.snapshot().demand["schedds"]
    assert (schedds["answered"], schedds["failed"][0]["name"]) == (["cm"], "bad")
    assert shown in schedds["failed"][0]["error"]
    assert state.snapshot().supply["error"] is None


def test_requests_are_answered_while_a_refresh_hangs():
    release, hanging = threading.Event(), threading.Event()

    def read(order, timeout):
        hanging.set()
        release.wait(30)
        return good(order, timeout)

    service = Service()
    refresher = Refresher(service.settings, service.state, read)
    refresher.start()
    try:
        assert hanging.wait(10)
        began = time.monotonic()
        assert service.result("get_demand")["as_of"] is None
        assert time.monotonic() - began < 5
    finally:
        release.set()
        refresher.stop(10)
    assert service.result("get_demand")["groups"][0]["count"] == 5


def test_the_thread_goes_on_after_failures():
    calls = []
    enough = threading.Event()

    def read(order, timeout):
        calls.append(order["what"])
        if calls.count("demand") >= 2:
            enough.set()
        raise RuntimeError("boom")

    refresher = Refresher(settings(pool={"refresh_seconds": 1}), new_state(), read)
    refresher.start()
    try:
        assert enough.wait(20)
    finally:
        refresher.stop(5)


def test_a_failure_is_logged_once_and_its_end_too(caplog):
    answers = [ReadError("refused"), ReadError("refused"), DEMAND]

    def read(order, timeout):
        if order["what"] == "supply":
            return SUPPLY
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    refresher = Refresher(settings(), new_state(), read, clock=lambda: NOW)
    with caplog.at_level("INFO"):
        for _unused in range(3):
            refresher.refresh_once()
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "the local schedd does not answer: refused; its last answer is kept",
        "the local schedd answers again",
    ]
