# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The negotiator's limits on the number of running jobs: concurrency limits, submitters' ceilings and group quotas.

No machine can start a job beyond one of these limits, so no glidein is ordered for it. Facts about HTCondor 23.9:

- The negotiator (`getPriorities`) lists every submitter that has a ceiling, and every group with the usage of its
  whole tree (HierWeightedResourcesUsed). The collector's Accounting ads lack both until the submitter's first match.
- Maxima of concurrency limits and quotas are in the negotiator's configuration only. EffectiveQuota is 0 while the
  pool has no machine, and a dynamic quota is a share of the present machines: only static quotas limit the jobs.
- The usage of a concurrency limit is in the ads of claimed slots. Ceilings and quotas count slot weights, which are
  cores unless SLOT_WEIGHT is configured.
- condor_submit writes ConcurrencyLimits in small letters; a number after a colon is the job's usage of the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from . import demand

ATTRIBUTE = "ConcurrencyLimits"

CONCURRENCY, SUBMITTERS, GROUPS = "concurrency", "submitters", "groups"
"""The kinds of limits, keys of Limits."""

_LABELS = {
    CONCURRENCY: "concurrency limit", SUBMITTERS: "ceiling of submitter", GROUPS: "quota of accounting group",
}  # fmt: skip

CYCLES = tuple(f"LastNegotiationCycleTime{cycle}" for cycle in range(3))

Limits = Mapping[str, Any]
"""{"concurrency": {name: maximum}, "used": {name: number}, "submitters": {name: [ceiling, used]}, "groups": {name:
[quota, used]}}; names are in small letters. A name that is missing has no limit."""


class Limit(NamedTuple):
    """A limit of the negotiator. Its text is the reason in `limited_by`."""

    kind: str
    """CONCURRENCY, SUBMITTERS or GROUPS."""
    name: str
    maximum: float
    used: float

    def __str__(self) -> str:
        return f"{_LABELS[self.kind]} {self.name}: {self.maximum:g}, {self.used:g} in use"


def read(
    priorities: Iterable[Mapping[str, Any]],
    configured: Mapping[str, str],
    in_use: Iterable[str],
) -> dict[str, Any]:
    """Return the Limits.

    priorities: the negotiator's ads of submitters and groups; configured: its configuration; in_use: ConcurrencyLimits
    of each claimed slot.
    """
    settings = {name.lower(): value for name, value in configured.items()}
    submitters: dict[str, list[float]] = {}
    groups: dict[str, list[float]] = {}
    for ad in priorities:
        name = str(ad.get("Name", "")).lower()
        if ad.get("IsAccountingGroup") is True:
            quota = _static_quota(settings, name)
            if quota is not None:
                by_group = ad.get("HierWeightedResourcesUsed", ad.get("WeightedResourcesUsed"))
                groups[name] = [quota, _number(by_group) or 0]
        else:
            ceiling = _number(ad.get("Ceiling"))
            if ceiling is not None and ceiling >= 0:
                submitters[name] = [ceiling, _number(ad.get("WeightedResourcesUsed")) or 0]
    used: dict[str, float] = {}
    for text in in_use:
        for name, number in parse(text).items():
            used[name] = used.get(name, 0) + number
    return {
        "concurrency": _maxima(settings),
        "used": used,
        "submitters": submitters,
        "groups": groups,
    }


def is_setting(name: str) -> bool:
    """Return whether a setting of the negotiator may define a limit."""
    lower = name.lower()
    return lower.startswith(_SETTINGS) or lower.endswith(_SUFFIX)


def parse(text: str) -> dict[str, float]:
    """Return {limit: usage of one job} of a job's ConcurrencyLimits, such as "xlic,matlab:2"."""
    found: dict[str, float] = {}
    for part in text.replace(",", " ").lower().split():
        name, _colon, number = part.partition(":")
        try:
            uses = float(number) if number else 1.0
        except ValueError:
            uses = 1.0
        if name:
            found[name] = uses if math.isfinite(uses) and uses > 0 else 1.0
    return found


def apply(groups: Iterable[dict[str, Any]], limits: Limits | None) -> list[dict[str, Any]]:
    """Return the groups without the jobs that exceed a limit; the oldest jobs are counted first.

    groups: of one user each (demand.merge_by_user). The other jobs are added to `over_limit`, and `limited_by` has
    {reason: jobs}. limits: None for no limit.
    """
    if not limits or not any(limits[kind] for kind in (CONCURRENCY, SUBMITTERS, GROUPS)):
        return list(groups)
    left: dict[tuple[str, str], float] = {}
    found = []
    for group in sorted(groups, key=lambda group: demand.job_order(group["first_job"])):
        number, reason, needs = group["count"], "", {}
        for key, each in _needs(group).items():
            limit = _limit(limits, *key)
            if limit is None:
                continue
            needs[key] = each
            fits = max(0, math.floor(left.setdefault(key, limit.maximum - limit.used) / each + 1e-9))
            if fits < number:
                number, reason = fits, str(limit)
        for key, each in needs.items():
            left[key] -= number * each
        if number < group["count"]:
            over = group["count"] - number
            group = {**demand.truncated(group, number), "limited_by": {reason: over}}
        found.append(group)
    return found


def for_plan(groups: Iterable[Mapping[str, Any]], limits: Limits | None) -> dict[str, Any] | None:
    """Return {"maxima", "used"} of the concurrency limits; None if no group has limits that depend on the machine.

    groups: of `apply`. Their jobs count as used: the plan subtracts those of the other groups only.
    """
    if not limits or not any(ATTRIBUTE in group.get("expressions", ()) for group in groups):
        return None
    used = dict(limits["used"])
    for group in groups:
        for name, each in _uses(group).items():
            used[name] = used.get(name, 0) + each * group["count"]
    return {"maxima": limits["concurrency"], "used": used}


def of_group(group: Mapping[str, Any], limits: Limits | None) -> list[Limit]:
    """Return the limits of the jobs of a group of one user and accounting group."""
    found = [_limit(limits, *key) for key in _needs(group)] if limits else []
    return [limit for limit in found if limit is not None]


def submitter(group: Mapping[str, Any]) -> str:
    """Return the name of a group's submitter in the negotiator: that of its accounting group, if it has one."""
    user = next(iter(group["users"]), "")
    name = group.get("accounting_group")
    return (f"{name}@{user.partition('@')[2]}" if name else user).lower()


def _uses(group: Mapping[str, Any]) -> dict[str, float]:
    """Return {concurrency limit: usage of one job}; {} if the limits depend on the machine."""
    text = group["attributes"].get(ATTRIBUTE)
    return parse(text) if isinstance(text, str) else {}


def _needs(group: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return {(kind, name): usage of one job} of all limits that may hold for the group."""
    groups = _tree(group.get("accounting_group") or "")
    return {
        **{(CONCURRENCY, name): each for name, each in _uses(group).items()},
        (SUBMITTERS, submitter(group)): group["cpus"],
        **{(GROUPS, name): group["cpus"] for name in groups},
    }


def _limit(limits: Limits, kind: str, name: str) -> Limit | None:
    """Return the limit of this name, or None."""
    if kind != CONCURRENCY:
        return Limit(kind, name, *limits[kind][name]) if name in limits[kind] else None
    maxima = limits[CONCURRENCY]
    prefix, dot, _part = name.partition(".")
    default = maxima.get(prefix + ".", maxima.get("")) if dot else maxima.get("")
    maximum = maxima.get(name, default)
    return None if maximum is None else Limit(kind, name, maximum, limits["used"].get(name, 0))


def _tree(name: str) -> list[str]:
    """Return the possible groups of an accounting group's full name: "phys.sub.bob" is of "phys.sub" and of "phys"."""
    parts = name.lower().split(".")
    return [".".join(parts[:number]) for number in range(1, len(parts) + 1)]


def _static_quota(settings: Mapping[str, str], group: str) -> float | None:
    """Return a group's static quota; None if the quota is dynamic or the group may use surplus."""
    for name in ("group_accept_surplus", "group_autoregroup"):
        if _is_true(settings.get(f"{name}_{group}", settings.get(name))):
            return None
    return _number(settings.get(f"group_quota_{group}"))


_DEFAULT = "concurrency_limit_default"
_SUFFIX = "_limit"
_SETTINGS = (_DEFAULT, "group_quota_", "group_accept_surplus", "group_autoregroup")


def _maxima(settings: Mapping[str, str]) -> dict[str, float]:
    """Return {limit: maximum}. "" is the default of all limits, "name." that of limits such as name.part.

    The result has every setting that ends in _LIMIT: the jobs name those that are concurrency limits.
    """
    found = {}
    for name, value in settings.items():
        number = _number(value)
        if number is None:
            continue
        if name == _DEFAULT:
            found[""] = number
        elif name.startswith(f"{_DEFAULT}_"):
            found[name[len(_DEFAULT) + 1 :] + "."] = number
        elif name.endswith(_SUFFIX):
            found[name[: -len(_SUFFIX)]] = number
    return found


def _is_true(value: str | None) -> bool:
    return (value or "").strip().lower() in ("true", "t", "yes", "1")


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
