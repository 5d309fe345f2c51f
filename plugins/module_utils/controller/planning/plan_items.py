# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The items and notes of the plan."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.explain import item_reason


def plan_items(decisions, pool):
    """Return the plan items of decisions, sorted by site, entry and shape."""
    errors = pool.queue_errors
    return [_item(decision, pool, errors) for decision in sorted(decisions, key=lambda decision: decision.shape.key)]


def invalid_histories(shapes):
    """Return a note for each shape whose history is invalid."""
    return [
        f"{'/'.join(shape.key)}: what the demand server remembers of it cannot be read "
        f"({shape.supply['history_error']}); it counts as new"
        for shape in sorted(shapes, key=lambda shape: shape.key)
        if shape.supply["history_error"]
    ]


def _item(decision, pool, errors):
    shape = decision.shape
    site, entry, name = shape.key
    item = {
        "site": site,
        "entry": entry,
        "shape": name,
        "present": None,
        "wanted": None,
        "queued": None,
        "running": None,
        "sick": None,
        "kept_sick": None,
        "overdue": None,
        "cpus": shape.size[0],
        "registered": shape.registered,
        "redundant": {key: jobs for key, jobs in sorted(decision.redundant.items()) if jobs},
        "serves": {key: jobs for key, jobs in sorted(decision.serves.items()) if jobs},
        "waits": {
            key: {"jobs": jobs, "per_glidein": each} for key, (jobs, each) in sorted(decision.waits.items()) if jobs
        },
    }
    if shape.counts is None:
        why = errors.get(site) or "no reading of the queue was given"
        return dict(item, reason=f"kept as it is, its queue is not known: {why}")
    running = shape.counts["running"]
    return dict(
        item,
        present=decision.queued + running,
        wanted=decision.wanted + running,
        queued=shape.counts["queued"],
        running=running,
        sick=shape.counts["sick"],
        kept_sick=min(1, shape.counts["never_starts"]),
        overdue=decision.overdue,
        reason=pool.stop or item_reason(decision, pool.silent_schedds),
    )
