# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long jobs waited from submission to their first start: read from a schedd's history, counted by day."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..wait_buckets import bucket

DAY = 86_400

MOST = 5000
"""Jobs that one read takes; of more that have ended since the last one, the newest. Others are not counted."""

ATTRIBUTES = ["ClusterId", "ProcId", "QDate", "JobStartDate"]

_STARTED = "JobUniverse == 5 && JobStartDate isnt undefined && QDate isnt undefined"


def read(order: Mapping[str, Any], history: Callable[[str, list[str], int, str], Iterable[Any]]) -> dict[str, Any]:
    """{"schedd", "waits": {day epoch: {bucket: jobs}}, "until": marker} of jobs that have ended since order["since"].

    since: the marker of the last read, "cluster.proc" of the newest job in the history then; None at first. When that
    job is not in the history any more, all that is there came after it. until: the same for the next read.
    history(constraint, projection, most, since) gives ads, the one that ended last first, up to the one for which the
    expression `since` is true ("": all).
    """
    from . import jobs

    tests = [_STARTED, jobs.of_users(order["users"]), order["constraint"]]
    constraint = " && ".join(f"({test})" for test in tests if test)
    marker = order["since"]
    cluster, _dot, proc = (marker or "").partition(".")
    since = f"ClusterId == {int(cluster)} && ProcId == {int(proc)}" if marker else ""
    found: dict[int, dict[int, int]] = {}
    newest = marker
    for number, ad in enumerate(history(constraint, ATTRIBUTES, MOST, since)):
        if number == 0:
            newest = f"{ad['ClusterId']}.{ad['ProcId']}"
        start, queued = jobs.evaluate(ad, "JobStartDate"), jobs.evaluate(ad, "QDate")
        if isinstance(start, int) and isinstance(queued, int) and start > 0:
            counts = found.setdefault(start // DAY * DAY, {})
            key = bucket(start - queued)
            counts[key] = counts.get(key, 0) + 1
    return {"schedd": order["schedd"], "waits": found, "until": newest}
