# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a site to the demand server. Pure functions.

The module glideins makes the report on the login node. If the queue already matches the plan, the controller makes the
report, without a second connection to the login node.
"""


def site_report(queue, items, submitted=(), cancelled=(), errors=()):
    """Return the report of a site for the demand server, without `summaries`.

    queue: the last result of queue_info; items: the site's items of the plan; submitted, cancelled: [{"entry",
    "shape", "count", and "job_id" of submissions}]; errors: [{"entry", "shape", "error"}].
    """
    counts = {(count["entry"], count["shape"]): count for count in queue["entries"]}
    entries = []
    for item in items:
        key = (item["entry"], item["shape"])
        mine = [error["error"] for error in errors if (error["entry"], error["shape"]) == key]
        entries.append(
            {
                "entry": item["entry"],
                "shape": item["shape"],
                "credential_expires": queue.get("credential_expires"),
                "present": item["present"],
                "wanted": item.get("wanted"),
                "queued": counts[key]["queued"],
                "running": counts[key]["running"],
                "sick": counts[key]["sick"],
                "sick_reasons": counts[key]["sick_reasons"],
                "registered": item.get("registered", 0),
                "launched": _total(submitted, key),
                "cancelled": _total(cancelled, key),
                "reason": item.get("reason") or "",
                "error": " ".join(mine) or None,
                # For the core-hours.
                "cpus": item.get("cpus"),
                "running_since": counts[key].get("running_since"),
                "running_glideins": counts[key]["running_glideins"],
            }
        )
    general = [error["error"] for error in errors if error["entry"] is None]
    return {
        "as_of": queue["as_of"],
        "error": " ".join(general) or None,
        "entries": entries,
        "orphans": sum(queue["orphans"].values()),
    }


def _total(changes, key):
    """Return the sum of the counts for (entry, shape), without submissions of unknown outcome."""
    return sum(
        change["count"]
        for change in changes
        if (change["entry"], change["shape"]) == key and change.get("job_id", "") is not None
    )
