# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which schedds there are to ask, and how: pure rules over what the collector knows of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ATTRIBUTES = ("Name", "MyAddress", "Machine", "CondorVersion", "MyType", "TotalIdleJobs", "LastHeardFrom")
"""What is asked of the collector for every schedd; an ad is a dict of these, evaluated, undefined ones left out."""

ADDRESS = ("Name", "MyAddress", "Machine", "CondorVersion", "MyType")
"""What of it is needed to ask a schedd."""

MANY_JOBS = 20_000
PARTS = 3


def found(ads: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """[{"name", "address": {attribute: value}, "idle": n}], by name; of two of the same name the one heard of last.

    An ad without name or address is of no use and left out.
    """
    by_name: dict[str, Mapping[str, Any]] = {}
    for ad in sorted(ads, key=lambda ad: _whole(ad, "LastHeardFrom")):
        if isinstance(ad.get("Name"), str) and isinstance(ad.get("MyAddress"), str):
            by_name[ad["Name"]] = ad
    return [
        {
            "name": name,
            "address": {key: ad[key] for key in ADDRESS if key in ad},
            "idle": _whole(ad, "TotalIdleJobs"),
        }
        for name, ad in sorted(by_name.items())
    ]


def select(known: Iterable[dict[str, Any]], names: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
    """(The schedds to ask, the names that the collector does not know); no names: all. Case does not matter."""
    known, wanted = list(known), {name.lower(): name for name in names}
    if not wanted:
        return known, []
    chosen = [schedd for schedd in known if schedd["name"].lower() in wanted]
    there = {schedd["name"].lower() for schedd in chosen}
    return chosen, [name for lower, name in wanted.items() if lower not in there]


def parts(idle: int, by_requirements: bool, processors: int) -> int:
    """Into how many parts, asked for at the same time, a schedd with so many idle jobs is divided.

    by_requirements: it had to group them by Requirements the last time (see autoclusters.py), which takes more than a
    second for 100,000 jobs. The schedd answers each part from a process of its own: all walk over all jobs, but each
    groups its own only, and that is most of the work. Those processes are as urgent to the kernel as a request is, and
    the schedd is usually on this host: one of its `processors` is left to requests.
    """
    return max(1, min(PARTS, processors - 1)) if by_requirements and idle >= MANY_JOBS else 1


def together(answers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one answer out of those of all parts, at least one: {"groups", "unreadable", "limit", "left"}.

    limit, left: MAX_JOBS_RUNNING and what it leaves; None is no limit. The first part tells them.
    """
    answers = list(answers)
    first = answers[0]
    return {
        "groups": [group for answer in answers for group in answer["groups"]],
        "unreadable": [row for answer in answers for row in answer["unreadable"]],
        "limit": first.get("limit"),
        "left": first.get("left"),
    }


def _whole(ad: Mapping[str, Any], name: str) -> int:
    value = ad.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
