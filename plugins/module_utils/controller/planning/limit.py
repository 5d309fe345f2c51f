# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit: the room for further glideins of an entry, a site and the deployment."""

from typing import Any, NamedTuple

# queued: glideins that wait; total: glideins in the queue, waiting or running; per_cycle: glideins that this plan
# orders; cores and gpus: those of all glideins in the queue.
LIMIT_KEYS = ("queued", "total", "per_cycle", "cores", "gpus")


class Usage(NamedTuple):
    """The limits, and what the glideins that are to stay use of them.

    sites: of make_plan, with counts; shapes: each EntryShape; kept: by shape, queued glideins that stay and those that
    the plan has ordered so far; ordered: by shape, the ordered ones among them; limits: of the deployment; unproven:
    {(site, entry): UnprovenLimit}; budgets: of budget.budgets_of.
    """

    sites: Any
    shapes: Any
    kept: Any
    ordered: Any
    limits: dict
    unproven: dict
    budgets: dict = {}

    @classmethod
    def of(cls, sites, shapes, kept, limits, unproven, budgets=()):
        """Return the Usage; all glideins beyond those that are queued now are ordered by this plan."""
        numbers = zip(shapes, kept)
        ordered = [max(0, number - shape.counts["queued"]) if shape.counts else 0 for shape, number in numbers]
        return cls(sites, shapes, kept, ordered, limits, unproven, dict(budgets))


class Room:
    """The room that the limits of one entry, one site or the deployment leave.

    left: {key: number}, of LIMIT_KEYS and `unproven`; names: {key: the limit as text}.
    """

    def __init__(self, names, left):
        self.names = names
        self.left = left

    @classmethod
    def of(cls, label, limits, used):
        """Return the Room of limits, {key: number or None}, of which `used` is in use."""
        known = {key: limit for key, limit in limits.items() if limit is not None and key in used}
        names = {key: f"{label} {key} {limit}" for key, limit in known.items()}
        return cls(names, {key: max(0, limit - used[key]) for key, limit in known.items()})

    def tightest(self, shape):
        """Return (glideins of a shape that there is room for, None for any number; key of the limit that decides)."""
        size = shape.size
        least, tight = None, None
        for key, left in self.left.items():
            if key == "cores":
                left //= size[0]
            elif key == "gpus":
                if not size[3]:
                    continue
                left //= size[3]
            if least is None or left < least:
                least, tight = left, key
        return least, tight

    def take(self, glideins, shape):
        """Subtract the room of further glideins."""
        for key in self.left:
            self.left[key] -= glideins * {"cores": shape.size[0], "gpus": shape.size[3]}.get(key, 1)


class Headroom:
    """The room for further glideins of each EntryShape within all limits. It shrinks as glideins are ordered."""

    def __init__(self, usage):
        by_entry, by_site = {}, {}
        for shape, kept, ordered in zip(usage.shapes, usage.kept, usage.ordered):
            used = (shape, kept, ordered)
            by_entry.setdefault(shape.path, []).append(used)
            by_site.setdefault(shape.path[0], []).append(used)
        shared = {}
        for site in usage.sites:
            name = site["site"]["site"]
            shared[name] = _used(by_site.get(name, ()), site["orphans"])
        deployment = [Room.of("deployment limit", usage.limits, _sum(shared.values()))] if usage.limits else []
        budget_rooms = _budget_rooms(usage)
        self._rooms = {}
        for site in usage.sites:
            name = site["site"]["site"]
            of_site = Room.of(f"{name} site limit", site["site"]["limits"], shared[name])
            for entry in site["site"]["entries"].values():
                path = (name, entry["name"])
                here = by_entry.get(path, ())
                rooms = [Room.of(f"{name}/{entry['name']} limit", entry["limits"], _used(here))]
                if path in usage.unproven:
                    rooms.append(_room_for_unproven(path, here, usage.unproven[path]))
                of_budgets = [budget_rooms[one] for one in (path, (name, None)) if one in budget_rooms]
                self._rooms[path] = [*rooms, of_site, *deployment, *of_budgets]

    def left(self, shape):
        """Return how many more glideins of a shape all limits admit, or None for any number."""
        return 0 if shape.drained or shape.never_starts else self._tightest(shape)[0]

    def name(self, shape):
        """Return the name of the limit that is the tightest for a shape, or None."""
        if shape.drained:
            return f"{'/'.join(shape.path)} limit of 0 new glideins while drained"
        if shape.never_starts:
            return shape.never_starts
        _left, room, key = self._tightest(shape)
        return room.names[key] if room else None

    def take(self, shape, glideins):
        """Subtract the room of further glideins of a shape."""
        for room in self._rooms[shape.path]:
            room.take(glideins, shape)

    def _tightest(self, shape):
        found = (None, None, None)
        for room in self._rooms[shape.path]:
            left, key = room.tightest(shape)
            if left is not None and (found[0] is None or left < found[0]):
                found = (left, room, key)
        return found


def _budget_rooms(usage):
    """Return {path: BudgetRoom}."""
    used = list(zip(usage.shapes, usage.kept))
    return {
        path: budget.room([(shape, kept) for shape, kept in used if budget.includes(shape)])
        for path, budget in usage.budgets.items()
    }


def _room_for_unproven(path, here, limit):
    """Return the Room for glideins that have not proven that the entry works."""
    unproven = sum(kept + shape.starting + shape.late for shape, kept, _ordered in here if shape.counts)
    return Room({"unproven": f"{'/'.join(path)} {limit.reason}"}, {"unproven": max(0, limit.glideins - unproven)})


def _used(here, orphans=None):
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


def _glideins(shape, kept, ordered):
    """Return (glideins that wait, glideins that have started, glideins ordered by this plan).

    If the queue is not known, the last report or the collector shows more glideins; both numbers may be too low.
    """
    if shape.counts is None:
        last = shape.plans[-1] if shape.plans else {}
        queued, running = last.get("queued") or 0, last.get("running") or 0
        started = max(shape.registered, running)
        return max(0, queued + running - started), started, 0
    return kept + shape.counts["sick"], shape.counts["running"] + shape.counts["completing"], ordered


def _sum(all_used):
    total = dict.fromkeys(LIMIT_KEYS, 0)
    for used in all_used:
        for key in LIMIT_KEYS:
            total[key] += used[key]
    return total
