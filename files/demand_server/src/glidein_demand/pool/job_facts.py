# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts about one job, from its ad: its state, its demand group, and the attributes that keep it from starting.

Runs in the processes of queries.py only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import classad2

from . import jobs
from .schedds import Schedd

MAX_TEXT = 500
"""The longest text of a job that is returned, such as the reason of a hold."""

# {key of the facts: (attribute of the job, type)}.
_VALUES: Mapping[str, tuple[str, type]] = {
    "status": ("JobStatus", int),
    "universe": ("JobUniverse", int),
    "user": ("User", str),
    "queued_at": ("QDate", int),
    "since": ("EnteredCurrentStatus", int),
    "host": ("RemoteHost", str),
    "hold_reason": ("HoldReason", str),
    "remove_reason": ("RemoveReason", str),
    "exit_status": ("ExitCode", int),
    "deferred_until": ("DeferralTime", int),
    "deferral_prep_s": ("DeferralPrepTime", int),
    "cool_down_until": ("JobCoolDownExpiration", int),
    "rejected": ("LastRejMatchReason", str),
    "rejected_at": ("LastRejMatchTime", int),
}

HISTORY_ATTRIBUTES = ["ClusterId", "ProcId", *(attribute for attribute, _type in _VALUES.values())]


def read(query: Mapping[str, Any], schedd: Schedd) -> dict[str, Any]:
    """Return {"facts": the facts about the job query["cluster"].query["proc"], or None if the queue does not have it}.

    The query has the settings of queries.demand_query, like the query of the schedd's demand.
    """
    cluster, proc = int(query["cluster"]), int(query["proc"])
    ad = schedd.first(jobs.is_job(cluster, proc), [])
    if ad is not None:
        ad["JobCount"], ad["JobIds"] = 1, f"{cluster}.{proc}"
        return {"facts": _facts(ad, "queue", query, jobs.demand_groups)}
    for factory in schedd.clusters(f"ClusterId == {cluster} && JobMaterializeDigestFile isnt undefined"):
        startable, waiting = jobs.unmaterialized_jobs(factory)
        first = jobs.evaluate(factory, "JobMaterializeNextProcId")
        if isinstance(first, int) and first <= proc < first + startable + waiting:
            facts = _facts(factory, "factory", query, jobs.factory_groups)
            # The cluster's ad has the first item's values.
            of_items = {"group": None, "unreadable": None} if "JobMaterializeItemsFile" in factory else {}
            return {"facts": {**facts, **of_items, "status": 1}}
    return {"facts": None}


def read_history(query: Mapping[str, Any], schedd: Schedd) -> dict[str, Any]:
    """Return {"facts"} as `read` does, of a job that has left the queue."""
    ad = schedd.ended(jobs.is_job(query["cluster"], query["proc"]), HISTORY_ATTRIBUTES)
    if ad is None:
        return {"facts": None}
    return {"facts": {**_values(ad), "place": "history", "group": None, "unreadable": None, "excluded_by": []}}


def _facts(ad: classad2.ClassAd, place: str, query: Mapping[str, Any], groups_of: Callable[..., Any]) -> dict[str, Any]:
    groups, unreadable = groups_of([ad], query["attributes"], query["runtime_attributes"])
    return {
        **_values(ad),
        "place": place,
        "group": groups[0] if groups else None,
        "unreadable": unreadable[0] if unreadable else None,
        "excluded_by": _excluded_by(ad, query),
    }


def _excluded_by(ad: classad2.ClassAd, query: Mapping[str, Any]) -> list[str]:
    """Return the names of jobs.NOT_OFFERED and of the server's settings by which the job is no demand."""
    # `|| false`: a number is a truth value, too.
    not_offered = {name: f"({test} || false) isnt true" for name, test in jobs.NOT_OFFERED.items()}
    settings = {"pool.users": jobs.users_constraint(query["users"]), "pool.constraint": query["constraint"]}
    tests = {**not_offered, **settings}
    return [name for name, test in tests.items() if test and classad2.ExprTree(test).eval(ad) is not True]


def _values(ad: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of _VALUES; None for a value that is missing or of another type."""
    found: dict[str, Any] = {}
    for key, (attribute, kind) in _VALUES.items():
        value = jobs.evaluate(ad, attribute)
        fits = isinstance(value, kind) and not isinstance(value, (bool, classad2.Value))
        found[key] = (value[:MAX_TEXT] if isinstance(value, str) else value) if fits else None
    return found
