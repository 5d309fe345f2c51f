# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leases: what a plan claims of the demand, and what is left of the plan when less is granted."""

from ansible_collections.glidein.ops.plugins.module_utils.errors import NoAnswerError, ServerError

# The demand server takes no more of a site in one lease.
_ENTRIES_MOST = 1000


def claims_of(plan, known=()):
    """Return {site: {entry: {group id: jobs}}}: the jobs that starting, queued and new glideins are meant for.

    An entry without any is there with {}, which releases what it held; one whose queue is not known is not there, so
    that it keeps what it holds. known: (site, entry) of which the demand server knows something. What of them is in the
    configuration of a site no more is released, too: it will never be claimed for again.
    """
    claims, kept = {}, set()
    for item in plan:
        if item["present"] is None:
            kept.add((item["site"], item["entry"]))
            continue
        entry = claims.setdefault(item["site"], {}).setdefault(item["entry"], {})
        for group, jobs in item["serves"].items():
            entry[group] = entry.get(group, 0) + jobs
    for site, entry in sorted(known):
        if site in claims and (site, entry) not in kept and len(claims[site]) < _ENTRIES_MOST:
            claims[site].setdefault(entry, {})
    return claims


def claim_all(claims, claim):
    """Make the claims of several sites, {site: {entry: {group id: jobs}}}; return (granted, {site: error}).

    claim: a function of site and its claims that returns what is granted to it, or raises ServerError; granted: of the
    sites that succeeded. What a site asks for may still be held by another one of these, which asks for less now, but
    later. So sites that got less than they asked for ask once more when all have had their turn.
    """
    granted, errors = {}, {}
    short = sorted(claims)
    for _turn in range(2):
        for site in short:
            try:
                granted[site] = claim(site, claims[site])
            except NoAnswerError as error:
                # With the others it would be the same, after the same long wait.
                for one in short[short.index(site) :]:
                    errors[one] = error
                    granted.pop(one, None)
                return granted, errors
            except ServerError as error:
                errors[site] = error
                granted.pop(site, None)
        short = [site for site in short if site in granted and _is_short(claims[site], granted[site])]
        if len(claims) == 1:
            break
    return granted, errors


def _is_short(claims, granted):
    return any(jobs > granted.get(entry, {}).get(group, 0) for entry in claims for group, jobs in claims[entry].items())


def trim(plan, granted, limited=()):
    """Return the plan's items with fewer new glideins where a site was granted less than the plan claims.

    plan: items as make_plan returns them; granted: {site: {entry: {group id: jobs}}}, of the sites that asked; None for
    one whose lease failed; limited: sites that were granted less because of their own lease limit. Glideins that are
    queued or run stay: the next plan sees a smaller demand, and the guard's patience. The claim of a group is filled
    from what is there first, so that it is new glideins that lose their jobs.
    """
    missing = {}
    for site, entries in claims_of(plan).items():
        if site in granted:
            for entry, groups in entries.items():
                got = (granted[site] or {}).get(entry, {})
                lost = {group: jobs - got.get(group, 0) for group, jobs in groups.items() if jobs > got.get(group, 0)}
                if lost:
                    missing[(site, entry)] = lost
    trimmed = []
    for item in reversed(plan):
        why = _why_missing(item["site"], granted, limited)
        trimmed.append(_trimmed(item, missing.get((item["site"], item["entry"]), {}), why))
    return trimmed[::-1]


def _why_missing(site, granted, limited):
    if granted.get(site, {}) is None:
        return "have no lease"
    return "are beyond the site's lease limit" if site in limited else "are leased to others"


def _trimmed(item, missing, why):
    """Return an item less the jobs that are missing (changed: less those that are taken from this item)."""
    if not missing or item["present"] is None or item["present"] <= item["queued"] + item["running"]:
        return item
    waits = {group: dict(wait) for group, wait in item["waits"].items()}
    lost = 0
    for group in sorted(waits):
        jobs = min(waits[group]["jobs"], missing.get(group, 0))
        waits[group]["jobs"] -= jobs
        lost += jobs
        missing[group] = missing.get(group, 0) - jobs
    if not lost:
        return item
    needed = item["overdue"] + _glideins(waits.values())
    present = item["running"] + max(item["queued"], min(item["present"] - item["running"], needed))
    fewer = item["present"] - present
    serves = {
        group: item["serves"][group] - item["waits"][group]["jobs"] + waits[group]["jobs"] if group in waits else jobs
        for group, jobs in item["serves"].items()
    }
    return dict(
        item,
        present=present,
        serves={group: jobs for group, jobs in serves.items() if jobs},
        waits={group: wait for group, wait in waits.items() if wait["jobs"]},
        reason=f"{item['reason']}; {lost} of its jobs {why}" + (f": {fewer} fewer to add" if fewer else ""),
    )


def _glideins(waits):
    """Return how many glideins are enough for jobs, [{"jobs", "per_glidein"}], of which several kinds share them.

    Each job counts as one part in per_glidein of a glidein: what it takes, but for the rounding of a last job's memory.
    """
    whole, rest = 0, 0.0
    for wait in waits:
        full, part = divmod(wait["jobs"], wait["per_glidein"])
        whole += full
        rest += part / wait["per_glidein"]
    return whole + int(-(-round(rest, 9) // 1))
