# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: the jobs that a plan requests leases on, and the plan's items when fewer are granted."""

from typing import Callable, Container, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, cast

from ansible_collections.glidein.ops.plugins.module_utils.common.errors import NoAnswerError, ServerError
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import Path
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem

# Of one site: {entry: {group id: jobs}}.
Jobs = Dict[str, Dict[str, int]]

# The demand server accepts no more entries of a site in one request.
_ENTRIES_MOST = 1000


def lease_requests_of(plan: Iterable[PlanItem], known: Iterable[Path] = ()) -> Dict[str, Jobs]:
    """Return {site: {entry: {group id: jobs}}}: the jobs that starting, queued and new glideins are meant for.

    An entry without jobs is included with {}, which releases its lease. An entry whose queue is not known is left out,
    so that it keeps its lease. known: the (site, entry) pairs that the demand server lists. If one of them is no longer
    in the configuration of its site, its lease is released, too: no later request would replace it.
    """
    requests: Dict[str, Jobs] = {}
    unknown = set()
    for item in plan:
        if item.counted is None:
            unknown.add(item.path)
            continue
        entry = requests.setdefault(item.site, {}).setdefault(item.entry, {})
        for group, jobs in item.serves.items():
            entry[group] = entry.get(group, 0) + jobs
    for site, name in sorted(known):
        if site in requests and (site, name) not in unknown and len(requests[site]) < _ENTRIES_MOST:
            requests[site].setdefault(name, {})
    return requests


def request_leases(
    requests: Dict[str, Jobs], lease: Callable[[str, Jobs], Jobs]
) -> Tuple[Dict[str, Jobs], Dict[str, ServerError]]:
    """Request the leases of several sites, {site: {entry: {group id: jobs}}}; return (granted, {site: error}).

    lease: a function of a site and its requests that returns what is granted to it, or raises ServerError; granted: of
    the sites that succeeded. Another of these sites may hold jobs until its own request, which asks for fewer, has been
    made. So each site that was granted less than it requested retries after all sites have made their requests.
    """
    granted: Dict[str, Jobs] = {}
    errors: Dict[str, ServerError] = {}
    short = sorted(requests)
    for _turn in range(2):
        for site in short:
            try:
                granted[site] = lease(site, requests[site])
            except NoAnswerError as error:
                # The requests of the other sites would fail as well, each after the same timeout.
                for one in short[short.index(site) :]:
                    errors[one] = error
                    granted.pop(one, None)
                return granted, errors
            except ServerError as error:
                errors[site] = error
                granted.pop(site, None)
        short = [site for site in short if site in granted and _is_short(requests[site], granted[site])]
        if len(requests) == 1:
            break
    return granted, errors


def _is_short(requests: Jobs, granted: Jobs) -> bool:
    return any(
        jobs > granted.get(entry, {}).get(group, 0) for entry in requests for group, jobs in requests[entry].items()
    )


def trim(
    plan: Sequence[PlanItem], granted: Mapping[str, Optional[Jobs]], limited: Container[str] = ()
) -> List[PlanItem]:
    """Return the plan's items with fewer new glideins where a site was granted less than the plan requests.

    plan: PlanItems; granted: {site: {entry: {group id: jobs}}} of the sites that made a request, {site: None} for a
    failed request; limited: sites that were granted less because of their own lease limit.

    Queued and running glideins stay: the next plan sees a smaller demand and delays their cancellation. The granted
    jobs of a group go to existing glideins first, so that new glideins lose their jobs. No redundant glidein is added
    for a group that lost jobs, and no glidein at all after a failed request.
    """
    missing = {}
    for site, entries in lease_requests_of(plan).items():
        if site in granted:
            for entry, groups in entries.items():
                got = (granted[site] or {}).get(entry, {})
                lost = {group: jobs - got.get(group, 0) for group, jobs in groups.items() if jobs > got.get(group, 0)}
                if lost:
                    missing[(site, entry)] = lost
    groups_lost = {group for lost in missing.values() for group in lost}
    trimmed = []
    for item in reversed(plan):
        lost = {}
        if item.counted is not None and item.added > 0 and item.path in missing:
            left = missing[item.path]
            lost = {group: min(jobs, left.get(group, 0)) for group, (jobs, _each) in item.waits.items()}
        if any(lost.values()):
            missing[item.path] = {group: jobs - lost.get(group, 0) for group, jobs in left.items()}
            item = _without_jobs(item, lost, _why_missing(item.site, granted, limited))
        if item.counted is not None and item.added > 0 and granted.get(item.site, {}) is None:
            item = item.with_queued(item.counted, f"its site has no lease: {item.added} fewer to add")
        elif not groups_lost.isdisjoint(item.redundant):
            item = _without_new_redundant(item)
        trimmed.append(item)
    return trimmed[::-1]


def _why_missing(site: str, granted: Mapping[str, Optional[Jobs]], limited: Container[str]) -> Tuple[str, str]:
    """Return (clause of one job, clause of several jobs) without a lease."""
    if granted.get(site, {}) is None:
        return "has no lease", "have no lease"
    # The server grants by its newest reading.
    why = "beyond the site's lease limit" if site in limited else "no longer idle, or leased to others"
    return f"is {why}", f"are {why}"


def _without_jobs(item: PlanItem, lost: Dict[str, int], why: Tuple[str, str]) -> PlanItem:
    """Return an item without jobs, {group id: jobs}, and without the new glideins that only they need."""
    waits = {group: (jobs - lost[group], each) for group, (jobs, each) in item.waits.items()}
    needed = item.overdue + _glideins(waits.values())
    queued = max(cast(int, item.counted), min(item.queued, needed))
    fewer = f": {item.queued - queued} fewer to add" if queued < item.queued else ""
    jobs = sum(lost.values())
    return item.with_queued(queued, f"{jobs} of its jobs {why[0] if jobs == 1 else why[1]}{fewer}", waits)


def _without_new_redundant(item: PlanItem) -> PlanItem:
    """Return an item without new redundant glideins, which `wanted` does not include."""
    if item.counted is None:
        return item
    queued = min(item.queued, max(item.wanted, item.counted))
    note = f"{item.queued - queued} redundant not added: their jobs have no lease"
    return item.with_queued(queued, note, item.waits) if queued < item.queued else item


def _glideins(waits: Iterable[Tuple[int, int]]) -> int:
    """Return how many glideins several kinds of jobs need together, [(jobs, jobs per glidein)].

    Each job counts as 1/(jobs per glidein) of a glidein. Only the rounding of a last job's memory is ignored.
    """
    whole, rest = 0, 0.0
    for jobs, each in waits:
        full, part = divmod(jobs, each)
        whole += full
        rest += part / each
    return whole + int(-(-round(rest, 9) // 1))
