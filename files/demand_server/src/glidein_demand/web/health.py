# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of the server: a pure function of the schedds' answers, the settings and the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import Settings


def health(about: Mapping[str, Any], settings: Settings, now: float, include_names: bool = True) -> dict[str, Any]:
    """Return the health of the server; only "ok" is healthy.

    about: QueryResults.about, or a result of get_demand. Times are in epoch seconds, ages in seconds.

    {"status": "ok"|"starting"|"stale", "as_of", "age_s", "max_age_s", "failed_schedds": n, "failed": [names]};
    without "failed" unless `include_names`.
    """
    as_of = about["as_of"]
    age = None if as_of is None else max(0, int(now - as_of))
    status = "starting" if age is None else "stale" if age > settings.max_age_seconds else "ok"
    failed = [schedd["name"] for schedd in about["schedds"]["failed"]]
    state = {
        "status": status, "as_of": as_of, "age_s": age, "max_age_s": settings.max_age_seconds,
        "failed_schedds": len(failed),
    }  # fmt: skip
    return {**state, "failed": failed} if include_names else state
