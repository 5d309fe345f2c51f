# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the server knows the queue: pure functions of the readings and the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import Settings


def health(about: Mapping[str, Any], settings: Settings, now: float, names: bool = True) -> dict[str, Any]:
    """How the server is; only "ok" is healthy. about: Answers.about. Times are epoch seconds, ages seconds.

    {"status": "ok"|"starting"|"stale", "as_of", "age_s", "max_age_s", "failed_schedds": n, "failed": [names]};
    without "failed" unless `names`.
    """
    as_of = about["as_of"]
    age = None if as_of is None else max(0, int(now - as_of))
    status = "starting" if age is None else "stale" if age > settings.max_age_seconds else "ok"
    failed = [schedd["name"] for schedd in about["schedds"]["failed"]]
    found = {
        "status": status, "as_of": as_of, "age_s": age, "max_age_s": settings.max_age_seconds,
        "failed_schedds": len(failed),
    }  # fmt: skip
    return {**found, "failed": failed} if names else found
