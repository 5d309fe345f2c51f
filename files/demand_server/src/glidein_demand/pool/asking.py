# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of HTCondor: orders to queries of its daemons, and their answers to plain values.

Runs in the processes of queries.py only. Orders come from refresh.py; "what" names the query.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from . import autoclusters, factories, jobs, limits, removals, schedds, supply, waits

NO_PROC_ADS = 0x40
"""`fetch_NoProcAds` of HTCondor's query_result_type.h, which the bindings have no name for: no jobs, clusters only."""


MOST_DIVIDED = 5000
"""Rows of one answer up to which groups are divided by what callers asked for."""


def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to an order. An exception of any kind gives the reason why there is none."""
    if order["what"] == "check":
        jobs.references(order["constraint"])
        return {}
    import htcondor2

    htcondor2.reload_config()  # the fork server may have read it days ago
    _authenticate_where_asked(htcondor2.param)
    if order["what"] == "demand":
        return read_demand(order, _Schedd(order["address"]))
    if order["what"] == "waits":
        return waits.read(order, _Schedd(order["address"]).history)
    collector = htcondor2.Collector(order["collector"] or None)
    if order["what"] == "limits":
        return read_limits(collector)

    def query(adtype: str, constraint: str, projection: list[str]) -> list[Any]:
        return collector.query(getattr(htcondor2.AdType, adtype), constraint, projection)

    if order["what"] == "schedds":
        return {"schedds": schedds.found(_plain(query("Schedd", "true", list(schedds.ATTRIBUTES)), schedds.ATTRIBUTES))}
    return supply.read(order, query)


def read_limits(collector: Any) -> dict[str, Any]:
    """Return {"limits": the negotiator's Limits, "cycles": when its last negotiation cycles began (epoch seconds)}.

    None and [] when there is no negotiator, or several, which share the users. The collector's ad of the negotiator is
    up to five minutes old.
    """
    import htcondor2

    found = list(collector.query(htcondor2.AdType.Negotiator, projection=list(limits.NEGOTIATOR_ATTRIBUTES)))
    if len(found) != 1:
        return {"limits": None, "cycles": []}
    in_use = f"{limits.ATTRIBUTE} isnt undefined"
    slots = collector.query(htcondor2.AdType.Startd, in_use, [limits.ATTRIBUTE])
    configured = htcondor2.RemoteParam(found[0])
    names = [name for name in configured if limits.is_setting(name)]
    known = limits.read(
        htcondor2.Negotiator(found[0]).getPriorities(),
        {name: configured[name] for name in names},
        [text for slot in slots if isinstance(text := jobs.evaluate(slot, limits.ATTRIBUTE), str)],
    )
    itself = htcondor2.Collector(found[0]).query(htcondor2.AdType.Negotiator, projection=list(limits.CYCLES))
    return {
        "limits": known,
        "cycles": [ad[name] for ad in itself for name in limits.CYCLES if isinstance(ad.get(name), int)],
    }


def read_demand(order: dict[str, Any], schedd: Any) -> dict[str, Any]:
    """One part of a schedd's demand: {"groups", "unreadable", "limit", "left", "by_requirements"}.

    schedd: a _Schedd. groups, unreadable: see jobs.demand_groups; the others: see schedds.together.
    """
    extra, users, part = order["constraint"], order["users"], tuple(order["part"])
    attributes, runtime = order["attributes"], order["runtime_attributes"]
    rounding = jobs.Rounding(**order["rounding"])
    asked = list(dict.fromkeys([*attributes, *order.get("wanted", ())]))
    about = schedd.itself() if part[0] == 0 else {}
    needed = jobs.references(extra) if extra else []
    columns = jobs.projection(extra, asked, runtime)
    rows, by_requirements = autoclusters.rows(schedd, jobs.constraint(extra, users, part), columns, needed)
    if len(rows) > MOST_DIVIDED and asked != attributes:
        # What a caller asked for must not make each job a group of its own.
        asked, columns = attributes, jobs.projection(extra, attributes, runtime)
        rows, by_requirements = autoclusters.rows(schedd, jobs.constraint(extra, users, part), columns, needed)
    groups, unreadable = jobs.demand_groups(rows, rounding, asked, runtime)
    idle = sum(row["count"] for row in [*groups, *unreadable])
    if about.get("JobsUnmaterialized", 1) and part[0] == 0:
        ads = schedd.clusters(factories.constraint(extra, users))
        more, not_readable = factories.groups(ads, rounding, asked, runtime)
        groups, unreadable = groups + more, unreadable + not_readable
    limit, running = about.get("MaxJobsRunning"), about.get("ShadowsRunning", 0)
    return {
        "groups": groups,
        "unreadable": unreadable,
        "limit": limit,
        "left": None if limit is None else max(0, limit - running),
        "by_requirements": by_requirements,
        "attributes": list(asked),
        "queue": removals.queue_of(about),
        "idle": idle,
    }


class _Schedd:
    """The queries of one schedd. address: schedds.ADDRESS of its ad, so that the collector is not asked again."""

    def __init__(self, address: dict[str, Any]) -> None:
        import classad2
        import htcondor2

        self._htcondor = htcondor2
        self._ad = classad2.ClassAd(address)
        self._schedd = htcondor2.Schedd(self._ad)

    def itself(self) -> dict[str, int]:
        """The schedd's own numbers as of now; the collector's are up to five minutes old.

        ShadowsRunning is what the schedd compares with MAX_JOBS_RUNNING: running jobs that need a machine.
        Nothing else of this ad may leave here: beside its numbers the schedd may send a secret that lets its holder
        administer it (seen with 23.9).
        """
        names = ("MaxJobsRunning", "ShadowsRunning", "JobsUnmaterialized", *removals.ATTRIBUTES)
        ads = self._htcondor.Collector(self._ad).query(self._htcondor.AdType.Schedd, projection=list(names))
        own = next((ad for ad in ads if ad.get("Name") == self._ad["Name"]), {})
        return {name: own[name] for name in names if isinstance(own.get(name), int)}

    def first(self, constraint: str, projection: list[str]) -> Any:
        return next(iter(self._schedd.query(constraint, projection, limit=1)), None)

    def grouped(self, constraint: str, projection: list[str]) -> list[Any]:
        return self._schedd.query(constraint, projection, opts=self._htcondor.QueryOpts.GroupBy)

    def autoclusters(self) -> list[Any]:
        return self._schedd.query("true", [], opts=self._htcondor.QueryOpts.AutoCluster)

    def clusters(self, constraint: str) -> list[Any]:
        """Whole ads of clusters: their values may refer to any of their attributes."""
        return self._schedd.query(constraint, [], opts=self._htcondor.QueryOpts.IncludeClusterAd | NO_PROC_ADS)

    def history(self, constraint: str, projection: list[str], most: int, since: str) -> list[Any]:
        return self._schedd.history(constraint, projection, most, since or None)


def _plain(ads: Iterable[Any], names: Iterable[str]) -> list[dict[str, Any]]:
    names = tuple(names)
    return [{name: value for name in names if jobs.is_scalar(value := jobs.evaluate(ad, name))} for ad in ads]


def _authenticate_where_asked(param: MutableMapping[str, str]) -> None:
    """Authenticate to daemons that require it of readers, and not to those that do not.

    HTCondor's recommended configuration makes every client require authentication, reading or not. For a service
    without credentials that leaves FS, which fails for two reasons: it needs the daemon's /tmp, where the service has
    a private one, and these bindings (25.14) refuse it with schedds before 25 (SEC_FS_ENFORCE_CHANNEL_BINDING).
    A configuration that sets SEC_CLIENT_* for itself is left alone.
    """
    for what in ("AUTHENTICATION", "ENCRYPTION", "INTEGRITY"):
        name = f"SEC_CLIENT_{what}"
        if name not in param:
            param[name] = "OPTIONAL"
