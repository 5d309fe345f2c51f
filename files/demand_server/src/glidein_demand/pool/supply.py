# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool's machines as plain data: the registered glideins and their free resources.

`read` queries the collector (in a process of queries.py), `summarise` counts, `supply_result` makes the result of
get_supply.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Callable

from ..values import MAX_SITES, NAME, Key
from . import free_slots, job_cores, machine_ads, passed_over_detector
from .identity import slot_owner, token_site
from .slots import SIZE_KEYS, Size, Slot, claimed_cores, cores, free_size, positive_int, start_time, startd_name

ATTRIBUTES = tuple(dict.fromkeys((
    "Name", "Machine", "AuthenticatedIdentity", "is_glidein", "GLIDEIN_Site", "GLIDEIN_Entry", "GLIDEIN_Shape",
    "GLIDEIN_BatchId", "DaemonStartTime", *free_slots.SLOT_ATTRIBUTES, *job_cores.ATTRIBUTES,
)))  # fmt: skip
"""The attributes of every slot that the collector query returns."""

MAX_SAMPLES = 50
"""The most complete ads that one query fetches."""

MAX_SHAPES_OF_A_SITE = 1000
"""Entries and shapes of one site. More names are probably invented; their slots count as other machines."""

MAX_PROBLEMS = 20

EMPTY: dict[str, Any] = {
    "entries": [], "others": 0, "others_free": [], "others_cpus": 0, "others_cpus_claimed": 0, "problems": [],
}  # fmt: skip
"""The supply before the first result of the collector."""

INTERNAL_KEYS = ("slot_states", "samples", "glideins", "empty_glideins", "job_cores")
"""Keys of a result that only the server uses."""

Test = Callable[[Slot], bool]

FetchAds = Callable[[str, str, list[str]], Iterable[Any]]
"""fetch_ads(adtype, constraint, projection) returns ads (classad2.ClassAd) of AdType.<adtype>; []: complete ads."""


def read(query: Mapping[str, Any], fetch_ads: FetchAds) -> dict[str, Any]:
    """Return the result of `summarise`, and the INTERNAL_KEYS, as JSON values.

    query: "now" (epoch seconds); "token_sites": [name], MachineAds.token_sites; "sampled": the ads
    that are not fetched, MachineAds.recent; "slot_states": those of the last result, {} at first; "vo",
    "token_vos": the settings of these names. Only "now" is required.
    Internal keys: "slot_states" (free_slots.SlotStates); "samples": [{"site", "entry", "by_token", "ad": {attribute:
    scalar}}], for MachineAds.add; "glideins": the result of `registered`, for Glideins.registered; "empty_glideins":
    the result of passed_over_detector.empty_glideins; "job_cores": the result of job_cores.claimed_cores.
    """
    from .jobs import evaluate, is_scalar

    def plain(ad: Any, names: Iterable[str]) -> Slot:
        return {name: value for name in names if is_scalar(value := evaluate(ad, name))}

    slots = [plain(ad, ATTRIBUTES) for ad in fetch_ads("Startd", "true", list(ATTRIBUTES))]
    names = free_slots.NEGOTIATOR_ATTRIBUTES
    negotiators = [plain(ad, names) for ad in fetch_ads("Negotiator", "true", list(names))]
    pool = classify_slots(slots, query.get("token_sites", ()))
    slot_states = free_slots.update_slot_states(query.get("slot_states", {}), slots)
    by_entry = machine_ads.slots_to_fetch(pool.glideins, map(tuple, query.get("sampled", ())), MAX_SAMPLES)
    summary = summarise(pool, negotiators, slot_states, query["now"])
    others = summary["others_cpus_claimed"]
    return {
        **summary,
        "slot_states": slot_states,
        "samples": _fetch(by_entry, pool, fetch_ads),
        "glideins": registered(pool),
        "empty_glideins": passed_over_detector.empty_glideins(pool.glideins, slot_states, query["now"]),
        "job_cores": job_cores.claimed_cores(pool.glideins, query.get("vo", ""), query.get("token_vos", {}), others),
    }


class PoolSlots:
    """The pool's slots: `glideins` {key: [slot]}, `others` [slot], `problems` [line]; `token_sites` used a token."""

    def __init__(self) -> None:
        self.glideins: dict[Key, list[Slot]] = {}
        self.others: list[Slot] = []
        self.problems: list[str] = []
        self.token_sites: set[str] = set()


def classify_slots(slots: Iterable[Slot], token_sites: Collection[str], max_sites: int = MAX_SITES) -> PoolSlots:
    """Return the slots by site, entry and shape. A site has a token if a slot used it, or if it is in `token_sites`.

    If there are more than `max_sites` sites, those with a token and then those with most slots are kept. The slots of
    the others count as other machines.
    """
    all_slots = list(slots)
    pool = PoolSlots()
    pool.token_sites = {site for site in map(token_site, all_slots) if site is not None}
    known = pool.token_sites.union(token_sites)
    of_site: dict[str, int] = {}
    problems: dict[str, None] = {}
    for slot in sorted(all_slots, key=lambda slot: str(slot.get("Name"))):
        key, problem = slot_owner(slot, known)
        if key is not None and key not in pool.glideins:
            if of_site.get(key[0], 0) >= MAX_SHAPES_OF_A_SITE:
                problem, key = f"site {key[0]} has more than {MAX_SHAPES_OF_A_SITE} entries and shapes", None
            else:
                of_site[key[0]] = of_site.get(key[0], 0) + 1
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
    slots: dict[str, int] = {}
    for (site, _entry, _shape), own in glideins.items():
        slots[site] = slots.get(site, 0) + len(own)
    return set(sorted(slots, key=lambda site: (site not in token_sites, -slots[site], site))[most:])


def summarise(
    pool: PoolSlots, negotiators: Iterable[Slot], slot_states: free_slots.SlotStates, now: float
) -> dict[str, Any]:
    """Return the part of get_supply that comes from the collector.

    {"entries": [{"site", "entry", "shape", "registered", "retired", "cpus", "cpus_claimed", "free", "passed_over",
    "oldest", "newest"}], "others", "others_free", "others_cpus", "others_cpus_claimed", "problems"}

    `registered` and `retired` count startds, not slots; retired startds accept no further job. `cpus` are
    cores. `free` and `passed_over` are [{"cpus", "memory_mb", "disk_mb", "gpus", "count", "until"}]: the free resources
    of partitionable slots, and unclaimed static slots, that accept jobs (free_slots.accepts_jobs). `passed_over` has
    those that the negotiator has passed over. `until` is free_slots.job_deadline.
    `oldest` and `newest` are starts of startds. `others` is the number of machines that are not glideins of this
    deployment, and `others_free` their free slots that were not passed over.
    """
    since = free_slots.passed_over_since(negotiators)

    def is_passed_over(slot: Slot) -> bool:
        return free_slots.is_passed_over(slot, since, slot_states)

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
    for key, slots in sorted(pool.glideins.items()):
        for slot in slots:
            batch_id = slot.get("GLIDEIN_BatchId")
            if not isinstance(batch_id, str) or not 0 < len(batch_id) <= 128 or not batch_id.isprintable():
                continue
            heard = positive_int(slot, "LastHeardFrom")
            row = found.setdefault((key, batch_id), [*key, batch_id, start_time(slot), heard])
            row[5] = max(row[5], heard)
    return list(found.values())


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
        "problems": supply["problems"] if with_token else _without_names(supply["problems"]),
    }


def _without_names(problems: Collection[str]) -> list[str]:
    """Return one line if there are problems, for callers that may not read the identities in them."""
    return (
        ["some machines report a wrong site, entry or shape; callers with a token get the details"] if problems else []
    )


def _fetch(by_entry: Mapping[tuple[str, str], str], pool: PoolSlots, fetch_ads: FetchAds) -> list[dict[str, Any]]:
    if not by_entry:
        return []
    import classad2

    constraint = f"member(Name, {{{', '.join(map(classad2.quote, by_entry.values()))}}})"
    ads = {ad.get("Name"): ad for ad in fetch_ads("Startd", constraint, [])}
    # If a glidein has ended since, the next query fetches the ad of another glidein of the entry.
    return [
        {"site": site, "entry": entry, "by_token": site in pool.token_sites, "ad": machine_ads.empty_machine(ads[name])}
        for (site, entry), name in by_entry.items()
        if name in ads
    ]


def _entry(key: Key, slots: list[Slot], is_passed_over: Test, now: float) -> dict[str, Any]:
    startds = {startd_name(slot): slot for slot in slots}
    starts = [start for start in map(start_time, startds.values()) if start is not None]
    return {
        "site": key[0], "entry": key[1], "shape": key[2],
        "registered": len(startds), "retired": sum(free_slots.is_retired(slot, now) for slot in startds.values()),
        **_count(slots, is_passed_over, now),
        "oldest": min(starts, default=None), "newest": max(starts, default=None),
    }  # fmt: skip


def _count(slots: Iterable[Slot], is_passed_over: Test, now: float) -> dict[str, Any]:
    total = claimed = 0
    sizes: dict[bool, dict[tuple[Size, int | None], int]] = {False: {}, True: {}}
    for slot in slots:
        if slot.get("SlotType") == "Dynamic":
            continue  # its resources are part of its partitionable slot's total
        total += cores(slot)[0]
        claimed += claimed_cores(slot)
        if free_slots.accepts_jobs(slot, now):
            counts = sizes[is_passed_over(slot)]
            row = (free_size(slot), free_slots.job_deadline(slot))
            counts[row] = counts.get(row, 0) + 1
    return {"cpus": total, "cpus_claimed": claimed, "free": _rows(sizes[False]), "passed_over": _rows(sizes[True])}


def _rows(counts: Mapping[tuple[Size, int | None], int]) -> list[dict[str, int | None]]:
    return [
        {**dict(zip(SIZE_KEYS, left)), "count": count, "until": until}
        for (left, until), count in sorted(counts.items(), key=lambda row: (row[0][0], row[0][1] or math.inf))
    ]
