# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits: the room for further glideins of an entry, a site and the deployment, and what their budgets leave.

A budget is the core-hours that an entry or a site may use in a month or year of UTC. The demand server counts what
running glideins have used. The plan reserves what they will still use, and the whole walltime of queued and new
glideins. Of that, the part up to the end of the period must fit into this period's budget. The part after it must fit
into the next period's budget; queued glideins may start at any time, so their whole walltime counts there, too.
"""

import datetime
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar

from ansible_collections.glidein.ops.plugins.module_utils.common.room import Room, tightest_of
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import EntryShape
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import (
    LIMIT_KEYS,
    CoreHours,
    Key,
    Path,
    Pool,
    Site,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import listed

# An entry, (site, entry), or a site, (site, None).
BudgetPath = Tuple[str, Optional[str]]
Budgets = Dict[BudgetPath, "Budget"]
# Shapes with their queued glideins that stay or are ordered.
_Queued = Sequence[Tuple[EntryShape, int]]
_Found = TypeVar("_Found")

# A module of Ansible sets the locale of its user, which strftime would follow.
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

# The keys of the room in this period and in the next one.
_NOW, _NEXT = "budget", "next_budget"


class UnprovenLimit(NamedTuple):
    """The unproven glideins that an entry may have.

    An unproven glidein is queued, is starting, or runs and has not registered in time.
    """

    glideins: int
    reason: str  # why no more are ordered
    is_failing: bool  # whether the entry's glideins fail, so that all others are withdrawn


class Usage(NamedTuple):
    """The limits, and the glideins that use them."""

    sites: Sequence[Site]
    shapes: Sequence[EntryShape]
    kept: List[int]  # by shape, queued glideins that stay or that the plan has ordered so far
    limits: Dict[str, Optional[int]]  # of the deployment
    unproven: Dict[Path, UnprovenLimit]
    budgets: Budgets = {}


class Headroom:
    """The room for further glideins of each EntryShape within all limits. It shrinks as glideins are ordered."""

    def __init__(self, usage: Usage) -> None:
        by_entry: Dict[Path, List[Tuple[EntryShape, int]]] = {}
        by_site: Dict[str, List[Tuple[EntryShape, int]]] = {}
        for shape, kept in zip(usage.shapes, usage.kept):
            by_entry.setdefault(shape.path, []).append((shape, kept))
            by_site.setdefault(shape.path[0], []).append((shape, kept))
        shared = {site.name: _used(by_site.get(site.name, ()), site.without_shape) for site in usage.sites}
        in_all = {key: sum(used[key] for used in shared.values()) for key in LIMIT_KEYS}
        deployment = Room.of("deployment limit", usage.limits, in_all)
        budget_rooms = _budget_rooms(usage.budgets, list(zip(usage.shapes, usage.kept)))
        self._rooms: Dict[Path, List[Room]] = {}
        for site in usage.sites:
            of_site = Room.of(f"{site.name} site limit", site.config["limits"], shared[site.name])
            for entry in site.config["entries"].values():
                path = (site.name, entry["name"])
                here = by_entry.get(path, ())
                rooms = [Room.of(f"{'/'.join(path)} limit", entry["limits"], _used(here))]
                if path in usage.unproven:
                    rooms.append(_room_for_unproven(here, usage.unproven[path]))
                self._rooms[path] = [*rooms, of_site, deployment, *_of_path(path, budget_rooms)]

    def left(self, shape: EntryShape) -> Optional[int]:
        """Return how many more glideins of a shape all limits admit, or None for any number."""
        return 0 if shape.drained or shape.never_starts else tightest_of(self._rooms[shape.path], shape)[0]

    def reason(self, shape: EntryShape) -> str:
        """Return why no more glideins of a shape are ordered than `left`, as text of its tightest limit."""
        if shape.drained:
            return f"{'/'.join(shape.path)} gets no new glidein while it is drained"
        return shape.never_starts or tightest_of(self._rooms[shape.path], shape)[1]

    def take(self, shape: EntryShape, glideins: int) -> None:
        """Subtract the room of further glideins of a shape."""
        for room in self._rooms[shape.path]:
            room.take(glideins, shape)


def _room_for_unproven(here: _Queued, limit: UnprovenLimit) -> Room:
    """Return the Room for glideins that have not proven that the entry works."""
    unproven = sum(kept + shape.starting + shape.late for shape, kept in here if shape.counts)
    return Room({"unproven": limit.reason}, {"unproven": max(0, limit.glideins - unproven)})


def _used(here: _Queued, without_shape: Optional[Dict[str, int]] = None) -> Dict[str, int]:
    """Return what glideins use of limits. without_shape: of Site; the cores of most are not known, their GPUs never."""
    used = dict.fromkeys(LIMIT_KEYS, 0)
    for shape, kept in here:
        waiting, started, ordered = _glideins(shape, kept)
        used["queued"] += waiting
        used["total"] += waiting + started
        used["per_cycle"] += ordered
        used["cores"] += (waiting + started) * shape.size[0]
        used["gpus"] += (waiting + started) * shape.size[3]
    if without_shape:
        used["queued"] += without_shape["queued"]
        used["total"] += without_shape["queued"] + without_shape["running"]
        used["cores"] += without_shape.get("cores", 0)
    return used


def _glideins(shape: EntryShape, kept: int) -> Tuple[int, int, int]:
    """Return (glideins that wait, glideins that have started, glideins ordered by this plan)."""
    counts = shape.counts
    if counts is None:
        return (*shape.supply.last_known, 0)
    return kept + counts.sick, counts.running + counts.completing, max(0, kept - counts.queued)


class Budget(NamedTuple):
    """The budget of an entry or a site."""

    path: BudgetPath
    core_hours: int
    name: str  # this period as text
    next_name: str
    now_s: float
    end_s: int  # of this period
    used_s: int = 0  # core-seconds that were used in this period
    reserved_s: float = 0  # those that running glideins will use until the end of the period
    reserved_next_s: float = 0  # and after it
    unknown: Optional[str] = None  # why used_s is not known

    def includes(self, shape: EntryShape) -> bool:
        """Return whether the budget is that of the shape's entry or site."""
        return shape.path[0] == self.path[0] and self.path[1] in (None, shape.path[1])


class BudgetRoom(Room):
    """The core-seconds that a budget leaves in this period and in the next one; below zero if it is exceeded."""

    def __init__(self, budget: Budget, queued: _Queued) -> None:
        """queued: glideins of any entries; those of others do not count."""
        super().__init__({}, {})
        self._budget = budget
        label = "/".join(part for part in budget.path if part)
        if budget.unknown:
            self.reasons[_NOW] = (
                f"{label} gets no new glidein while its used core-hours are not known ({budget.unknown})"
            )
            self.left[_NOW] = 0
            return
        for key, name in ((_NOW, budget.name), (_NEXT, budget.next_name)):
            self.reasons[key] = f"{label} budget of {budget.core_hours:,} core-hours in {name} reached"
        self.left[_NOW] = budget.core_hours * 3600 - budget.used_s - budget.reserved_s
        self.left[_NEXT] = budget.core_hours * 3600 - budget.reserved_next_s
        for shape, glideins in queued:
            if budget.includes(shape):
                # A sick glidein may start when it is released.
                self.take(glideins + (shape.counts.sick if shape.counts else 0), shape)

    def each(self, key: str, shape: EntryShape) -> float:
        """Return the core-seconds of a period that a glidein of a shape which has not started may use at most."""
        walltime_s = shape.entry["walltime_s"]
        if key == _NOW:
            walltime_s = min(walltime_s, self._budget.end_s - self._budget.now_s)
        return shape.size[0] * walltime_s


def budgets_of(pool: Pool, shapes: Sequence[EntryShape], now_s: float) -> Budgets:
    """Return {path: Budget} of the entries and sites that have one."""
    budgets: Budgets = {}
    for site in pool.sites:
        raws: List[Tuple[BudgetPath, Any]] = [((site.name, None), site.config.get("budget"))]
        raws += [((site.name, entry["name"]), entry.get("budget")) for entry in site.config["entries"].values()]
        for path, raw in raws:
            if raw:
                budgets[path] = _budget(path, raw, shapes, pool.core_hours, now_s)
    return budgets


def withdraw_beyond_budgets(shapes: Tuple[EntryShape, ...], budgets: Budgets) -> Tuple[EntryShape, ...]:
    """Return the shapes without the queued glideins that the budgets have no room for; the first shapes keep theirs."""
    if not budgets:
        return shapes
    fitting = fit_in_budgets([(shape, shape.queued) for shape in shapes], budgets)
    return tuple(
        shape._replace(queued=queued, withdrawn=shape.withdrawn or f"withdrawn: {reason}")
        if reason is not None
        else shape
        for shape, (queued, reason) in zip(shapes, fitting)
    )


def fit_in_budgets(wanted: List[Tuple[EntryShape, int]], budgets: Budgets) -> List[Tuple[int, Optional[str]]]:
    """Return [(queued glideins that the budgets have room for, why not more, or None)].

    wanted: [(shape, queued glideins)], in the order of preference. If the used core-hours are not known, all stay.
    """
    known = {path: budget for path, budget in budgets.items() if not budget.unknown}
    rooms = _budget_rooms(known, [(shape, 0) for shape, _queued in wanted])
    found = []
    for shape, queued in wanted:
        here = _of_path(shape.path, rooms)
        left, reason = tightest_of(here, shape)
        fitting = queued if left is None else min(queued, left)
        for room in here:
            room.take(fitting, shape)
        found.append((fitting, reason if fitting < queued else None))
    return found


def with_budget_notes(items: List[PlanItem], shapes: Sequence[EntryShape], budgets: Budgets) -> List[PlanItem]:
    """Return the PlanItem of each shape with the state of its budgets as notes."""
    rooms = _budget_rooms(budgets, [(shape, item.queued) for item, shape in zip(items, shapes)])
    after = []
    for item, shape in zip(items, shapes):
        pairs = zip(_of_path(shape.path, budgets), _of_path(shape.path, rooms))
        after.append(item._replace(notes=(*item.notes, *(_note(budget, room, shape) for budget, room in pairs))))
    return after


def is_budget_unknown(shape: EntryShape, budgets: Budgets) -> bool:
    """Return whether the used core-hours of the shape's entry or site are not known."""
    return any(budget.unknown for budget in _of_path(shape.path, budgets))


def _budget_rooms(budgets: Budgets, queued: _Queued) -> Dict[BudgetPath, BudgetRoom]:
    return {path: BudgetRoom(budget, queued) for path, budget in budgets.items()}


def _of_path(path: Path, found: Dict[BudgetPath, _Found]) -> List[_Found]:
    """Return the value of the entry, then that of its site, if there are any."""
    return [found[one] for one in (path, (path[0], None)) if one in found]


def _budget(
    path: BudgetPath, raw: Dict[str, Any], shapes: Sequence[EntryShape], core_hours: CoreHours, now_s: float
) -> Budget:
    (name, begin_s), (next_name, end_s) = _period(now_s, raw["per"]), _next_period(now_s, raw["per"])
    budget = Budget(path, raw["core_hours"], name, next_name, now_s, end_s)
    if core_hours.error:
        return budget._replace(unknown=core_hours.error)
    if core_hours.begins[raw["per"]] != begin_s:
        counted = _period(core_hours.begins[raw["per"]], raw["per"])[0]
        return budget._replace(unknown=f"the demand server's are those of {counted}")
    rows = {key: row for key, row in core_hours.rows.items() if key[0] == path[0] and path[1] in (None, key[1])}
    here = [shape for shape in shapes if budget.includes(shape)]
    missing = ["/".join(shape.key) for shape in here if core_hours.rows.get(shape.key, {}).get("read_at") is None]
    if missing:
        return budget._replace(unknown=f"the demand server has no report of {listed(missing)} yet")
    reserved_s, reserved_next_s, left_s = 0.0, 0.0, end_s - now_s
    for shape in here:
        for remaining_s, glideins in _remaining(shape):
            reserved_s += glideins * shape.size[0] * min(remaining_s, left_s)
            reserved_next_s += glideins * shape.size[0] * max(0, remaining_s - left_s)
    return budget._replace(
        used_s=sum(row[raw["per"]] for row in rows.values()),
        reserved_s=reserved_s + _not_counted_yet(core_hours.rows, here, now_s),
        reserved_next_s=reserved_next_s,
    )


def _remaining(shape: EntryShape) -> List[Tuple[float, int]]:
    """Return [(seconds until the end of the walltime, running glideins)]; without a known start, the whole walltime."""
    if not shape.counts:
        return []
    walltime_s, left = shape.entry["walltime_s"], shape.counts.running
    found = []
    # The youngest first: if more starts than running glideins are known, the result is not too low.
    for age_s, glideins in sorted(shape.counts.running_ages):
        number = min(glideins, left)
        left -= number
        found.append((max(0, walltime_s - max(0, age_s)), number))
    return [*found, (walltime_s, left)]


def _not_counted_yet(rows: Dict[Key, Dict[str, Any]], here: List[EntryShape], now_s: float) -> float:
    """Return the core-seconds since the last reports, which the demand server will count with the next ones.

    rows: those of all sites; here: the shapes of the entry or site. As the server does, it takes the mean of the cores
    in the last report and those that run now. Glideins of removed shapes are in no report.
    """
    # If the server's clock is ahead of this one, the newest report shows it.
    now_s = max([now_s] + [row["read_at"] for row in rows.values() if row["read_at"] is not None])
    total = 0
    for shape in here:
        row = rows[shape.key]
        running = shape.size[0] * shape.counts.running if shape.counts else 0
        total += (now_s - row["read_at"]) * (row["cores"] + running) / 2
    return total


def _period(time_s: float, per: str) -> Tuple[str, int]:
    """Return (the month or year of a time as text, epoch seconds of its beginning)."""
    begin = datetime.datetime.fromtimestamp(time_s, datetime.timezone.utc).replace(
        day=1, hour=0, minute=0, second=0, microsecond=0
    )
    if per == "year":
        begin = begin.replace(month=1)
    month = f"{_MONTHS[begin.month - 1]} " if per == "month" else ""
    return f"{month}{begin.year}", int(begin.timestamp())


def _next_period(time_s: float, per: str) -> Tuple[str, int]:
    begin_s = _period(time_s, per)[1]
    # The longest month or year and a day are in the next one.
    return _period(begin_s + (32 if per == "month" else 367) * 86400, per)


def _note(budget: Budget, room: BudgetRoom, shape: EntryShape) -> str:
    name = "budget" if budget.path[1] else "site budget"
    if budget.unknown:
        return f"{name}: used core-hours are not known ({budget.unknown}): nothing is ordered, and queued glideins stay"
    reserved_s = budget.core_hours * 3600 - budget.used_s - room.left[_NOW]
    number = room.tightest(shape)[0]
    return (
        f"{name}: {_hours(budget.used_s)} of {budget.core_hours:,} core-hours used in {budget.name}, "
        f"{_hours(reserved_s)} reserved for queued and running glideins; room for {number} more of {shape.size[0]} "
        f"core{'s' if shape.size[0] > 1 else ''} x {_duration(shape.entry['walltime_s'])}"
    )


def _hours(core_s: float) -> str:
    hours = core_s / 3600
    return f"{hours:,.0f}" if hours >= 10 or not hours else f"{hours:.1f}"


def _duration(seconds: int) -> str:
    return f"{seconds // 3600} h" if seconds % 3600 == 0 else f"{-(-seconds // 60)} min"
