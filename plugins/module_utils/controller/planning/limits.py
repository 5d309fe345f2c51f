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
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import EntryShape
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import (
    CoreHours,
    Key,
    Path,
    Pool,
    Site,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import listed
from ansible_collections.glidein.ops.plugins.module_utils.room import Room, tightest_of

if TYPE_CHECKING:
    from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.guard import UnprovenLimit
    from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.plan import PlanItem

# An entry, (site, entry), or a site, (site, None).
BudgetPath = Tuple[str, Optional[str]]
Budgets = Dict[BudgetPath, "Budget"]
# (shape, kept, ordered): see Usage.
_Used = Tuple[EntryShape, int, int]

# queued: glideins that wait; total: glideins in the queue, waiting or running; per_cycle: glideins that this plan
# orders; cores and gpus: those of all glideins in the queue.
LIMIT_KEYS = ("queued", "total", "per_cycle", "cores", "gpus")

# A module of Ansible sets the locale of its user, which strftime would follow.
_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip

# The keys of the room in this period and in the next one.
_NOW, _NEXT = "budget", "next_budget"


class Usage(NamedTuple):
    """The limits, and what the glideins that are to stay use of them.

    sites: of Pool; shapes: each EntryShape; kept: by shape, queued glideins that stay and those that
    the plan has ordered so far; ordered: by shape, the ordered ones among them; limits: of the deployment; unproven:
    {(site, entry): guard.UnprovenLimit}; budgets: of budgets_of.
    """

    sites: Sequence[Site]
    shapes: Sequence[EntryShape]
    kept: List[int]
    ordered: List[int]
    limits: Dict[str, int]
    unproven: Dict[Path, "UnprovenLimit"]
    budgets: Budgets = {}

    @classmethod
    def of(
        cls,
        sites: Sequence[Site],
        shapes: Sequence[EntryShape],
        kept: List[int],
        limits: Dict[str, int],
        unproven: "Dict[Path, UnprovenLimit]",
        budgets: "Optional[Dict[BudgetPath, Budget]]" = None,
    ) -> "Usage":
        """Return the Usage; all glideins beyond those that are queued now are ordered by this plan."""
        numbers = zip(shapes, kept)
        ordered = [max(0, number - shape.counts["queued"]) if shape.counts else 0 for shape, number in numbers]
        return cls(sites, shapes, kept, ordered, limits, unproven, budgets or {})


class Headroom:
    """The room for further glideins of each EntryShape within all limits. It shrinks as glideins are ordered."""

    def __init__(self, usage: Usage) -> None:
        by_entry: Dict[Path, List[_Used]] = {}
        by_site: Dict[str, List[_Used]] = {}
        for shape, kept, ordered in zip(usage.shapes, usage.kept, usage.ordered):
            used = (shape, kept, ordered)
            by_entry.setdefault(shape.path, []).append(used)
            by_site.setdefault(shape.path[0], []).append(used)
        shared = {}
        for site in usage.sites:
            shared[site.name] = _used(by_site.get(site.name, ()), site.orphans)
        deployment = [Room.of("deployment limit", usage.limits, _total(shared.values()))] if usage.limits else []
        budget_rooms = _budget_rooms(usage)
        self._rooms: Dict[Path, List[Union[Room, BudgetRoom]]] = {}
        for site in usage.sites:
            of_site = Room.of(f"{site.name} site limit", site.config["limits"], shared[site.name])
            for entry in site.config["entries"].values():
                path = (site.name, entry["name"])
                here = by_entry.get(path, ())
                rooms = [Room.of(f"{'/'.join(path)} limit", entry["limits"], _used(here))]
                if path in usage.unproven:
                    rooms.append(_room_for_unproven(here, usage.unproven[path]))
                of_budgets = [budget_rooms[one] for one in (path, (site.name, None)) if one in budget_rooms]
                self._rooms[path] = [*rooms, of_site, *deployment, *of_budgets]

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


def _budget_rooms(usage: Usage) -> "Dict[BudgetPath, BudgetRoom]":
    """Return {path: BudgetRoom}."""
    used = list(zip(usage.shapes, usage.kept))
    return {
        path: budget.room([(shape, kept) for shape, kept in used if budget.includes(shape)])
        for path, budget in usage.budgets.items()
    }


def _room_for_unproven(here: Iterable[_Used], limit: "UnprovenLimit") -> Room:
    """Return the Room for glideins that have not proven that the entry works."""
    unproven = sum(kept + shape.starting + shape.late for shape, kept, _ordered in here if shape.counts)
    return Room({"unproven": limit.reason}, {"unproven": max(0, limit.glideins - unproven)})


def _used(here: Iterable[_Used], orphans: Optional[Dict[str, int]] = None) -> Dict[str, int]:
    """Return what glideins use of limits. here: [(shape, kept, ordered)]; orphans: of unknown size, or None."""
    used = dict.fromkeys(LIMIT_KEYS, 0)
    for shape, kept, ordered in here:
        waiting, started, new = _glideins(shape, kept, ordered)
        used["queued"] += waiting
        used["total"] += waiting + started
        used["per_cycle"] += new
        used["cores"] += (waiting + started) * shape.size[0]
        used["gpus"] += (waiting + started) * shape.size[3]
    if orphans:
        used["queued"] += orphans["queued"]
        used["total"] += orphans["queued"] + orphans["running"]
    return used


def _glideins(shape: EntryShape, kept: int, ordered: int) -> Tuple[int, int, int]:
    """Return (glideins that wait, glideins that have started, glideins ordered by this plan).

    If the queue is not known, the last report or the collector shows more glideins; both numbers may be too low.
    """
    if shape.counts is None:
        last = shape.plans[-1] if shape.plans else {}
        queued, running = last.get("queued") or 0, last.get("running") or 0
        started = max(shape.registered, running)
        return max(0, queued + running - started), started, 0
    return kept + shape.counts["sick"], shape.counts["running"] + shape.counts["completing"], ordered


def _total(all_used: Iterable[Dict[str, int]]) -> Dict[str, int]:
    total = dict.fromkeys(LIMIT_KEYS, 0)
    for used in all_used:
        for key in LIMIT_KEYS:
            total[key] += used[key]
    return total


class Budget(NamedTuple):
    """The budget of an entry, path (site, entry), or of a site, path (site, None).

    name, next_name: this period and the next one as text; end_s: epoch seconds of its end; now_s: the time of the plan;
    used_s: core-seconds that were used in this period; reserved_s, reserved_next_s: those that running glideins will
    use until the end of the period, and after it; unknown: why used_s is not known, or None.
    """

    path: BudgetPath
    core_hours: int
    name: str
    next_name: str
    now_s: float
    end_s: int
    used_s: int = 0
    reserved_s: float = 0
    reserved_next_s: float = 0
    unknown: Optional[str] = None

    @property
    def label(self) -> str:
        """Return the entry or site that the budget belongs to."""
        return "/".join(part for part in self.path if part)

    def includes(self, shape: EntryShape) -> bool:
        """Return whether the budget is that of the shape's entry or site."""
        return shape.path[0] == self.path[0] and self.path[1] in (None, shape.path[1])

    def costs(self, shape: EntryShape) -> Dict[str, float]:
        """Return {key: core-seconds} that a glidein of a shape which has not started may use at most."""
        walltime_s = shape.entry["walltime_s"]
        return {_NOW: shape.size[0] * min(walltime_s, self.end_s - self.now_s), _NEXT: shape.size[0] * walltime_s}

    def room(self, here: Iterable[Tuple[EntryShape, int]]) -> "BudgetRoom":
        """Return the BudgetRoom. here: [(shape, queued glideins that stay or are ordered)] of the entry or site."""
        if self.unknown:
            why = f"{self.label} gets no new glidein while its used core-hours are not known ({self.unknown})"
            return BudgetRoom(self, {_NOW: why}, {_NOW: 0})
        reasons = {
            key: f"{self.label} budget of {self.core_hours:,} core-hours in {name} reached"
            for key, name in ((_NOW, self.name), (_NEXT, self.next_name))
        }
        limit_s = self.core_hours * 3600
        room = BudgetRoom(
            self,
            reasons,
            {_NOW: limit_s - self.used_s - self.reserved_s, _NEXT: limit_s - self.reserved_next_s},
        )
        for shape, queued in here:
            # A sick glidein may start when it is released.
            room.take(queued + (shape.counts["sick"] if shape.counts else 0), shape)
        return room


class BudgetRoom:
    """The core-seconds that a budget leaves; below zero if it is exceeded."""

    def __init__(self, budget: Budget, reasons: Dict[str, str], left: Dict[str, float]) -> None:
        self.reasons = reasons
        self.left = left
        self._budget = budget

    def tightest(self, shape: EntryShape) -> Tuple[int, str]:
        """Return (glideins of a shape that there is room for, key of the period that decides)."""
        costs = self._budget.costs(shape)
        return min((max(0, int(left // costs[key])), key) for key, left in self.left.items())

    def take(self, glideins: int, shape: EntryShape) -> None:
        """Subtract the core-seconds of glideins that have not started."""
        costs = self._budget.costs(shape)
        for key in self.left:
            self.left[key] -= glideins * costs[key]


def budgets_of(pool: Pool, shapes: Sequence[EntryShape], now_s: float) -> Budgets:
    """Return {path: Budget} of the entries and sites that have one. pool: input.Pool; shapes: each EntryShape."""
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
    rooms = {
        path: budget.room([(shape, 0) for shape, _queued in wanted if budget.includes(shape)])
        for path, budget in known.items()
    }
    found = []
    for shape, queued in wanted:
        mine = [rooms[path] for path in (shape.path, (shape.path[0], None)) if path in rooms]
        reason = None
        for room in mine:
            number, key = room.tightest(shape)
            if number < queued:
                queued, reason = number, room.reasons[key]
        for room in mine:
            room.take(queued, shape)
        found.append((queued, reason))
    return found


def with_budget_notes(items: "List[PlanItem]", shapes: Sequence[EntryShape], budgets: Budgets) -> "List[PlanItem]":
    """Return the PlanItem of each shape with the state of its budgets as notes."""
    if not budgets:
        return items
    rooms = {
        path: budget.room([(shape, one.queued) for one, shape in zip(items, shapes) if budget.includes(shape)])
        for path, budget in budgets.items()
    }
    after = []
    for one, shape in zip(items, shapes):
        paths = [path for path in (shape.path, (shape.path[0], None)) if path in budgets]
        notes = [_note(budgets[path], rooms[path], shape) for path in paths]
        after.append(one._replace(notes=(*one.notes, *notes)))
    return after


def unknown_budgets(budgets: Budgets) -> Set[BudgetPath]:
    """Return the paths of the budgets whose used core-hours are not known."""
    return {path for path, budget in budgets.items() if budget.unknown}


def is_budget_unknown(shape: EntryShape, paths: Set[BudgetPath]) -> bool:
    """Return whether the used core-hours of the shape's entry or site are not known. paths: of unknown_budgets."""
    return shape.path in paths or (shape.path[0], None) in paths


def _budget(
    path: BudgetPath, raw: Dict[str, Any], shapes: Sequence[EntryShape], core_hours: CoreHours, now_s: float
) -> Budget:
    """Return the Budget. core_hours: of input.read_core_hours."""
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
    reserved_s: float = 0
    reserved_next_s: float = 0
    left_s = end_s - now_s
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
    walltime_s, left = shape.entry["walltime_s"], shape.counts["running"]
    found = []
    # The youngest first: if more starts than running glideins are known, the result is not too low.
    for age_s, glideins in sorted(shape.counts["running_ages"] or []):
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
        running = shape.size[0] * shape.counts["running"] if shape.counts else 0
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
