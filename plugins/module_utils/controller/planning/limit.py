# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limit: how many more glideins an entry, a site and the deployment may get."""

# What a limit can be of: glideins that wait, all that are in the queue, those ordered by this plan, and what all have.
LIMIT_KEYS = ("queued", "total", "per_cycle", "cores", "gpus")


class Room:
    """What is left of some limits, {key of LIMIT_KEYS, or any other that is used: number or None}."""

    def __init__(self, label, limits, used):
        self.label = label
        self.limits = limits
        self.left = {
            key: max(0, limit - used[key]) for key, limit in limits.items() if limit is not None and key in used
        }

    def tightest(self, size):
        """Return (glideins of `size` that may still come, or None for any number; key of the limit that says so)."""
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

    def name(self, key):
        """Return what people call a limit."""
        return f"{self.label} {key} {self.limits[key]}"

    def take(self, glideins, size):
        """Use up room for so many more glideins."""
        for key in self.left:
            self.left[key] -= glideins * {"cores": size[0], "gpus": size[3]}.get(key, 1)


class Ramp(Room):
    """Room for glideins of an entry that have not proven that they work; `why` it is not more."""

    def __init__(self, ceiling, why, unproven):
        super().__init__("", {"unproven": ceiling}, {"unproven": unproven})
        self.why = why

    def name(self, key):
        return self.why


class Rooms:
    """The room of all targets. `kept` and `ordered` of the targets say what there is to be."""

    def __init__(self, sites, targets, limits, ceilings):
        """sites: for make_plan; limits: of the deployment; ceilings: {(site, entry): guard.Ceiling}."""
        by_entry, by_site = {}, {}
        for target in targets:
            by_entry.setdefault(target.key[:2], []).append(target)
            by_site.setdefault(target.site, []).append(target)
        deployment = (
            Room("deployment limit", limits, _sum([_used(site, by_site) for site in sites])) if limits else None
        )
        self._rooms = {}
        for site in sites:
            name = site["site"]["site"]
            shared = [Room(f"{name} site limit", site["site"]["limits"], _used(site, by_site))]
            shared += [deployment] if deployment else []
            for entry in site["site"]["entries"].values():
                here = by_entry.get((name, entry["name"]), [])
                rooms = [Room(f"{name}/{entry['name']} limit", entry["limits"], _of_targets(here))]
                ceiling = ceilings.get((name, entry["name"]))
                if ceiling:
                    unproven = sum(target.kept + target.starting + target.late for target in here if target.counts)
                    rooms.append(Ramp(ceiling.glideins, f"{name}/{entry['name']} {ceiling.why}", unproven))
                self._rooms[(name, entry["name"])] = rooms + shared

    def left(self, target):
        """Return how many glideins of a target all limits still admit, or None for any number."""
        return 0 if target.closed else self._tightest(target)[0]

    def name(self, target):
        """Return the name of the limit that is the tightest for a target, or None."""
        if target.closed:
            return target.closed
        unused, room, key = self._tightest(target)
        return room.name(key) if room else None

    def _tightest(self, target):
        found = (None, None, None)
        for room in self._rooms[target.key[:2]]:
            left, key = room.tightest(target.size)
            if left is not None and (found[0] is None or left < found[0]):
                found = (left, room, key)
        return found

    def take(self, target, glideins):
        """Use up room for so many more glideins of a target."""
        for room in self._rooms[target.key[:2]]:
            room.take(glideins, target.size)


def _used(site, by_site):
    """Return what a whole site uses of limits: also its orphans, whose size is not known."""
    used = _of_targets(by_site.get(site["site"]["site"], []))
    orphans = site["orphans"]
    used["queued"] += orphans["queued"]
    used["total"] += orphans["queued"] + orphans["running"]
    return used


def _of_targets(targets):
    used = dict.fromkeys(LIMIT_KEYS, 0)
    for target in targets:
        waiting, started, ordered = target.usage()
        used["queued"] += waiting
        used["total"] += waiting + started
        used["per_cycle"] += ordered
        used["cores"] += (waiting + started) * target.size[0]
        used["gpus"] += (waiting + started) * target.size[3]
    return used


def _sum(all_used):
    total = dict.fromkeys(LIMIT_KEYS, 0)
    for used in all_used:
        for key in LIMIT_KEYS:
            total[key] += used[key]
    return total
