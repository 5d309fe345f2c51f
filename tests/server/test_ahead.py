# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies that are made ahead, in a process of the reader's: the same as those that are made here."""

import gzip
import json
from itertools import product

import pytest
from glidein_demand.pool.reader import Reader
from glidein_demand.pool.whole import Reading, Whole
from glidein_demand.web import ahead, replies

from conftest import NOW, TOKEN, demand_answer, group

ONE, TWO = group(5, requirements='Owner == "alice"'), group(3, cpus=8)
UNREADABLE = {"count": 1, "first_job": "1.0", "attribute": "RequestMemory", "error": "RequestMemory is secret"}
LEASE = {"site": "PSC", "entries": {"RM": {TWO["id"]: 2}}}
CALL = {"jsonrpc": "2.0", "method": "get_demand", "params": {}}


@pytest.fixture(scope="module")
def carry_out():
    with Reader() as reader:
        yield lambda order: reader.read(order, timeout=60)


def whole():
    """A schedd in two parts, beyond its limit; one that was read long ago and does not answer; one never read."""
    parts = [*demand_answer([ONE], [UNREADABLE], limit=10, left=6)["texts"], *demand_answer([TWO])["texts"]]
    return Whole(
        [
            Reading("a", NOW, tuple(parts)),
            Reading("b", NOW - 9000, tuple(demand_answer([TWO])["texts"]), error="no answer"),
            Reading("c", error="refused"),
        ],
        NOW - 900,
    )


def test_another_process_makes_what_would_be_made_here(carry_out):
    known = whole()
    variants = [ahead.Variant(*one) for one in product((True, False), ({}, {TWO["id"]: 2}), (True, False))]
    made = ahead.results(carry_out(ahead.order(known, variants)))
    assert len(made) == len(variants)
    for variant, result in zip(variants, made):
        here = replies.Result.of(ahead.value_of(known, variant))
        assert (result.body, result.etag) == (here.body, here.etag)
        for identity in (*replies.USUAL_IDS, "7", None):
            assert result.reply(identity, False) == here.reply(identity, False)
            assert gzip.decompress(result.reply(identity, True)) == here.reply(identity, False)


def test_without_anything_read_nothing_is_known(carry_out):
    (made,) = ahead.results(carry_out(ahead.order(Whole([], 0), [ahead.Variant(True, {}, False)])))
    assert (made.value["as_of"], made.value["groups"]) == (None, [])


def test_the_server_looks_into_nothing_to_answer_what_was_asked_before(service, carry_out, monkeypatch):
    """With and without token, with what others hold taken off."""
    service.read(ONE, TWO)
    service.result("lease", LEASE, TOKEN)
    for token in (TOKEN, None):
        service.result("get_demand", token=token)
    service.read(ONE, group(4, cpus=8))
    service.views.publish(carry_out)
    monkeypatch.setattr(ahead, "value_of", None)
    counts = [
        {row["cpus"]: row["count"] for row in service.result("get_demand", token=token)["groups"]}
        for token in (TOKEN, None)
    ]
    assert counts == [{1: 5, 8: 4}, {1: 5, 8: 2}]
    compressed = service.post({**CALL, "id": 1}, headers={"Accept-Encoding": "gzip"})
    assert json.loads(gzip.decompress(compressed.data))["result"] == service.result("get_demand")


def test_the_health_is_known_without_looking_into_the_answers(service, monkeypatch):
    service.read(ONE)
    monkeypatch.setattr(Whole, "demand", None)
    assert service.get("/healthz").json["status"] == "ok"
