# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks what the demand server and queue_info hand to the plan, and takes from it what planning needs."""

from ansible_collections.glidein.ops.plugins.module_utils.entries import RESOURCES
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

_STATES = ("queued", "running", "completing", "sick")


def read_groups(demand):
    """Return the demand groups: {"id", "count", "cpus", "memory_mb", "disk_mb", "gpus", "max_runtime_s"}.

    Jobs of schedds that have not answered for long (`stale`) are not counted: nothing is ordered for them. Groups
    without jobs are left out. Raises InputError that names the first wrong place.
    """
    groups = []
    seen = set()
    for number, raw in enumerate(_list(demand, "groups", "demand.groups")):
        where = f"demand.groups[{number}]"
        group_id = raw.get("id") if isinstance(raw, dict) else None
        if not isinstance(group_id, str) or not group_id or group_id in seen:
            raise InputError(f"{where}.id: {group_id!r} is not accepted; allowed: text that no other group has")
        seen.add(group_id)
        stale = _whole(raw, "stale", where) if "stale" in raw else 0
        group = {"id": group_id, "count": max(0, _whole(raw, "count", where) - stale)}
        for resource in RESOURCES:
            group[resource] = _whole(raw, resource, where, minimum=1 if resource == "cpus" else 0)
        group["max_runtime_s"] = None if raw.get("max_runtime_s") is None else _whole(raw, "max_runtime_s", where)
        if group["count"]:
            groups.append(group)
    return groups


def read_supply(supply):
    """Return {(site, entry, shape): {"registered", "free": [{cpus, memory_mb, disk_mb, gpus, count}]}}."""
    result = {}
    for number, raw in enumerate(_list(supply, "entries", "supply.entries")):
        where = f"supply.entries[{number}]"
        if not isinstance(raw, dict):
            raise InputError(f"{where}: {raw!r} is not accepted; allowed: a mapping")
        slots = []
        for index, slot in enumerate(_list(raw, "free", f"{where}.free")):
            slot_where = f"{where}.free[{index}]"
            slots.append({key: _whole(slot, key, slot_where) for key in RESOURCES + ("count",)})
        key = (raw.get("site"), raw.get("entry"), raw.get("shape"))
        result[key] = {"registered": _whole(raw, "registered", where), "free": slots}
    return result


def read_queue(queue, site):
    """Return {(entry, shape): {"queued", "running", "completing", "sick"}, "orphans": {"queued", "running"}}.

    {} without a reading. Entries that the site does not have are left out. Raises InputError.
    """
    if not queue:
        return {}
    if queue.get("site") != site["site"]:
        raise InputError(
            f"queue.site: {queue.get('site')!r} is not accepted; allowed: {site['site']!r}, the site "
            "that it is given for"
        )
    counts = {"orphans": {"queued": 0, "running": 0}}
    if queue.get("orphans"):
        counts["orphans"] = {key: _whole(queue["orphans"], key, "queue.orphans") for key in ("queued", "running")}
    for number, raw in enumerate(_list(queue, "entries", "queue.entries")):
        key = (raw.get("entry"), raw.get("shape"))
        if key[0] in site["entries"] and key[1] in site["entries"][key[0]]["shapes"]:
            counts[key] = {state: _whole(raw, state, f"queue.entries[{number}]") for state in _STATES}
    return counts


def _list(mapping, key, where):
    value = mapping.get(key) if isinstance(mapping, dict) else None
    if not isinstance(value, list):
        raise InputError(f"{where}: {value!r} is not accepted; allowed: a list")
    return value


def _whole(mapping, key, where, minimum=0):
    value = mapping.get(key) if isinstance(mapping, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise InputError(f"{where}.{key}: {value!r} is not accepted; allowed: a whole number, {minimum} or more")
    return value
