# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool's machines as plain data: which glideins have registered, and what they still have free.

`read` asks the collector (in a process of queries.py), `summarise` counts, `present` makes the reply of get_supply.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Callable

from ..values import NAME, Key
from . import free, machine_ads, passing
from .identity import owner, token_site
from .slots import SIZE_KEYS, Size, Slot, cores, size, startd_name, started, whole

ATTRIBUTES = tuple(dict.fromkeys((
    "Name", "Machine", "AuthenticatedIdentity", "is_glidein", "GLIDEIN_Site", "GLIDEIN_Entry", "GLIDEIN_Shape",
    "GLIDEIN_BatchId", "DaemonStartTime", *free.SLOT_ATTRIBUTES,
)))  # fmt: skip
"""What is asked of the collector for every slot."""

MOST_SAMPLES = 50
"""Whole ads that are fetched in one reading."""

MOST_SHAPES_OF_A_SITE = 1000
"""Entries and shapes of one site; more come from somebody who makes names up, and count as other machines."""

MOST_SITES = 1000
"""Sites, where the order does not say it: server.max_sites."""

MOST_PROBLEMS = 20

EMPTY: dict[str, Any] = {
    "entries": [], "others": 0, "others_free": [], "others_cpus": 0, "others_cpus_claimed": 0, "problems": [],
}  # fmt: skip
"""What is known before the first reading."""

APART = ("memory", "samples", "glideins", "idle")
"""Keys of an answer that are for the server's own use."""

Test = Callable[[Slot], bool]

Query = Callable[[str, str, list[str]], Iterable[Any]]
"""query(adtype, constraint, projection): ads (classad2.ClassAd) of htcondor2.AdType.<adtype>; [] asks for all."""


def read(order: Mapping[str, Any], query: Query) -> dict[str, Any]:
    """The collector's answer as JSON values: that of `summarise`, and what is not for callers (APART).

    order: "now" (epoch seconds); "token_sites": [name], MachineAds.token_sites; "sampled": [[site, entry]], not to be
    fetched again, MachineAds.recent; "memory": that of the last answer, {} at first; "max_sites". All but "now" may be
    missing.
    answer: "memory" (free.Memory); "samples": [{"site", "entry", "by_token", "ad": {attribute: scalar}}], for
    MachineAds.add; "glideins": [[site, entry, shape, batch id, start or null, last heard of]], for Glideins.registered;
    "idle": rows of passing.whole_free.
    """
    from .jobs import evaluate, is_scalar

    def plain(ad: Any, names: Iterable[str]) -> Slot:
        return {name: value for name in names if is_scalar(value := evaluate(ad, name))}

    slots = [plain(ad, ATTRIBUTES) for ad in query("Startd", "true", list(ATTRIBUTES))]
    names = free.NEGOTIATOR_ATTRIBUTES
    negotiators = [plain(ad, names) for ad in query("Negotiator", "true", list(names))]
    pool = sort_out(slots, order.get("token_sites", ()), order.get("max_sites", MOST_SITES))
    memory = free.remember(order.get("memory", {}), slots)
    by_entry = machine_ads.to_fetch(pool.glideins, map(tuple, order.get("sampled", ())), MOST_SAMPLES)
    return {
        **summarise(pool, negotiators, memory, order["now"]),
        "memory": memory,
        "samples": _fetch(by_entry, pool, query),
        "glideins": registered(pool),
        "idle": passing.whole_free(pool.glideins, memory, order["now"]),
    }


class Pool:
    """Slots by whose they are: `glideins` {key: [slot]}, `others` [slot], `problems` [line]."""

    def __init__(self) -> None:
        self.glideins: dict[Key, list[Slot]] = {}
        self.others: list[Slot] = []
        self.problems: list[str] = []
        self.token_sites: set[str] = set()


def sort_out(slots: Iterable[Slot], token_sites: Collection[str], most_sites: int = MOST_SITES) -> Pool:
    """Whose the slots are. A site that shows a token in any of them has one, besides those in `token_sites`.

    Of more than `most_sites` sites, those with a token and then those with most slots stay; the others' slots count
    as other machines.
    """
    all_slots = list(slots)
    pool = Pool()
    pool.token_sites = {site for site in map(token_site, all_slots) if site is not None}
    known = pool.token_sites.union(token_sites)
    of_site: dict[str, int] = {}
    problems: dict[str, None] = {}
    for slot in sorted(all_slots, key=lambda slot: str(slot.get("Name"))):
        key, problem = owner(slot, known)
        if key is not None and key not in pool.glideins:
            if of_site.get(key[0], 0) >= MOST_SHAPES_OF_A_SITE:
                problem, key = f"site {key[0]} has more than {MOST_SHAPES_OF_A_SITE} entries and shapes", None
            else:
                of_site[key[0]] = of_site.get(key[0], 0) + 1
        if problem is not None:
            problems[problem] = None
        if key is None:
            pool.others.append(slot)
        else:
            pool.glideins.setdefault(key, []).append(slot)
    too_many = _sites_beyond(pool.glideins, known, most_sites)
    for key in [key for key in pool.glideins if key[0] in too_many]:
        pool.others += pool.glideins.pop(key)
    if too_many:
        problems = {f"{len(too_many)} sites more than server.max_sites = {most_sites} have machines": None, **problems}
    pool.problems = list(problems)[:MOST_PROBLEMS]
    if len(problems) > MOST_PROBLEMS:
        pool.problems.append(f"and {len(problems) - MOST_PROBLEMS} more of this kind")
    return pool


def _sites_beyond(glideins: Mapping[Key, Collection[Slot]], token_sites: Collection[str], most: int) -> set[str]:
    """The sites that are too many: the last ones when those with a token come first, then those with most slots."""
    slots: dict[str, int] = {}
    for (site, _entry, _shape), own in glideins.items():
        slots[site] = slots.get(site, 0) + len(own)
    return set(sorted(slots, key=lambda site: (site not in token_sites, -slots[site], site))[most:])


def summarise(pool: Pool, negotiators: Iterable[Slot], memory: free.Memory, now: float) -> dict[str, Any]:
    """The part of get_supply that the collector knows.

    {"entries": [{"site", "entry", "shape", "registered", "retired", "cpus", "cpus_claimed", "free", "passed_over",
    "oldest", "newest"}], "others", "others_free", "others_cpus", "others_cpus_claimed", "problems"}

    `registered` and `retired` count startds, not slots; `retired` ones take no further job. `cpus` are cores. `free`
    and `passed_over` are [{"cpus", "memory_mb", "disk_mb", "gpus", "count", "until"}]: what partitionable slots have
    left, and unclaimed static slots, that take jobs (free.takes_jobs), apart when the negotiator has passed them over;
    `until` is free.jobs_until.
    `oldest` and `newest` are starts of startds. `others` is the number of machines that are no glideins of ours, and
    `others_free` what they have free; what was passed over is not in it.
    """
    since = free.passed_over_since(negotiators)

    def is_passed_over(slot: Slot) -> bool:
        return free.passed_over(slot, since, memory)

    others = _count(pool.others, is_passed_over, now)
    return {
        "entries": [_entry(key, slots, is_passed_over, now) for key, slots in sorted(pool.glideins.items())],
        "others": len({str(slot.get("Machine") or startd_name(slot)) for slot in pool.others}),
        "others_free": others["free"],
        "others_cpus": others["cpus"],
        "others_cpus_claimed": others["cpus_claimed"],
        "problems": pool.problems,
    }


def registered(pool: Pool) -> list[list[Any]]:
    """[site, entry, shape, batch id, start, last heard of] of every glidein that tells its batch id."""
    found: dict[tuple[Key, str], list[Any]] = {}
    for key, slots in sorted(pool.glideins.items()):
        for slot in slots:
            batch_id = slot.get("GLIDEIN_BatchId")
            if not isinstance(batch_id, str) or not 0 < len(batch_id) <= 128 or not batch_id.isprintable():
                continue
            heard = whole(slot, "LastHeardFrom")
            row = found.setdefault((key, batch_id), [*key, batch_id, started(slot), heard])
            row[5] = max(row[5], heard)
    return list(found.values())


def present(
    supply: Mapping[str, Any],
    known_samples: Mapping[tuple[str, str], Mapping[str, Any]],
    summaries: Mapping[Key, Mapping[str, Any]],
    reports: Mapping[str, Mapping[str, Any]],
    with_token: bool,
    work: Mapping[Key, Mapping[str, int]],
    closed: Mapping[Key, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The result of get_supply: `supply` (that of `summarise`, with "as_of" and "error"), history and samples put in.

    known_samples: {(site, entry): ad}, Samples.all; summaries: {key: history}, Glideins.summary; reports: {site:
    report}, the last one of each; work: {key: sums}, Work.lately; closed: PassedOver.closed. Entries that only
    these know are there too, with nothing registered. A sample tells about a site's machines, and problems name
    identities: these are for callers with a token.
    """
    entries = {(entry["site"], entry["entry"], entry["shape"]): entry for entry in supply["entries"]}
    keys = set(entries).union(summaries, work, closed)
    for site, report in reports.items():
        keys.update((site, entry["entry"], entry["shape"]) for entry in report["entries"])
    with_shape = {(site, entry) for site, entry, _shape in keys}
    for (site, entry), sample in known_samples.items():
        shape = sample.get("GLIDEIN_Shape")
        if (site, entry) not in with_shape and isinstance(shape, str) and NAME.match(shape):
            keys.add((site, entry, shape))
    return {
        **supply,
        "entries": [
            {
                **(entries.get(key) or _entry(key, [], lambda _slot: False, 0)),
                "sample": known_samples.get(key[:2]) if with_token else None,
                "history": summaries.get(key),
                "work": work.get(key),
                "passed_over_groups": closed.get(key, {}) if with_token else {},
            }
            for key in sorted(keys)
        ],
        "problems": supply["problems"] if with_token else _without_names(supply["problems"]),
    }


def _without_names(problems: Collection[str]) -> list[str]:
    """That there are problems, for callers who may not know the identities in them."""
    return ["machines are not what they say they are; callers with a token are told which"] if problems else []


def _fetch(by_entry: Mapping[tuple[str, str], str], pool: Pool, query: Query) -> list[dict[str, Any]]:
    if not by_entry:
        return []
    import classad2

    constraint = f"member(Name, {{{', '.join(map(classad2.quote, by_entry.values()))}}})"
    ads = {ad.get("Name"): ad for ad in query("Startd", constraint, [])}
    # A glidein that has ended since is asked for again next time, if the entry has another one.
    return [
        {"site": site, "entry": entry, "by_token": site in pool.token_sites, "ad": machine_ads.whole_machine(ads[name])}
        for (site, entry), name in by_entry.items()
        if name in ads
    ]


def _entry(key: Key, slots: list[Slot], is_passed_over: Test, now: float) -> dict[str, Any]:
    startds = {startd_name(slot): slot for slot in slots}
    starts = [start for start in map(started, startds.values()) if start is not None]
    return {
        "site": key[0], "entry": key[1], "shape": key[2],
        "registered": len(startds), "retired": sum(free.retired(slot, now) for slot in startds.values()),
        **_count(slots, is_passed_over, now),
        "oldest": min(starts, default=None), "newest": max(starts, default=None),
    }  # fmt: skip


def _count(slots: Iterable[Slot], is_passed_over: Test, now: float) -> dict[str, Any]:
    total = claimed = 0
    sizes: dict[bool, dict[tuple[Size, int | None], int]] = {False: {}, True: {}}
    for slot in slots:
        if slot.get("SlotType") == "Dynamic":
            continue  # its resources are part of its partitionable slot's total
        all_cores, unused = cores(slot)
        total += all_cores
        claimed += all_cores - unused
        if free.takes_jobs(slot, now):
            counts = sizes[is_passed_over(slot)]
            row = (size(slot), free.jobs_until(slot))
            counts[row] = counts.get(row, 0) + 1
    return {"cpus": total, "cpus_claimed": claimed, "free": _rows(sizes[False]), "passed_over": _rows(sizes[True])}


def _rows(counts: Mapping[tuple[Size, int | None], int]) -> list[dict[str, int | None]]:
    return [
        {**dict(zip(SIZE_KEYS, left)), "count": count, "until": until}
        for (left, until), count in sorted(counts.items(), key=lambda row: (row[0][0], row[0][1] or math.inf))
    ]
