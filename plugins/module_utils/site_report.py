# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a site to the demand server, and whether a site needs a run of the module glideins. Pure functions.

The module glideins makes the report on the login node. If the queue already matches the plan, the controller makes the
report, without a second connection to the login node.
"""

_DAY_S = 86400

# Limits of the demand server for jobs that are not served: groups, and characters of a reason.
MAX_UNSERVED = 50
MAX_REASON_CHARS = 500


def site_report(queue, items, submitted=(), cancelled=(), errors=()):
    """Return the report of a site for the demand server, without `summaries`.

    queue: the last result of queue_info; items: the site's items of the plan; submitted, cancelled: [{"entry",
    "shape", "count", and "job_id" of submissions}]; errors: [{"entry", "shape", "error"}].
    """
    counts = _by_key(queue)
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


def unserved(plan, site):
    """Return {"unserved": [{"group", "count", "reason"}]}: the jobs that a plan does not serve at a site, with reasons.

    plan: of make_plan; {} without a plan. At most MAX_UNSERVED groups, those with the most jobs.
    """
    rows = plan.get("unserved")
    if rows is None:
        return {}
    rows = sorted(rows, key=lambda row: (-row["count"], row["group"]))[:MAX_UNSERVED]
    here = plan.get("unserved_at") or {}
    reasons = [here.get(row["group"], {}).get(site, row["reason"])[:MAX_REASON_CHARS] for row in rows]
    return {
        "unserved": [
            {"group": row["group"], "count": row["count"], "reason": reason} for row, reason in zip(rows, reasons)
        ]
    }


def has_work(queue, items, token, summaries_since, log_days, now_s):
    """Return whether the module glideins would change anything at a site, or report an error.

    queue: of queue_info; items: the site's items of the plan that was made with it; token: whether glideins need a
    credential file; summaries_since: the server has the summaries written up to this time (None: it needs none);
    log_days: logs older than this number of days are removed (0: never); now_s: epoch seconds.
    """
    files, counts = queue["files"], _by_key(queue)
    if not files["deployed"] or (token and not files["credential"]):
        return True
    end = queue["credential_expires"]
    if token and end is not None and end <= now_s:
        return True
    if queue["access"]["due"]:
        return True
    if queue["orphans"]["queued"]:
        return True
    for item in items:
        here = counts.get((item["entry"], item["shape"]))
        if here is None or item["present"] not in (None, here["queued"] + here["running"]):
            return True
        if item["present"] is not None and here["sick"] > (item.get("kept_sick") or 0):
            return True
    newest, oldest = files["newest_output"], files["oldest_log"]
    if summaries_since is not None and newest is not None and newest > summaries_since:
        return True
    return log_days > 0 and oldest is not None and oldest <= now_s - log_days * _DAY_S


def _by_key(queue):
    return {(count["entry"], count["shape"]): count for count in queue["entries"]}


def _total(changes, key):
    """Return the sum of the counts for (entry, shape), without submissions of unknown outcome."""
    return sum(
        change["count"]
        for change in changes
        if (change["entry"], change["shape"]) == key and change.get("job_id", "") is not None
    )
