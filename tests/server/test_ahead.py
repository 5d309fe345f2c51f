# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies that are made ahead, in a process of the reader's: the same as those that are made here."""

import gzip
import json
import math
from itertools import product

import pytest
from glidein_demand import waiting
from glidein_demand.pool import answers
from glidein_demand.pool.reader import Reader, ReadError
from glidein_demand.web import ahead, replies

from conftest import NOW, TOKEN, demand_answer, group, site_report

ONE, TWO = group(5, requirements='Owner == "alice"'), group(3, cpus=8)
UNREADABLE = {"count": 1, "first_job": "1.0", "attribute": "RequestMemory", "error": "RequestMemory is secret"}
LEASE = {"site": "PSC", "entries": {"RM": {TWO["id"]: 2}}}
CALL = {"jsonrpc": "2.0", "method": "get_demand", "params": {}, "id": 1}
GZIP = {"Accept-Encoding": "gzip"}


@pytest.fixture(scope="module")
def reader():
    with Reader() as found:
        yield found


def pool():
    """A schedd in two parts, beyond its limit; one that was read long ago and does not answer; one never read."""

    def answer(*parts):
        return answers.Answer([text for part in parts for text in part["texts"]])

    return answers.Answers(
        [
            answers.Reading("c", error="refused"),
            answers.Reading("b", NOW - 9000, answer(demand_answer([TWO])), error="no answer"),
            answers.Reading(
                "a", NOW, answer(demand_answer([ONE], [UNREADABLE], limit=10, left=6), demand_answer([TWO]))
            ),
        ],
        NOW - 900,
    )


def test_another_process_makes_what_would_be_made_here(reader):
    known = pool()
    held = ({}, {TWO["id"]: 2})
    variants = [ahead.Variant(*one) for one in product((True, False), held, (True, False))]
    variants += [ahead.Variant(True, *one, "get_state") for one in product(held, (True, False))]
    made = ahead.results_of(reader.read(ahead.order(known, variants), timeout=60))
    assert len(made) == len(variants)
    for variant, result in zip(variants, made):
        here = replies.Result.of(ahead.value_of(known, variant))
        assert (result.body, result.etag, result.value) == (here.body, here.etag, here.value)
        for identity in (*replies.USUAL_IDS, "7", None):
            assert result.reply(identity, False) == here.reply(identity, False)
            assert gzip.decompress(result.reply(identity, True)) == here.reply(identity, False)


def test_without_anything_read_nothing_is_known(reader):
    order = ahead.order(answers.Answers([], math.inf), [ahead.Variant(True, {}, False)])
    (made,) = ahead.results_of(reader.read(order, timeout=60))
    assert (made.value["as_of"], made.value["groups"]) == (None, [])


@pytest.fixture
def looked_into(monkeypatch):
    """How often this process had to look into what schedds answered: a list that grows."""
    calls, together = [], answers.schedds.together
    monkeypatch.setattr(answers.schedds, "together", lambda *given: calls.append(1) or together(*given))
    return calls


def test_the_server_looks_into_nothing_to_answer_what_was_asked_before(service, reader, looked_into):
    """With and without token, with what others hold taken off, compressed, and without waiting for anything."""
    many = [group(1, memory_mb=number, requirements="x" * 100) for number in range(300)]
    service.read(ONE, TWO, *many)
    service.result("lease", LEASE, TOKEN)
    for token in (TOKEN, None):
        service.result("get_demand", token=token)
    service.read(ONE, group(4, cpus=8), *many)
    looked_into.clear()
    service.views.publish(reader.read)
    counts = []
    for token in (TOKEN, None):
        with waiting.forbidden():
            reply = service.call("get_demand", token=token, headers=GZIP)
        groups = json.loads(gzip.decompress(reply.data))["result"]["groups"]
        counts.append({row["cpus"]: row["count"] for row in groups if row["count"] > 1})
    assert counts == [{1: 5, 8: 4}, {1: 5, 8: 2}]
    assert service.get("/healthz").json["status"] == "ok"
    assert looked_into == []


def test_it_looks_into_an_answer_once_whatever_changes_beside_it(service, looked_into):
    service.read(ONE, schedd="a")
    for number in range(5):
        service.read(TWO, schedd="b")
        service.readings.demand_failed("c", f"error {number}")
        service.result("get_demand")
        service.get("/metrics")
        service.page()
    assert len(looked_into) == 1 + 5


def test_the_history_looks_at_the_demand_when_it_is_to_be_kept_only(service, looked_into):
    service.read(ONE)
    assert [service.recorder.record(), service.recorder.record()] == [True, False]
    service.read(TWO)
    assert (service.recorder.record(), len(looked_into)) == (False, 1)
    service.now += 300
    assert (service.recorder.record(), len(looked_into)) == (True, 2)


def test_a_lease_that_ends_later_is_given_back_in_what_was_made_ahead(service, reader):
    service.read(TWO)
    service.result("lease", {**LEASE, "ttl_s": 60}, TOKEN)
    service.result("get_demand")
    service.views.publish(reader.read)
    counts = []
    for service.now in (NOW + 59, NOW + 60):
        counts.append(service.result("get_demand")["groups"][0]["count"])
    assert counts == [1, 3]


def test_what_has_become_the_same_is_made_once_and_what_was_asked_for_last_comes_first(service):
    """Sites that held something when they asked differ then; here they do not any more."""
    orders = []

    def carry_out(order, _timeout):
        orders.append(order)
        return ahead.carry_out(order)

    service.read(ONE, TWO)
    service.result("lease", {**LEASE, "ttl_s": 60}, TOKEN)
    for token, sites in ((TOKEN, ["PSC"]), (TOKEN, []), (None, [])):
        service.result("get_demand", {"sites": sites}, token)
    service.now += 60
    service.views.publish(carry_out)
    assert [[one["known"] for one in order["variants"]] for order in orders] == [[False, True]]


def test_many_are_made_a_few_at_a_time(service):
    numbers = range(10)
    for number in numbers:
        service.token(f"S{number}")
    service.read(group(100))
    for number in numbers:
        claim = {"site": f"S{number}", "entries": {"q": {group()["id"]: number + 1}}}
        service.parts.leases.claim(claim["site"], claim["entries"], 600, {group()["id"]: 100}, False)
    for number in numbers:
        service.result("get_demand", {"sites": [f"S{number}"]})
    sizes = []

    def carry_out(order, _timeout):
        sizes.append(len(order["variants"]))
        return ahead.carry_out(order)

    service.views.publish(carry_out)
    assert sizes == [4, 4, 2]


def test_what_cannot_be_made_ahead_is_published_all_the_same_and_made_when_it_is_asked_for(service, caplog):
    def fail(_order, _timeout):
        raise ReadError("no answer within 2 s")

    for count in (5, 6, 7):
        service.read(group(count))
        service.views.publish(fail)
        assert service.result("get_demand")["groups"][0]["count"] == count
    (record,) = caplog.records  # said once; the first time nobody had asked for anything
    assert "cannot be made ahead: no answer within 2 s" in record.getMessage()


def test_callers_never_go_back_to_what_is_older(service):
    """While replies are made ahead, for long, what was read becomes stale, and callers are told."""
    service.read(group(5))
    service.views.publish(None)  # nobody has asked for anything
    service.result("get_demand")
    seen = []

    def carry_out(order, _timeout):
        service.now += service.settings.max_age_seconds + 1
        service.views._newer_since = -math.inf  # as if callers had waited for longer than they do
        seen.append(service.result("get_demand")["groups"][0]["stale"])
        return ahead.carry_out(order)

    service.views.publish(carry_out)
    seen.append(service.result("get_demand")["groups"][0]["stale"])
    assert seen == [5, 5]


def test_a_report_changes_nothing_in_the_demand_that_was_made(service, reader, looked_into):
    service.read(ONE)
    service.result("get_demand")
    service.views.publish(reader.read)
    looked_into.clear()
    service.result("report", site_report(), TOKEN)
    service.result("get_demand")
    assert looked_into == []
