# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schedds in the collector: those with the pool's jobs, and gateways, which have pilots in their queues.

An ad is a dict of evaluated values without undefined ones. Only `Schedd` runs in the processes of queries.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .slots import number, positive_int

Ad = Mapping[str, Any]
Row = Mapping[str, Any]

ADDRESS = ("Name", "MyAddress", "Machine", "CondorVersion", "MyType")
"""The attributes that a connection to a daemon needs."""

_STARTS = {"jobs_started": "RecentJobsStarted", "start_wait_s": "RecentJobsAccumTimeToStart"}
_COUNTS = {"idle": "GatewayJobsIdle", "running": "GatewayJobsRunning", "held": "GatewayJobsHeld"}

ATTRIBUTES = (
    *ADDRESS, "LastHeardFrom", "is_glidein", "GLIDEIN_Site", "AuthenticatedIdentity",
    *_STARTS.values(), *_COUNTS.values(),
)  # fmt: skip
"""The attributes of a schedd's ad that are read."""

MAX_TEXT = 200
"""The most characters of a text of a gateway's ad."""

MAX_GATEWAYS = 1000
"""The most gateways that are kept. The ads come from login nodes, which may be compromised."""

LATE_S = 300
"""A gateway sends its ad each minute. After this time without one, it is late."""

_PREFIX = "gateway-"
"""The beginning of the identity of a gateway's token, gateway-SITE@DOMAIN."""


NO_PROC_ADS = 0x40
"""`fetch_NoProcAds` of HTCondor's query_result_type.h: only the ads of clusters. The bindings have no name for it."""


class Starts(NamedTuple):
    """The jobs whose first start was in the last 20 minutes, and the sum of their waits before it in seconds.

    The 20 minutes are the default of HTCondor's STATISTICS_WINDOW_SECONDS. as_of: the time of the query.
    """

    as_of: int
    jobs_started: int
    start_wait_s: int


class Schedd:
    """The queries of one schedd. address: schedds.ADDRESS of its ad; with it, no query of the collector is needed."""

    def __init__(self, address: dict[str, Any]) -> None:
        import classad2
        import htcondor2

        self._htcondor = htcondor2
        self._ad = classad2.ClassAd(address)
        self._schedd = htcondor2.Schedd(self._ad)

    def own_counters(self) -> dict[str, int]:
        """Return the schedd's present counters; those in the collector's ad are up to five minutes old.

        The schedd compares ShadowsRunning, the running jobs that need a machine, with MAX_JOBS_RUNNING.
        Return no other attribute of this ad: the schedd may send with it a secret that allows its holder to
        administer the schedd (seen with 23.9).
        """
        names = ("MaxJobsRunning", "ShadowsRunning", "JobsUnmaterialized")
        ads = self._htcondor.Collector(self._ad).query(self._htcondor.AdType.Schedd, projection=list(names))
        own: Mapping[str, Any] = next((ad for ad in ads if ad.get("Name") == self._ad["Name"]), {})
        return {name: own[name] for name in names if isinstance(own.get(name), int)}

    def first(self, constraint: str, projection: list[str]) -> Any:
        """Return one job that satisfies the constraint, or None."""
        return next(iter(self._schedd.query(constraint, projection, limit=1)), None)

    def grouped(self, constraint: str, projection: list[str]) -> list[Any]:
        """Return one ad for each combination of values, with JobCount and JobIds (QueryOpts.GroupBy)."""
        return self._schedd.query(constraint, projection, opts=self._htcondor.QueryOpts.GroupBy)

    def autoclusters(self) -> list[Any]:
        """Return one ad for each autocluster of the schedd (QueryOpts.AutoCluster)."""
        return self._schedd.query("true", [], opts=self._htcondor.QueryOpts.AutoCluster)

    def clusters(self, constraint: str) -> list[Any]:
        """Return complete ads of clusters: their values may refer to any of their attributes."""
        return self._schedd.query(constraint, [], opts=self._htcondor.QueryOpts.IncludeClusterAd | NO_PROC_ADS)

    def ended(self, constraint: str, projection: list[str]) -> Any:
        """Return the newest ended job that satisfies the constraint, or None."""
        return next(iter(self._schedd.history(constraint, projection, 1)), None)


def of_pool(ads: Iterable[Ad]) -> list[dict[str, Any]]:
    """Return the schedds that are not gateways, by name.

    [{"name", "address": {attribute: value}, "jobs_started": n, "start_wait_s": s}]. The last two are those of `Starts`,
    and None if the ad does not have them.
    """
    return [
        {
            "name": name,
            "address": {key: ad[key] for key in ADDRESS if key in ad},
            **{key: number(ad, attribute) for key, attribute in _STARTS.items()},
        }
        for name, ad in _newest(ad for ad in ads if isinstance(ad.get("MyAddress"), str) and not _is_gateway(ad))
    ]


def select(known: Iterable[dict[str, Any]], names: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return (the schedds with these names, the names without a schedd). No names: all schedds. Case is ignored."""
    known, wanted = list(known), {name.lower(): name for name in names}
    if not wanted:
        return known, []
    chosen = [schedd for schedd in known if schedd["name"].lower() in wanted]
    present = {schedd["name"].lower() for schedd in chosen}
    return chosen, [name for lower, name in wanted.items() if lower not in present]


def starts(rows: Iterable[Row], as_of: int) -> Starts | None:
    """Return the sums over the schedds, rows of `of_pool`; None if no ad has the attributes."""
    known = [[row[key] for key in _STARTS] for row in rows if None not in (row[key] for key in _STARTS)]
    return Starts(as_of, *map(sum, zip(*known))) if known else None


def gateways(ads: Iterable[Ad]) -> list[dict[str, Any]]:
    """Return [{"name", "site", "version", "idle", "running", "held", "last_contact"}] by name.

    A count is None if the ad does not have it.
    """
    return [
        {
            "name": name[:MAX_TEXT],
            "site": _site(ad)[:MAX_TEXT],
            "version": _version(ad.get("CondorVersion")),
            **{key: number(ad, attribute) for key, attribute in _COUNTS.items()},
            "last_contact": number(ad, "LastHeardFrom"),
        }
        for name, ad in _newest(filter(_is_gateway, ads))[:MAX_GATEWAYS]
    ]


def merge_gateways(known: Iterable[Row], rows: Iterable[Row], now: float, forget_s: float) -> tuple[Row, ...]:
    """Return the gateways by name after the collector has returned `rows` at the time `now`.

    Each has a "state": "running", "late" or "gone". A known gateway that the collector does not have any longer is
    gone, and is forgotten `forget_s` seconds after its last contact.
    """
    present = {}
    for row in rows:
        late = now - (row["last_contact"] or 0) > LATE_S
        present[row["name"]] = {**row, "state": "late" if late else "running"}
    gone = {
        row["name"]: {**row, "state": "gone"}
        for row in known
        if row["name"] not in present and now - (row["last_contact"] or 0) < forget_s
    }
    return tuple(row for _name, row in sorted({**gone, **present}.items()))


def _newest(ads: Iterable[Ad]) -> list[tuple[str, Ad]]:
    """Return (name, its newest ad), sorted by name. An ad without a name is ignored."""
    by_name = {}
    for ad in sorted(ads, key=lambda ad: positive_int(ad, "LastHeardFrom")):
        if isinstance(ad.get("Name"), str):
            by_name[ad["Name"]] = ad
    return sorted(by_name.items())


def _is_gateway(ad: Ad) -> bool:
    """Return whether the ad of a schedd is one of a gateway. Its jobs are pilots, not demand.

    The collector adds the identity. An ad with a gateway's token is one of a gateway, whatever the ad claims.
    """
    return ad.get("is_glidein") is True or str(ad.get("AuthenticatedIdentity")).startswith(_PREFIX)


def _site(ad: Ad) -> str:
    identity = str(ad.get("AuthenticatedIdentity") or "")
    if identity.startswith(_PREFIX):
        return identity[len(_PREFIX) :].rpartition("@")[0]
    return str(ad.get("GLIDEIN_Site") or "")


def _version(text: Any) -> str:
    """Return the version in "$CondorVersion: 23.9.6 2026-07-12 $"; "" for another text."""
    words = text.split() if isinstance(text, str) else []
    return words[1][:MAX_TEXT] if len(words) > 1 and words[0] == "$CondorVersion:" else ""
