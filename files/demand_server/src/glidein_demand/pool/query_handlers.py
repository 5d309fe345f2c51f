# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The handlers of queries: each asks HTCondor's daemons, and returns plain values.

Runs in the processes of queries.py only. A query's "type" selects the handler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from . import accounting_limits, autoclusters, job_facts, jobs, schedds, supply
from .schedds import Schedd

MAX_DIVIDED = 5000
"""The most rows of one result that are grouped by the attributes that callers requested."""

OF_USER = ("owner", "user")


def run_query(query: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a query. Any exception is a failure of the query, and its text is the reason."""
    if query["type"] == "check":
        jobs.references(query["constraint"])
        return {}
    import htcondor2

    htcondor2.reload_config()  # the fork server may have read the configuration days ago
    _make_authentication_optional(htcondor2.param)
    of_schedd: dict[str, Callable[[Mapping[str, Any], Schedd], dict[str, Any]]] = {
        "demand": read_demand,
        "job": job_facts.read,
        "job_history": job_facts.read_history,
    }
    if query["type"] in of_schedd:
        return of_schedd[query["type"]](query, Schedd(query["address"]))
    collector = htcondor2.Collector(query["collector"] or None)
    if query["type"] == "limits":
        return read_limits(collector)

    def fetch_ads(adtype: str, constraint: str, projection: list[str]) -> list[Any]:
        return collector.query(getattr(htcondor2.AdType, adtype), constraint, projection)

    if query["type"] == "schedds":
        ads = [jobs.plain(ad, schedds.ATTRIBUTES) for ad in fetch_ads("Schedd", "true", list(schedds.ATTRIBUTES))]
        return {"schedds": schedds.of_pool(ads), "gateways": schedds.gateways(ads)}
    return supply.read(query, fetch_ads)


def read_limits(collector: Any) -> dict[str, Any]:
    """Return {"limits": the negotiator's Limits, "cycles": when its last negotiation cycles began (epoch seconds)}.

    The result is None and [] without a negotiator, or if several negotiators share the users. The cycles are read
    from the negotiator, because the collector's ad of it is up to five minutes old.
    """
    import htcondor2

    negotiators = list(collector.query(htcondor2.AdType.Negotiator, projection=list(schedds.ADDRESS)))
    if len(negotiators) != 1:
        return {"limits": None, "cycles": []}
    in_use = f"{accounting_limits.ATTRIBUTE} isnt undefined"
    slots = collector.query(htcondor2.AdType.Startd, in_use, [accounting_limits.ATTRIBUTE])
    configured = htcondor2.RemoteParam(negotiators[0])
    names = [name for name in configured if accounting_limits.is_setting(name)]
    limits = accounting_limits.read(
        htcondor2.Negotiator(negotiators[0]).getPriorities(),
        {name: configured[name] for name in names},
        [text for slot in slots if isinstance(text := jobs.evaluate(slot, accounting_limits.ATTRIBUTE), str)],
    )
    own_ads = htcondor2.Collector(negotiators[0]).query(
        htcondor2.AdType.Negotiator, projection=list(accounting_limits.CYCLES)
    )
    return {
        "limits": limits,
        "cycles": [ad[name] for ad in own_ads for name in accounting_limits.CYCLES if isinstance(ad.get(name), int)],
    }


def read_demand(query: Mapping[str, Any], schedd: Schedd) -> dict[str, Any]:
    """Return a schedd's demand: {"groups", "unreadable", "limit", "left", "attributes"}.

    groups, unreadable: see jobs.demand_groups. limit, left: MAX_JOBS_RUNNING and the number of jobs below it; None: no
    limit.
    """
    extra, users = query["constraint"], query["users"]
    attributes, runtime = query["attributes"], query["runtime_attributes"]
    divided_by = list(dict.fromkeys([*attributes, *query["requested_attributes"]]))
    about = schedd.own_counters()
    needed = jobs.references(extra) if extra else []

    def grouped() -> list[Any]:
        columns = jobs.projection(extra, divided_by, runtime)
        return autoclusters.rows(schedd, jobs.constraint(extra, users), columns, needed)

    rows = grouped()
    # Requested attributes must not make each job a separate group. The user cannot: each row is of one user already.
    fewest = [name for name in divided_by if name in attributes or name.lower() in OF_USER]
    if len(rows) > MAX_DIVIDED and divided_by != fewest:
        divided_by = fewest
        rows = grouped()
    groups, unreadable = jobs.demand_groups(rows, divided_by, runtime)
    if about.get("JobsUnmaterialized", 1):
        ads = schedd.clusters(jobs.factory_constraint(extra, users))
        more, not_readable = jobs.factory_groups(ads, divided_by, runtime)
        groups, unreadable = groups + more, unreadable + not_readable
    limit, running = about.get("MaxJobsRunning"), about.get("ShadowsRunning", 0)
    return {
        "groups": groups,
        "unreadable": unreadable,
        "limit": limit,
        "left": None if limit is None else max(0, limit - running),
        "attributes": divided_by,
    }


def _make_authentication_optional(param: MutableMapping[str, str]) -> None:
    """Authenticate only to daemons that require authentication of readers. A configured SEC_CLIENT_* is not changed.

    HTCondor's recommended configuration makes every client require authentication. A service without credentials can
    then use only FS, which fails for two reasons. FS needs the daemon's /tmp, and the service has a private one. These
    bindings (25.14) also refuse FS with schedds before 25 (SEC_FS_ENFORCE_CHANNEL_BINDING).
    """
    for feature in ("AUTHENTICATION", "ENCRYPTION", "INTEGRITY"):
        name = f"SEC_CLIENT_{feature}"
        if name not in param:
            param[name] = "OPTIONAL"
