# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan in words."""

# Where a job can be put: what is there, in this order, then what is new.
FREE, STARTING, OVERDUE, QUEUED, NEW = "free", "starting", "overdue", "queued", "new"

# Reasons of sick glideins that one sentence has room for.
MOST_REASONS = 3


def item_reason(target, partial):
    """Return the sentence of a target whose queue is known. partial: names of schedds that did not answer, or None."""
    jobs = sum(target.by_kind.values()) - target.by_kind[OVERDUE]
    text = f"{jobs} idle job{'s' if jobs > 1 else ''} to serve: {_places(target)}" if jobs else "no idle job needs it"
    if not jobs and target.by_kind[OVERDUE]:
        text = "no idle job is left for it to serve"
    queued, running = target.counts["queued"], target.counts["running"]
    text += f"; {running} running{_not_registered(target)}, {queued} queued"
    if target.added > 0:
        text += f", {target.added} to add"
    elif target.added < 0:
        text += f", of which {-target.added} serve no job and go"
    elif target.idle and partial:
        text += f", of which {target.idle} serve no job and stay because schedds did not answer: {partial}"
    if target.kept_overdue:
        text += f"; {overdue(target)}"
    if target.counts["sick"]:
        text += f"; {target.counts['sick']} sick"
        reasons = target.counts["sick_reasons"]
        text += f" ({', '.join(reasons[:MOST_REASONS])})" if reasons else ""
    if target.limited_by:
        text += f"; {target.limited_by} reached"
    return "; ".join([text] + target.said)


def _not_registered(target):
    starting = max(0, target.counts["running"] - target.registered) - target.late
    parts = [f"{starting} starting"] if starting else []
    if target.late:
        parts.append(f"{target.late} not registered in time")
    return f" ({', '.join(parts)})" if parts else ""


def overdue(target):
    """Return what is said of queued glideins that have waited for too long."""
    return f"{target.kept_overdue} queued for more than {_minutes(target.overdue_s)} serve nobody"


def _minutes(seconds):
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"


def _places(target):
    waiting = target.by_kind[QUEUED] + target.by_kind[NEW]
    name = "queued or new glideins" if target.added > 0 else "queued glideins"
    places = ((target.by_kind[FREE], "free slots"), (target.by_kind[STARTING], "starting glideins"), (waiting, name))
    return ", ".join(f"{number} in {where}" for number, where in places if number)


def table(plan, width=100):
    """Return the plan as lines of at most `width` columns for people."""
    head = ("SITE", "ENTRY", "SHAPE", "PRESENT", "QUEUED", "RUNNING", "WHY")
    keys = ("site", "entry", "shape", "present", "queued", "running", "reason")
    rows = [head] + [tuple("?" if item[key] is None else str(item[key]) for key in keys) for item in plan]
    widths = [min(16, max(len(row[column]) for row in rows)) for column in range(6)]
    lines = []
    for row in rows:
        cells = [
            cell[:size].ljust(size) if column < 3 else cell.rjust(size)
            for column, (cell, size) in enumerate(zip(row, widths))
        ]
        lines.append(_cut("  ".join(cells + [row[6]]), width))
    return lines


def listed(texts, most=3):
    """Return the first texts of a list as one, and how many more there are."""
    texts = list(dict.fromkeys(texts))
    more = f"; and {len(texts) - most} more" if len(texts) > most else ""
    return "; ".join(texts[:most]) + more


def _cut(line, width):
    return line if len(line) <= width else line[: width - 3] + "..."
