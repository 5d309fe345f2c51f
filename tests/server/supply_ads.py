# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ads for tests of the supply: recorded ones (HTCondor 23.9.6), and a small collector to query."""

from __future__ import annotations

from pathlib import Path

import classad2
from glidein_demand.pool import supply
from glidein_demand.pool.slots import update_slot_states

from conftest import NOW

# A glidein of one core: its partitionable slot, and the dynamic slot of a job of one core and 512 MB.
RECORDED = (Path(__file__).parent / "data" / "slots-23.9.6.txt").read_text()

# The queried attributes of the negotiator's ad, in a pool where three idle jobs fit no slot.
NEGOTIATOR = {
    "LastNegotiationCycleTime0": NOW - 20, "LastNegotiationCycleTime1": NOW - 80,
    "LastNegotiationCycleTime2": NOW - 140,
    "LastNegotiationCycleNumIdleJobs0": 3, "LastNegotiationCycleNumIdleJobs1": 3, "LastNegotiationCycleNumIdleJobs2": 3,
    "LastNegotiationCycleRejections0": 1, "LastNegotiationCycleRejections1": 1, "LastNegotiationCycleRejections2": 1,
}  # fmt: skip


def recorded_ads():
    return [classad2.ClassAd(f"[{text.strip()}]".replace("\n", ";\n")) for text in RECORDED.strip().split("\n\n")]


class Collector:
    """A collector that answers `query` with ads as HTCondor's does: it applies constraint and projection."""

    def __init__(self, *machines, negotiators=()):
        self.ads = {"Startd": list(machines), "Negotiator": list(negotiators)}
        self.asked = []

    def __call__(self, adtype, constraint, projection):
        self.asked.append((adtype, constraint, projection))
        found = []
        for ad in self.ads[adtype]:
            scope = classad2.ClassAd(str(ad))
            scope["WhetherWanted"] = classad2.ExprTree(constraint)
            if scope.eval("WhetherWanted") is True:
                found.append(classad2.ClassAd({name: ad[name] for name in ad if not projection or name in projection}))
        return found


def supply_query(**changes):
    """Return the query of a refresh for the pool's machines."""
    state = {"slot_states": {}, "token_sites": [], "sampled": []}
    return {"type": "supply", "collector": "", "now": NOW, "vo": "", "token_vos": {}, **state, **changes}


def pool_of(slots, token_sites=()):
    return supply.classify_slots(slots, token_sites)


def summary(slots, negotiators=()):
    """Return the summary of the first reading."""
    slots = list(slots)
    return supply.summarise(pool_of(slots), negotiators, update_slot_states({}, slots), NOW)


def only_entry(*slots, **reading):
    (entry,) = summary(slots, **reading)["entries"]
    return entry
