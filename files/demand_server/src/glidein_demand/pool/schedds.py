# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selection of the schedds to query, and division of their queries: pure functions of the collector's ads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import gateways

ATTRIBUTES = ("Name", "MyAddress", "Machine", "CondorVersion", "MyType", "TotalIdleJobs", "LastHeardFrom")
"""The attributes of a schedd's ad that are read. An ad is a dict of evaluated values without undefined ones."""

ADDRESS = ("Name", "MyAddress", "Machine", "CondorVersion", "MyType")
"""The attributes that a connection to a schedd needs."""

MANY_JOBS = 20_000
MAX_PARTS = 3


def from_ads(ads: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return [{"name", "address": {attribute: value}, "idle": n}] by name; of ads of one name, the newest.

    An ad without name or address is ignored, and so is the ad of a gateway.
    """
    by_name: dict[str, Mapping[str, Any]] = {}
    for ad in sorted(ads, key=lambda ad: _positive_integer(ad, "LastHeardFrom")):
        if not gateways.is_gateway(ad) and isinstance(ad.get("Name"), str) and isinstance(ad.get("MyAddress"), str):
            by_name[ad["Name"]] = ad
    return [
        {
            "name": name,
            "address": {key: ad[key] for key in ADDRESS if key in ad},
            "idle": _positive_integer(ad, "TotalIdleJobs"),
        }
        for name, ad in sorted(by_name.items())
    ]


def select(known: Iterable[dict[str, Any]], names: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return (the schedds with these names, the names without a schedd). No names: all schedds. Case is ignored."""
    known, wanted = list(known), {name.lower(): name for name in names}
    if not wanted:
        return known, []
    chosen = [schedd for schedd in known if schedd["name"].lower() in wanted]
    present = {schedd["name"].lower() for schedd in chosen}
    return chosen, [name for lower, name in wanted.items() if lower not in present]


def number_of_parts(idle: int, by_requirements: bool, processors: int) -> int:
    """Return the number of parallel queries into which the query of a schedd with `idle` jobs is divided.

    by_requirements: the last query grouped jobs by Requirements (see autoclusters.py), which takes more than a second
    for 100,000 jobs. The schedd processes each part in a separate process. Each process reads all jobs, but groups only
    the jobs of its part, and grouping is most of the work. The schedd is usually on this host, and its processes have
    the same priority as the server: one of the `processors` is left for requests.
    """
    return max(1, min(MAX_PARTS, processors - 1)) if by_requirements and idle >= MANY_JOBS else 1


def merge_parts(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one result for the results of all parts, at least one: {"groups", "unreadable", "limit", "left"}.

    limit, left: MAX_JOBS_RUNNING and the number of jobs below it, both from the first part; None: no limit.
    """
    results = list(results)
    first = results[0]
    return {
        "groups": [group for result in results for group in result["groups"]],
        "unreadable": [row for result in results for row in result["unreadable"]],
        "limit": first.get("limit"),
        "left": first.get("left"),
    }


def _positive_integer(ad: Mapping[str, Any], name: str) -> int:
    value = ad.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
