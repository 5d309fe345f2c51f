# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies of get_demand that are made before they are asked for, outside of the process that answers requests.

The server sends what it knows as an order, make() carries it out in a process of the reader's, and the server keeps
what comes back without looking into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..pool import wire
from ..pool.whole import Reading, Whole
from . import replies

WHAT = "replies"


@dataclass(frozen=True)
class Variant:
    """What makes one reply differ from another. known: for callers with a token. held: {group id: jobs} of others."""

    known: bool
    held: Mapping[str, int]
    paused: bool


def value_of(whole: Whole, variant: Variant) -> dict[str, Any]:
    """The result of get_demand."""
    demand = whole.demand if variant.known else whole.demand_anonymous
    return replies.demand_for(demand, variant.held, variant.paused)


def order(whole: Whole, variants: Iterable[Variant]) -> dict[str, Any]:
    """Asks for the replies to `variants`."""
    readings = [{**asdict(reading), wire.TEXTS: len(reading.texts)} for reading in whole.readings]
    return {
        "what": WHAT,
        "readings": readings,
        "fresh_from": whole.fresh_from,
        "variants": [asdict(variant) for variant in variants],
        wire.TEXTS: [text for reading in whole.readings for text in reading.texts],
    }


def make(order: Mapping[str, Any]) -> dict[str, Any]:
    """Carry out an order: each variant's result, followed by its compressed replies to replies.USUAL_IDS."""
    texts = iter(order[wire.TEXTS])
    readings = [
        Reading(**{**reading, wire.TEXTS: tuple(next(texts) for _text in range(reading[wire.TEXTS]))})
        for reading in order["readings"]
    ]
    whole = Whole(readings, order["fresh_from"])
    made = []
    for variant in order["variants"]:
        result = replies.Result.of(value_of(whole, Variant(**variant)))
        made += [result.body, *(result.reply(identity, True) for identity in replies.USUAL_IDS)]
    return {wire.TEXTS: made}


def results(answer: Mapping[str, Any]) -> list[replies.Result]:
    """What make() made, in the order of the variants."""
    texts, each = answer[wire.TEXTS], 1 + len(replies.USUAL_IDS)
    return [
        replies.Result(texts[first], dict(zip(replies.USUAL_IDS, texts[first + 1 : first + each])))
        for first in range(0, len(texts), each)
    ]
