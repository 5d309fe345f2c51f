# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that track each glidein by sites' reports and the collector's results, and summarise them: pure functions.

A report lists the batch ids that run in the batch system; the collector's ads carry the same ids. Times are epoch
seconds of this server's clock. `started` and `last_update` are of the collector's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..values import Key

WINDOW_S = 6 * 3600
"""A summary covers the glideins that were first seen in this time."""

GRACE_S = 600
"""A glidein counts as never registered after this time. It ends itself after 300 s (GLIDEIN_REGISTER_S)."""

EARLY_S = 300
"""A glidein whose last update came sooner after its start ended early."""

JOBS_FAILING = 30
"""The exit status of a glidein that ended because its jobs failed fast (docs/glidein.md)."""

SIGNALS = (129, 130, 131, 138, 140, 141, 143, 152, 153)
"""The exit statuses of a glidein that a signal of the batch system or of a person ended (docs/glidein.md)."""

MAX_PLANS = 20

MAX_FAILURES = 5
"""The most exit statuses of one entry and shape that a summary lists."""

_PLAN = ("present", "wanted", "queued", "running", "registered", "launched", "cancelled")


@dataclass(frozen=True)
class Glidein:
    """One batch job, and when it was seen.

    running, left: first seen running in a report, first missing from a later one. checked_at: last time that the
    collector was read while it ran and had not registered. registered, missing_since: first seen in the collector,
    first missing from it afterwards. started, last_update: of its startd. wait_s: seconds between submission and start.
    """

    site: str
    batch_id: str
    entry: str
    shape: str
    first_seen: int
    running: int | None = None
    wait_s: int | None = None
    checked_at: int | None = None
    left: int | None = None
    registered: int | None = None
    started: int | None = None
    last_update: int | None = None
    missing_since: int | None = None


def of_report(report: Mapping[str, Any]) -> tuple[list[tuple[str, str, str, int | None]], set[tuple[str, str]]]:
    """Return (rows for `after_report`, the (entry, shape) whose running glideins the report lists)."""
    rows, listed = [], set()
    for entry in report["entries"]:
        running = entry.get("running_glideins")
        if running is not None:
            listed.add((entry["entry"], entry["shape"]))
            rows += [(entry["entry"], entry["shape"], glidein["id"], glidein["wait_s"]) for glidein in running]
    return rows, listed


def after_report(
    known: Mapping[str, Glidein],
    site: str,
    rows: Iterable[tuple[str, str, str, int | None]],
    listed: Collection[tuple[str, str]],
    now: int,
) -> list[Glidein]:
    """Return the glideins that a report changes. `known`: those of the site by batch id.

    rows: (entry, shape, batch id, wait). Only glideins of an (entry, shape) in `listed` can have left: for others, the
    site could not count.
    """
    changed = []
    seen = set()
    for entry, shape, batch_id, wait_s in rows:
        if batch_id in seen:
            continue
        seen.add(batch_id)
        old = known.get(batch_id)
        if old is None:
            changed.append(Glidein(site, batch_id, entry, shape, now, running=now, wait_s=wait_s))
        elif old.running is None or old.left is not None:
            changed.append(replace(old, running=old.running or now, wait_s=wait_s, left=None))
    changed += [
        replace(old, left=now)
        for batch_id, old in known.items()
        if old.running is not None and old.left is None and batch_id not in seen and (old.entry, old.shape) in listed
    ]
    return changed


def after_reading(
    known: Mapping[tuple[str, str], Glidein],
    rows: Iterable[tuple[str, str, str, str, int | None, int]],
    now: int,
) -> list[Glidein]:
    """Return the glideins that a result of the collector changes. `known`: by (site, batch id).

    rows: those of supply.registered. A glidein that registers again counts as never missing: after a restart of the
    collector, all glideins register again.
    """
    changed = []
    seen = set()
    for site, entry, shape, batch_id, started, last_update in rows:
        name = (site, batch_id)
        if name in seen:
            continue
        seen.add(name)
        old = known.get(name) or Glidein(site, batch_id, entry, shape, now)
        new = replace(old, registered=old.registered or now, missing_since=None)
        if old.registered is None:
            new = replace(new, started=started, last_update=last_update)
        elif only_early_updates(old):  # later updates change no rule's result, and need not be stored
            new = replace(new, last_update=max(last_update, old.last_update or 0))
        if new != old:
            changed.append(new)
    for name, old in known.items():
        if name in seen:
            continue
        if old.registered is not None and old.missing_since is None:
            changed.append(replace(old, missing_since=now))
        elif old.registered is None and old.running is not None and old.left is None:
            changed.append(replace(old, checked_at=now))
    return changed


def never_registered(glidein: Glidein, ending: Mapping[str, Any] | None = None) -> bool:
    """Return whether the glidein ran without registering; its own summary (ending) decides if there is one.

    Otherwise the collector must have been read while it ran: once if it has left, and after GRACE_S if it still runs.
    If the collector does not respond, no glidein counts. A registered glidein lives longer than one refresh because
    of its idle timeout.
    """
    if ending is not None and glidein.registered is None:
        return ending["registered"] is None
    if glidein.registered is not None or glidein.running is None or glidein.checked_at is None:
        return False
    return glidein.left is not None or glidein.checked_at - glidein.running >= GRACE_S


def only_early_updates(glidein: Glidein) -> bool:
    """Return whether the last update came less than EARLY_S after the start."""
    return glidein.started is not None and (glidein.last_update or 0) - glidein.started < EARLY_S


def jobs_failing(ending: Mapping[str, Any] | None) -> bool:
    """Return whether the glidein ended because jobs failed fast, without a good job: then the node is the cause."""
    return ending is not None and ending["exit_status"] == JOBS_FAILING and not ending["good"]


def ended_early(glidein: Glidein, ending: Mapping[str, Any] | None = None) -> bool:
    """Return whether the glidein registered and ended within EARLY_S of its start.

    With its own summary (ending): it ended that early or because its jobs failed, and had no good job. Without: its
    last update came that early. A startd sends an update at least every 300 s and is read once per refresh, so a
    glidein that lived up to one refresh longer may count, too.
    """
    if ending is not None:
        registered = ending["registered"] is not None or glidein.registered is not None
        early = jobs_failing(ending) or ending["ended"] - ending["started"] < EARLY_S
        return registered and early and not ending["good"]
    return glidein.missing_since is not None and only_early_updates(glidein)


def unlisted(
    endings: Mapping[tuple[str, str], Mapping[str, Any]], listed: Collection[tuple[str, str]], now: int
) -> Iterable[Glidein]:
    """Return the ended glideins that no report listed as running and no result of the collector had.

    They started and ended between two cycles. listed: the (site, batch id) of all others. A glidein that started before
    the window is not new. One that a signal ended does not count: it may have started while a cycle cancelled it.
    """
    for (site, batch_id), ending in endings.items():
        if (
            (site, batch_id) not in listed
            and ending["started"] >= now - WINDOW_S
            and ending["exit_status"] not in SIGNALS
        ):
            seen = min(ending["ended"], now)
            yield Glidein(site, batch_id, ending["entry"], ending["shape"], seen, running=seen, left=seen)


def failures(pairs: Iterable[tuple[Glidein, Mapping[str, Any] | None]]) -> list[dict[str, Any]]:
    """Return [{"exit_status", "count", "last", "reason"}] of failed glideins, the most frequent status first.

    pairs: glideins with their own summaries. last, reason: the time and the reason of the last one. An end with status
    0 or by a signal has no cause to correct.
    """
    found: dict[int, dict[str, Any]] = {}
    for glidein, ending in pairs:
        if ending is None or ending["exit_status"] in (0, *SIGNALS):
            continue
        if not never_registered(glidein, ending) and not ended_early(glidein, ending):
            continue
        status = ending["exit_status"]
        row = found.setdefault(status, {"exit_status": status, "count": 0, "last": 0, "reason": ""})
        row["count"] += 1
        if ending["ended"] >= row["last"]:
            row.update(last=ending["ended"], reason=ending["reason"])
    return sorted(found.values(), key=lambda row: (-row["count"], -row["last"]))[:MAX_FAILURES]


def plan_of(report: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of one entry's report that is stored as its plan."""
    return {"as_of": report["as_of"], **{name: entry.get(name) for name in _PLAN}}


def with_plan(plans: list[dict[str, Any]], plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the last MAX_PLANS, oldest first. A report that is sent twice counts once."""
    return [*(old for old in plans if old["as_of"] != plan["as_of"]), plan][-MAX_PLANS:]


def summaries(
    glideins: Iterable[Glidein],
    entries: Mapping[Key, tuple[list[dict[str, Any]], int | None]],
    now: int,
    endings: Mapping[tuple[str, str], Mapping[str, Any]],
) -> dict[Key, dict[str, Any]]:
    """Return the history of each entry and shape. `entries`: {key: (plans, time of the last list of running glideins)}.

    endings: {(site, batch id): a glidein's own summary, a row of the table ended_glidein}. `started` and
    `never_registered` are None (unknown) if no report of the window listed running glideins, and no summary is of a
    glidein that was not listed.
    """
    by_key: dict[Key, list[Glidein]] = {key: [] for key in entries}
    known = {(glidein.site, glidein.batch_id): glidein for glidein in glideins}
    for glidein in (*known.values(), *unlisted(endings, known, now)):
        if glidein.first_seen >= now - WINDOW_S:
            by_key.setdefault((glidein.site, glidein.entry, glidein.shape), []).append(glidein)
    return {key: _summary(found, *entries.get(key, ([], None)), now, endings) for key, found in by_key.items()}


def _summary(
    glideins: list[Glidein],
    plans: list[dict[str, Any]],
    listed_at: int | None,
    now: int,
    endings: Mapping[tuple[str, str], Mapping[str, Any]],
) -> dict[str, Any]:
    pairs = [(glidein, endings.get((glidein.site, glidein.batch_id))) for glidein in glideins]
    is_listed = listed_at is not None and listed_at >= now - WINDOW_S
    is_listed = is_listed or any(glidein.running is not None for glidein in glideins)
    waits = sorted(glidein.wait_s for glidein in glideins if glidein.wait_s is not None)
    return {
        "window_s": WINDOW_S,
        "plans": plans,
        "started": sum(glidein.running is not None for glidein in glideins) if is_listed else None,
        "registered": sum(
            glidein.registered is not None or bool(ending and ending["registered"] is not None)
            for glidein, ending in pairs
        ),
        "never_registered": sum(never_registered(*one) for one in pairs) if is_listed else None,
        "ended_early": sum(ended_early(*one) for one in pairs),
        "jobs_failing": sum(jobs_failing(ending) for _glidein, ending in pairs),
        "failures": failures(pairs),
        "wait_median_s": _rank(waits, 50),
        "wait_p90_s": _rank(waits, 90),
    }


def _rank(ordered: list[int], percent: int) -> int | None:
    """Return the percentile by the nearest-rank method; None without values."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None
