# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain: why jobs are not served, and why each entry serves a group or not."""

from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_text import listed, overdue
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.partition import capacity
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

# Reasons that are told of a group; how many more there are is told as a number.
_TOLD = 3


def why_left(lot, targets, candidates, limits, fit):
    """Return why the jobs that are left of a lot are not served.

    candidates: targets where they fit; limits: names of those that were reached there.
    """
    late = sorted("/".join(key) for key, jobs in lot.room.items() if not jobs)
    texts = [f"limits reached where these jobs fit: {listed(limits)}"] if limits else []
    if late:
        texts.append(f"glideins for these jobs are overdue in the queue of {listed(late)}")
    if texts:
        return "; ".join(texts)
    if candidates:
        paths = sorted("/".join(target.key[:2]) for target in candidates)
        return f"the queue is not known where these jobs fit: {listed(paths)}"
    if not targets:
        return "no site has an entry"
    missed = fit.nearest_misses(lot)
    reasons = {}
    for target in missed[:_TOLD]:
        reasons.setdefault(fit.reason(lot, target), []).append("/".join(target.key))
    texts = [f"{', '.join(paths)}: {reason}" for reason, paths in reasons.items()]
    more = f"; and {len(missed) - _TOLD} more" if len(missed) > _TOLD else ""
    return f"no shape fits: {'; '.join(texts)}{more}"


def why_at_sites(lot, targets, fit):
    """Return {site: why it serves no more jobs of the lot}, of an entry and shape where they fit, if there is one."""
    mask = fit.mask(lot)
    chosen = {}
    for index, target in enumerate(targets):
        fits = bool(mask >> index & 1)
        if target.site not in chosen or fits > chosen[target.site][0]:
            chosen[target.site] = (fits, target)
    return {
        site: f"{'/'.join(target.key[1:])}: {_why_no_more(target) if fits else fit.reason(lot, target)}"
        for site, (fits, target) in chosen.items()
    }


def _why_no_more(target):
    """Return why a target where jobs fit serves no more of them."""
    if target.counts is None:
        return "its queue is not known"
    if target.limited_by:
        return f"{target.limited_by} reached"
    return overdue(target) if target.kept_overdue else "no room for more"


def explanation(group_id, lots, targets, problems, fit):
    """Return a mapping per target: how many jobs of the group it serves, and why.

    lots: all of them; problems: {site: why its queue is not known}. Raises InputError for a group that is not there.
    """
    chosen = [lot for lot in lots if lot.key == group_id]
    if not chosen:
        raise InputError(f"explain: {group_id!r} is not accepted; allowed: the id of a group in demand.groups")
    lines = []
    for target in sorted(targets, key=lambda target: target.key):
        site, entry, shape = target.key
        reasons = list(dict.fromkeys(_reason(lot, len(chosen) > 1, target, problems, fit) for lot in chosen))
        jobs = target.serves[group_id]
        lines.append({"site": site, "entry": entry, "shape": shape, "serves": jobs, "reason": "; ".join(reasons)})
    return lines


def _reason(lot, has_others, target, problems, fit):
    why = fit.reason(lot, target)
    if why is None and target.counts is None:
        why = f"fits, but the queue is not known: {problems.get(target.site) or 'no reading was given'}"
    elif why is None:
        each = capacity(target.size, lot.asked)
        why = f"fits {each} job{'s' if each > 1 else ''} per glidein"
        if target.limited_by:
            why += f"; {target.limited_by} reached"
        why = "; ".join([why] + ([overdue(target)] if target.kept_overdue else []) + target.said)
    return f"of {lot.user}: {why}" if has_others and lot.user else why
