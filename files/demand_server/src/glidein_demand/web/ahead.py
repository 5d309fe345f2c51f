# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replies of get_demand and get_state that are made before they are asked for, outside of the process that answers.

The server sends what it knows as an order, a process of the reader's carries it out, and the server keeps what comes
back without looking into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..pool import wire
from ..pool.answers import Answer, Answers, Reading
from . import replies

WHAT = "replies"


@dataclass(frozen=True)
class Variant:
    """What makes one reply differ from another. known: for callers with a token. held: {group id: jobs} of others.

    method: get_demand or get_state; get_state needs `known`.
    """

    known: bool
    held: Mapping[str, int]
    paused: bool
    method: str = "get_demand"


def value_of(answers: Answers, variant: Variant) -> Any:
    """Return the result of the variant's method."""
    make = replies.state_for if variant.method == "get_state" else replies.demand_for
    return make(answers.demand(variant.known), variant.held, variant.paused)


def order(answers: Answers, variants: Iterable[Variant]) -> dict[str, Any]:
    """Asks for the replies to `variants`."""
    read = [reading.answer.texts if reading.answer else () for reading in answers.readings]
    readings = [
        {
            "name": reading.name,
            "as_of": reading.as_of,
            "error": reading.error,
            "parts": len(texts),
            "attributes": reading.attributes,
        }
        for reading, texts in zip(answers.readings, read)
    ]
    return {
        "what": WHAT,
        "readings": readings,
        "fresh_from": answers.fresh_from,
        "limits": answers.pool_limits,
        "variants": [
            {"known": one.known, "held": one.held, "paused": one.paused, "method": one.method} for one in variants
        ],
        wire.TEXTS: [text for texts in read for text in texts],
    }


def carry_out(order: Mapping[str, Any]) -> dict[str, Any]:
    """Each variant's result, followed by its compressed replies to replies.USUAL_IDS."""
    texts = iter(order[wire.TEXTS])
    readings = []
    for row in order["readings"]:
        answer = Answer([next(texts) for _part in range(row["parts"])]) if row["parts"] else None
        attributes = tuple(row["attributes"])
        readings.append(Reading(row["name"], row["as_of"], answer, row["error"], attributes=attributes))
    answers = Answers(readings, order["fresh_from"], order["limits"])
    made = []
    for variant in order["variants"]:
        result = replies.Result.of(value_of(answers, Variant(**variant)))
        made += [result.body, *(result.reply(identity, True) for identity in replies.USUAL_IDS)]
    return {wire.TEXTS: made}


def results_of(answer: Mapping[str, Any]) -> list[replies.Result]:
    """What carry_out() made, in the order of the variants."""
    texts, each = answer[wire.TEXTS], 1 + len(replies.USUAL_IDS)
    return [
        replies.Result(texts[first], dict(zip(replies.USUAL_IDS, texts[first + 1 : first + each])))
        for first in range(0, len(texts), each)
    ]
