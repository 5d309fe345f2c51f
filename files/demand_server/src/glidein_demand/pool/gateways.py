# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool's gateways: schedds on login nodes, with pilots in their queues. Pure functions of the collector's ads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MAX_TEXT = 200
"""The most characters of a text of an ad."""

ATTRIBUTES = (
    "Name",
    "is_glidein",
    "GLIDEIN_Site",
    "CondorVersion",
    "GatewayJobsIdle",
    "GatewayJobsRunning",
    "GatewayJobsHeld",
    "LastHeardFrom",
    "AuthenticatedIdentity",
)
"""The attributes of a gateway's ad that are read."""

MAX_GATEWAYS = 1000
"""The most gateways that are kept. The ads come from login nodes, which may be compromised."""

LATE_S = 300
"""A gateway sends its ad each minute. After this time without one, it is late."""
_PREFIX = "gateway-"
"""The beginning of the identity of a gateway's token, gateway-SITE@DOMAIN."""
_COUNTS = {"idle": "GatewayJobsIdle", "running": "GatewayJobsRunning", "held": "GatewayJobsHeld"}


def is_gateway(ad: Mapping[str, Any]) -> bool:
    """Return whether the ad of a schedd is one of a gateway. Its jobs are pilots, not demand.

    The collector adds the identity. An ad with a gateway's token is one of a gateway, whatever the ad claims.
    """
    return ad.get("is_glidein") is True or str(ad.get("AuthenticatedIdentity")).startswith(_PREFIX)


def from_ads(ads: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return [{"name", "site", "version", "idle", "running", "held", "last_contact"}] by name; the newest of a name.

    A count is None if the ad does not have it.
    """
    by_name: dict[str, Mapping[str, Any]] = {}
    for ad in sorted(filter(is_gateway, ads), key=lambda ad: _count(ad, "LastHeardFrom") or 0):
        if isinstance(ad.get("Name"), str):
            by_name[ad["Name"]] = ad
    return [
        {
            "name": name[:MAX_TEXT],
            "site": _site(ad)[:MAX_TEXT],
            "version": _version(ad.get("CondorVersion")),
            **{key: _count(ad, attribute) for key, attribute in _COUNTS.items()},
            "last_contact": _count(ad, "LastHeardFrom"),
        }
        for name, ad in sorted(by_name.items())[:MAX_GATEWAYS]
    ]


def merge(known: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]], now: float, forget_s: float) -> Any:
    """Return the gateways (a tuple by name) after the collector has returned `rows`.

    A known gateway that the collector does not have any longer is "gone", and is forgotten `forget_s` seconds after its
    last contact.
    """
    present = {row["name"]: {**row, "gone": False} for row in rows}
    gone = {
        row["name"]: {**row, "gone": True}
        for row in known
        if row["name"] not in present and now - (row["last_contact"] or 0) < forget_s
    }
    return tuple(row for _name, row in sorted({**gone, **present}.items()))


def described(gateways: Iterable[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
    """Return the gateways for callers: with "state" ("running", "late" or "gone") instead of "gone"."""
    return [
        {**{key: value for key, value in row.items() if key != "gone"}, "state": _state(row, now)} for row in gateways
    ]


def _state(row: Mapping[str, Any], now: float) -> str:
    if row["gone"]:
        return "gone"
    return "late" if now - (row["last_contact"] or 0) > LATE_S else "running"


def _site(ad: Mapping[str, Any]) -> str:
    identity = str(ad.get("AuthenticatedIdentity") or "")
    if identity.startswith(_PREFIX):
        return identity[len(_PREFIX) :].rpartition("@")[0]
    return str(ad.get("GLIDEIN_Site") or "")


def _count(ad: Mapping[str, Any], name: str) -> int | None:
    value = ad.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _version(text: Any) -> str:
    """Return the version in "$CondorVersion: 23.9.6 2026-07-12 $"; "" for another text."""
    words = text.split() if isinstance(text, str) else []
    return words[1][:MAX_TEXT] if len(words) > 1 and words[0] == "$CondorVersion:" else ""
