# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool's machines as plain data: the registered glideins and their free resources.

`read` queries the collector (in a process of queries.py), `summarise` counts, `supply_result` makes the result of
get_supply.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Callable

from ..values import MAX_SITES, NAME, OTHER_MACHINES, Key
from . import machine_ad, passed_over, slots
from .slots import Size, Slot, positive_int, startd_name

JOB_ATTRIBUTES = ("RemoteOwner", "AccountingGroup", "ProjectName", "x509UserProxyVOName", "AuthTokenIssuer")
"""The attributes of a claimed slot that name the job's user (alice@pool), accounting group (physics.alice), and so on.

Glideins publish the last three by SYSTEM_STARTD_JOB_ATTRS (files/glidein/lib/configure.sh). The schedd sets a job's
x509UserProxyVOName from its VOMS proxy and AuthTokenIssuer from the token that submitted it; users cannot set them
(HTCondor's SYSTEM_SECURE_JOB_ATTRS). They choose AccountingGroup and ProjectName.
"""

ATTRIBUTES = tuple(dict.fromkeys((
    "Name", "Machine", "AuthenticatedIdentity", "is_glidein", "GLIDEIN_Site", "GLIDEIN_Entry", "GLIDEIN_Shape",
    "GLIDEIN_BatchId", "DaemonStartTime", *slots.SLOT_ATTRIBUTES, *JOB_ATTRIBUTES,
)))  # fmt: skip
"""The attributes of every slot that the collector query returns."""

MAX_SAMPLES = 50
"""The most complete ads that one query fetches."""

MAX_SHAPES_OF_A_SITE = 1000
"""Entries and shapes of one site. More names are probably invented; their slots count as other machines."""

MAX_PROBLEMS = 20
ANONYMOUS_PROBLEM = "some machines report a wrong site, entry or shape; callers with a token get the details"
MAX_NAME = 128
"""Characters of the name of a user, project or VO, and of a batch id."""

EMPTY: dict[str, Any] = {
    "entries": [], "others": 0, "others_free": [], "others_cpus": 0, "others_cpus_claimed": 0, "problems": [],
}  # fmt: skip
"""The supply before the first result of the collector."""

Test = Callable[[Slot], bool]

FetchAds = Callable[[str, str, list[str]], Iterable[Any]]
"""fetch_ads(adtype, constraint, projection) returns ads (classad2.ClassAd) of AdType.<adtype>; []: complete ads."""


def read(query: Mapping[str, Any], fetch_ads: FetchAds) -> dict[str, Any]:
    """Return the results of the functions below, as JSON values.

    {"supply": `summarise`, "slot_states": slots.update_slot_states, "glideins": `registered`, "job_cores": `job_cores`,
    "empty_glideins": passed_over.empty_glideins, "samples": [{"site", "entry", "by_token", "ad": {attribute: scalar}}]}
    query: "now" (epoch seconds); "token_sites": [name], MachineAds.token_sites; "sampled": the ads that are not
    fetched, MachineAds.recent; "slot_states": those of the last result, {} at first; "vo", "token_vos": the settings of
    these names.
    """
    from .jobs import plain

    ads = [plain(ad, ATTRIBUTES) for ad in fetch_ads("Startd", "true", list(ATTRIBUTES))]
    names = slots.NEGOTIATOR_ATTRIBUTES
    negotiators = [plain(ad, names) for ad in fetch_ads("Negotiator", "true", list(names))]
    pool = classify_slots(ads, query["token_sites"])
    slot_states = slots.update_slot_states(query["slot_states"], ads)
    by_entry = machine_ad.slots_to_fetch(pool.glideins, map(tuple, query["sampled"]), MAX_SAMPLES)
    summary = summarise(pool, negotiators, slot_states, query["now"])
    others = summary["others_cpus_claimed"]
    return {
        "supply": summary,
        "slot_states": slot_states,
        "samples": _fetch(by_entry, pool, fetch_ads),
        "glideins": registered(pool),
        "empty_glideins": passed_over.empty_glideins(pool.glideins, slot_states, query["now"]),
        "job_cores": job_cores(pool.glideins, query["vo"], query["token_vos"], others),
    }


class PoolSlots:
    """The pool's slots: `glideins` {key: [slot]}, `others` [slot], `problems` [line]; `token_sites` used a token."""

    def __init__(self, token_sites: set[str]) -> None:
        self.glideins: dict[Key, list[Slot]] = {}
        self.others: list[Slot] = []
        self.problems: list[str] = []
        self.token_sites = token_sites


def classify_slots(ads: Iterable[Slot], token_sites: Collection[str], max_sites: int = MAX_SITES) -> PoolSlots:
    """Return the slots by site, entry and shape. A site has a token if a slot used it, or if it is in `token_sites`.

    If there are more than `max_sites` sites, those with a token and then those with most slots are kept. The slots of
    the others count as other machines.
    """
    ads = sorted(ads, key=lambda slot: str(slot.get("Name")))
    pool = PoolSlots({site for site in map(slots.token_site, ads) if site is not None})
    known = pool.token_sites.union(token_sites)
    shapes: Counter[str] = Counter()
    problems: dict[str, None] = {}
    for slot in ads:
        key, problem = slots.slot_owner(slot, known)
        if key is not None and key not in pool.glideins:
            if shapes[key[0]] >= MAX_SHAPES_OF_A_SITE:
                problem, key = f"site {key[0]} has more than {MAX_SHAPES_OF_A_SITE} entries and shapes", None
            else:
                shapes[key[0]] += 1
        if problem is not None:
            problems[problem] = None
        if key is None:
            pool.others.append(slot)
        else:
            pool.glideins.setdefault(key, []).append(slot)
    too_many = _sites_beyond(pool.glideins, known, max_sites)
    for key in [key for key in pool.glideins if key[0] in too_many]:
        pool.others += pool.glideins.pop(key)
    if too_many:
        problems = {f"{len(too_many)} sites more than {max_sites} have machines": None, **problems}
    pool.problems = list(problems)[:MAX_PROBLEMS]
    if len(problems) > MAX_PROBLEMS:
        pool.problems.append(f"and {len(problems) - MAX_PROBLEMS} more of this kind")
    return pool


def _sites_beyond(glideins: Mapping[Key, Collection[Slot]], token_sites: Collection[str], most: int) -> set[str]:
    """Return the sites beyond the first `most`: sites with a token come first, then those with most slots."""
    number: Counter[str] = Counter()
    for (site, _entry, _shape), own in glideins.items():
        number[site] += len(own)
    return set(sorted(number, key=lambda site: (site not in token_sites, -number[site], site))[most:])


def summarise(
    pool: PoolSlots, negotiators: Iterable[Slot], slot_states: slots.SlotStates, now: float
) -> dict[str, Any]:
    """Return the part of get_supply that comes from the collector. docs/protocol.md describes its keys.

    `registered` and `retired` count startds, not slots. `free` and `passed_over` are the free resources of
    partitionable slots, and unclaimed static slots, that accept jobs (slots.accepts_jobs). `until` is
    slots.job_deadline. `others_free` has no slots that were passed over.
    """
    since = slots.passed_over_since(negotiators)

    def is_passed_over(slot: Slot) -> bool:
        return slots.is_passed_over(slot, since, slot_states)

    others = _count(pool.others, is_passed_over, now)
    return {
        "entries": [_entry(key, slots, is_passed_over, now) for key, slots in sorted(pool.glideins.items())],
        "others": len({str(slot.get("Machine") or startd_name(slot)) for slot in pool.others}),
        "others_free": others["free"],
        "others_cpus": others["cpus"],
        "others_cpus_claimed": others["cpus_claimed"],
        "problems": pool.problems,
    }


def registered(pool: PoolSlots) -> list[list[Any]]:
    """Return [site, entry, shape, batch id, start or null, last update] of every glidein with a batch id."""
    found: dict[tuple[Key, str], list[Any]] = {}
    for key, own in sorted(pool.glideins.items()):
        for slot in own:
            if batch_id := _text(slot, "GLIDEIN_BatchId"):
                updated = positive_int(slot, "LastHeardFrom")
                row = found.setdefault((key, batch_id), [*key, batch_id, slots.start_time(slot), updated])
                row[5] = max(row[5], updated)
    return list(found.values())


def job_cores(
    glideins: Mapping[Key, Iterable[Slot]],
    vo: str = "",
    token_vos: Mapping[str, str] = MappingProxyType({}),
    others: int = 0,
) -> list[list[Any]]:
    """Return [site, entry, shape, user, project, VO, cores] of all claimed slots; "" is unknown.

    vo, token_vos: the settings pool.vo and pool.token_vos. others: the claimed cores of other machines, which become
    one row of the site OTHER_MACHINES.
    """
    found = Counter({(OTHER_MACHINES, "", "", "", "", ""): others} if others else {})
    for place, own in glideins.items():
        for slot in own:
            if slot.get("State") in slots.CLAIMED_STATES and slot.get("SlotType") != "Partitionable":
                user = _text(slot, "RemoteOwner")
                project = project_of(_text(slot, "AccountingGroup"), user) or _text(slot, "ProjectName")
                own_vo = _text(slot, "x509UserProxyVOName") or token_vos.get(_text(slot, "AuthTokenIssuer"), vo)
                key = (*place, user, project, own_vo)
                found[key] += positive_int(slot, "Cpus")
    return [[*key, cores] for key, cores in sorted(found.items())]


def project_of(accounting_group: str, user: str) -> str:
    """Return the group of an AccountingGroup, which is "group.user" or "group"; "" without a group.

    The user in it is usually the job's owner, whose name may have dots. If it is another name, it is the last part.
    """
    owner = user.partition("@")[0]
    if accounting_group in ("", "<none>", owner, user):
        return ""
    for name in (owner, user):
        if name and accounting_group.endswith(f".{name}"):
            return accounting_group[: -len(name) - 1]
    group, _dot, _user = accounting_group.rpartition(".")
    return group or accounting_group


def _text(slot: Slot, attribute: str) -> str:
    """Return a short text of printable characters; "" for any other value."""
    value = slot.get(attribute)
    return value if isinstance(value, str) and len(value) <= MAX_NAME and value.isprintable() else ""


def supply_result(
    supply: Mapping[str, Any],
    samples: Mapping[tuple[str, str], Mapping[str, Any]],
    summaries: Mapping[Key, Mapping[str, Any]],
    reports: Mapping[str, Mapping[str, Any]],
    with_token: bool,
    core_hours: Mapping[Key, Mapping[str, int]],
    closed: Mapping[Key, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the result of get_supply: `supply` (of `summarise`, with "as_of" and "error") with the stored data.

    samples: {(site, entry): ad} of the stored machine ads; summaries: {key: history}, Glideins.summary; reports:
    {site: last report}; closed: PassedOverGroups.closed. Entries that only these have are in the result, with nothing
    registered. core_hours: {key: sums}, CoreHours.recent. Only callers with a token get samples, which describe a
    site's machines, and problems, which name identities.
    """
    entries = {(entry["site"], entry["entry"], entry["shape"]): entry for entry in supply["entries"]}
    keys = set(entries).union(summaries, closed)
    for site, report in reports.items():
        keys.update((site, entry["entry"], entry["shape"]) for entry in report["entries"])
    with_shape = {(site, entry) for site, entry, _shape in keys}
    for (site, entry), sample in samples.items():
        shape = sample.get("GLIDEIN_Shape")
        if (site, entry) not in with_shape and isinstance(shape, str) and NAME.match(shape):
            keys.add((site, entry, shape))
    return {
        **supply,
        "entries": [
            {
                **(entries.get(key) or _entry(key, [], lambda _slot: False, 0)),
                "sample": samples.get(key[:2]) if with_token else None,
                "history": summaries.get(key),
                "core_hours": core_hours.get(key),
                "passed_over_groups": closed.get(key, {}) if with_token else {},
            }
            for key in sorted(keys)
        ],
        # The problems name identities.
        "problems": supply["problems"] if with_token or not supply["problems"] else [ANONYMOUS_PROBLEM],
    }


def _fetch(by_entry: Mapping[tuple[str, str], str], pool: PoolSlots, fetch_ads: FetchAds) -> list[dict[str, Any]]:
    if not by_entry:
        return []
    import classad2

    constraint = f"member(Name, {{{', '.join(map(classad2.quote, by_entry.values()))}}})"
    ads = {ad.get("Name"): ad for ad in fetch_ads("Startd", constraint, [])}
    # If a glidein has ended since, the next query fetches the ad of another glidein of the entry.
    return [
        {"site": site, "entry": entry, "by_token": site in pool.token_sites, "ad": machine_ad.empty_machine(ads[name])}
        for (site, entry), name in by_entry.items()
        if name in ads
    ]


def _entry(key: Key, own: list[Slot], is_passed_over: Test, now: float) -> dict[str, Any]:
    startds = {startd_name(slot): slot for slot in own}
    starts = [start for start in map(slots.start_time, startds.values()) if start is not None]
    return {
        "site": key[0], "entry": key[1], "shape": key[2],
        "registered": len(startds), "retired": sum(slots.is_retired(slot, now) for slot in startds.values()),
        **_count(own, is_passed_over, now),
        "oldest": min(starts, default=None),
    }  # fmt: skip


def _count(own: Iterable[Slot], is_passed_over: Test, now: float) -> dict[str, Any]:
    total = claimed = 0
    sizes: dict[bool, Counter[tuple[Size, int | None]]] = {False: Counter(), True: Counter()}
    for slot in own:
        if slot.get("SlotType") == "Dynamic":
            continue  # its resources are part of its partitionable slot's total
        total += slots.cores(slot)[0]
        claimed += slots.claimed_cores(slot)
        if slots.accepts_jobs(slot, now):
            sizes[is_passed_over(slot)][slots.free_size(slot), slots.job_deadline(slot)] += 1
    return {"cpus": total, "cpus_claimed": claimed, "free": _rows(sizes[False]), "passed_over": _rows(sizes[True])}


def _rows(counts: Mapping[tuple[Size, int | None], int]) -> list[dict[str, int | None]]:
    return [
        {**dict(zip(slots.SIZE_KEYS, left)), "count": count, "until": until}
        for (left, until), count in sorted(counts.items(), key=lambda row: (row[0][0], row[0][1] or math.inf))
    ]
