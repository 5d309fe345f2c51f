# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain: the reasons of the plan's decisions, and of the jobs that are not served, as text."""

from typing import Any, Dict, List, Optional, Sequence, Tuple, cast

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.assign import Packed, Unplaced
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.capacity import (
    FREE,
    NEW,
    OVERDUE,
    QUEUED,
    STARTING,
    EntryShape,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import Counts
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.jobs import ConcurrencyLimits, JobClass
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.machine import jobs_per_slot
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.match import Fit, indices
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import count, listed

# The reason of an item whose queue is not known. What follows says why.
KEPT = "kept as it is, because its queue is not known"

# Shapes whose reason is quoted for a group without a place; the others are a number.
_MOST_MISFITS = 3

# Reasons of sick glideins that are quoted in one sentence.
_MOST_SICK_REASONS = 3

# The largest groups of unserved jobs whose reason is given for each site.
_MOST_EXPLAINED = 20


def unserved_jobs(
    job_classes: Sequence[JobClass],
    masks: List[Tuple[int, int]],
    items: List[PlanItem],
    shapes: Sequence[EntryShape],
    packed: Packed,
    fit: Fit,
) -> Tuple[Dict[Tuple[str, str], int], Dict[str, Dict[str, str]]]:
    """Return ({(group id, reason): jobs} without a glidein, {group id: {site: reason}} of the largest groups of them).

    masks: of Fit.masks for each job class; items: the PlanItem of each EntryShape.
    """
    left: Dict[Tuple[str, str], int] = {}
    at_sites: Dict[str, Dict[str, str]] = {}
    largest = set(sorted((one.jobs for one in packed.unplaced), reverse=True)[:_MOST_EXPLAINED])
    for job_class, (mask, doubt), unplaced in zip(job_classes, masks, packed.unplaced):
        if not unplaced.jobs:
            continue
        group_id = job_class.group_id
        why = _why_left(job_class, unplaced, mask, doubt, shapes, packed, fit)
        left[group_id, why] = left.get((group_id, why), 0) + unplaced.jobs
        if unplaced.jobs in largest and group_id not in at_sites and len(at_sites) < _MOST_EXPLAINED:
            at_sites[group_id] = _why_at_sites(job_class, mask | doubt, items, shapes, fit)
    return left, at_sites


def explanation(
    group_id: str,
    job_classes: Sequence[JobClass],
    items: List[PlanItem],
    shapes: Sequence[EntryShape],
    errors: Dict[str, str],
    fit: Fit,
    limits: ConcurrencyLimits,
) -> List[Dict[str, Any]]:
    """Return a mapping per shape: how many jobs of the group it serves, whether they fit, and why.

    errors: {site: why its queue is not known}. Raises InputError for an unknown group.
    """
    job_class = next((job_class for job_class in job_classes if job_class.group_id == group_id), None)
    if job_class is None:
        raise InputError(invalid("explain", group_id, "the id of a group in demand.groups"))
    rows = []
    for item, shape in sorted(zip(items, shapes), key=lambda pair: pair[0].key):
        fits, reason = _explained(job_class, item, shape, errors, fit, limits)
        rows.append(
            {
                "site": item.site,
                "entry": item.entry,
                "shape": item.shape,
                "serves": item.serves.get(group_id, 0),
                "fits": fits,
                "passed_over": fit.is_passed_over(job_class, shape),
                "reason": reason,
            }
        )
    return rows


def item_text(item: PlanItem, shape: EntryShape, silent_schedds: Optional[str]) -> str:
    """Return the reason of an item whose queue is known, without its notes.

    shape: its EntryShape; silent_schedds: names of schedds that did not answer, as text, or None.
    """
    counts = cast(Counts, shape.counts)
    overdue_jobs = item.jobs.get(OVERDUE, 0)
    jobs = sum(item.jobs.values()) - overdue_jobs
    if jobs:
        text = f"{count(jobs, 'idle job')} to serve: {_by_kind(item)}"
    elif item.redundant:
        text = "it serves only jobs that also wait for other entries"
    elif item.limited_by:
        # Only a shape that jobs need more glideins of has limited_by.
        text = "it serves no idle job"
    else:
        text = "no idle job is left for it to serve" if overdue_jobs else "no idle job needs it"
    text += f"; {counts.running} running{_not_registered(shape)}, {counts.queued} queued"
    if item.added > 0:
        text += f", {item.added} to add"
    elif item.added < 0:
        text += f", {-item.added} of them to cancel"
        # A withdrawn shape has a note with the reason.
        if not shape.withdrawn:
            text += f" (no job needs {'it' if item.added == -1 else 'them'})"
    elif item.unused and silent_schedds:
        are = "is" if item.unused == 1 else "are"
        text += f", {item.unused} that no job needs {are} kept because schedds did not answer: {silent_schedds}"
    if item.overdue:
        text += f"; {_overdue(item, shape)}"
    if counts.sick:
        reasons = ", ".join(counts.sick_reasons[:_MOST_SICK_REASONS])
        text += f"; {counts.sick} sick{f' ({reasons})' if reasons else ''}"
    # The notes have the drain, and the reason of a withdrawal.
    if item.limited_by and not shape.drained:
        text += f"; {item.limited_by}"
    return text


def _why_left(
    job_class: JobClass,
    unplaced: Unplaced,
    mask: int,
    doubt: int,
    shapes: Sequence[EntryShape],
    packed: Packed,
    fit: Fit,
) -> str:
    """Return why the jobs that are left of a class are not served. mask, doubt: of Fit.masks."""
    fitting = [index for index in indices(mask | doubt) if index < len(shapes)]
    exhausted = {packed.limits.reached(job_class.at(shapes[index])) for index in fitting}
    reached = sorted(limit for limit in exhausted if limit)
    limits = sorted({packed.reached[index] for index in fitting if index in packed.reached})
    overdue = sorted("/".join(path) for path, jobs in unplaced.allowed.items() if not jobs)
    texts = [*reached, *([f"no more glideins where these jobs fit: {listed(limits)}"] if limits else ())]
    if overdue:
        texts.append(f"glideins for these jobs are overdue in the queue of {listed(overdue)}")
    if texts:
        return "; ".join(texts)
    unknown = [fit.unknown(job_class, shapes[index]) for index in fitting if not mask >> index & 1]
    if unknown:
        names = sorted({name for names in unknown for name in names})
        are = "is" if len(names) == 1 else "are"
        text = f"{listed(names)} {are} not known of its machines yet"
        return f"the first glidein of an entry shows whether these jobs fit: {text}"
    if fitting:
        paths = sorted("/".join(shapes[index].path) for index in fitting)
        return f"the queue is not known where these jobs fit: {listed(paths)}"
    if not shapes:
        return "no site has an entry"
    missed = fit.nearest_misses(job_class)
    reasons: Dict[Optional[str], List[str]] = {}
    for shape in missed[:_MOST_MISFITS]:
        reasons.setdefault(fit.reason(job_class, shape), []).append("/".join(shape.key))
    texts = [f"{', '.join(paths)}: {reason}" for reason, paths in reasons.items()]
    more = f"; and {len(missed) - _MOST_MISFITS} more" if len(missed) > _MOST_MISFITS else ""
    return f"no shape fits: {'; '.join(texts)}{more}"


def _why_at_sites(
    job_class: JobClass, mask: int, items: List[PlanItem], shapes: Sequence[EntryShape], fit: Fit
) -> Dict[str, str]:
    """Return {site: why it serves no more jobs of the class}, of a shape where they fit, if there is one."""
    chosen: Dict[str, Tuple[bool, PlanItem, EntryShape]] = {}
    for index, (item, shape) in enumerate(zip(items, shapes)):
        fits = bool(mask >> index & 1)
        if item.site not in chosen or fits > chosen[item.site][0]:
            chosen[item.site] = (fits, item, shape)
    return {
        site: f"{item.entry}/{item.shape}: {_why_no_more(item, shape) if fits else fit.reason(job_class, shape)}"
        for site, (fits, item, shape) in chosen.items()
    }


def _why_no_more(item: PlanItem, shape: EntryShape) -> str:
    """Return why a shape where jobs fit serves no more of them."""
    if item.counted is None:
        return "its queue is not known"
    if item.limited_by:
        return item.limited_by
    return _overdue(item, shape) if item.overdue else "no room for more"


def _explained(
    job_class: JobClass,
    item: PlanItem,
    shape: EntryShape,
    errors: Dict[str, str],
    fit: Fit,
    limits: ConcurrencyLimits,
) -> Tuple[bool, str]:
    """Return (whether the jobs of a class fit the shape, why it serves them or does not)."""
    why = fit.reason(job_class, shape)
    fits = why is None
    unknown = fit.unknown(job_class, shape) if fits else []
    if why is None and shape.counts is None:
        why = f"fits, but the queue is not known: {errors.get(shape.path[0]) or 'no reading was given'}"
    elif why is None:
        each = jobs_per_slot(shape.size, job_class.at(shape).request)
        why = f"fits {count(each, 'job')} per glidein"
        if unknown:
            why = f"may fit: the first glidein of the entry shows {listed(unknown)}"
        reasons = [
            limits.reached(job_class.at(shape)),
            item.limited_by,
            _overdue(item, shape) if item.overdue else None,
        ]
        why = "; ".join([why, *(reason for reason in reasons if reason), *item.notes])
    return fits, why


def _not_registered(shape: EntryShape) -> str:
    starting = max(0, cast(Counts, shape.counts).running - shape.registered) - shape.late
    parts = [f"{starting} starting"] if starting else []
    if shape.late:
        parts.append(f"{shape.late} not registered in time")
    return f" ({', '.join(parts)})" if parts else ""


def _overdue(item: PlanItem, shape: EntryShape) -> str:
    overdue_s = shape.overdue_s
    since = f"{overdue_s} s" if overdue_s % 60 else f"{overdue_s // 60} min"
    return f"{item.overdue} queued for more than {since} {'serves' if item.overdue == 1 else 'serve'} no job"


def _by_kind(item: PlanItem) -> str:
    """Return the numbers of an item's jobs by the slots that they are given to."""
    waiting = item.jobs.get(QUEUED, 0) + item.jobs.get(NEW, 0)
    name = "queued or new glideins" if item.added > 0 else "queued glideins"
    numbers = (
        (item.jobs.get(FREE, 0), "free slots"),
        (item.jobs.get(STARTING, 0), "starting glideins"),
        (waiting, name),
    )
    return ", ".join(f"{number} in {where}" for number, where in numbers if number)
