# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of one schedd. It runs in the processes of queries.py only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NO_PROC_ADS = 0x40
"""`fetch_NoProcAds` of HTCondor's query_result_type.h: only the ads of clusters. The bindings have no name for it."""


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

    def history(self, constraint: str, projection: list[str], most: int, since: str) -> list[Any]:
        """Return the newest ended jobs, at most `most`, up to the one for which the expression `since` is true."""
        if since:
            return self._schedd.history(constraint, projection, most, since)
        return self._schedd.history(constraint, projection, most)
