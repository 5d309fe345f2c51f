# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pool as one plan sees it: the checked demand, supply, sites and queues."""

import collections
from typing import Any, NamedTuple

from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.controller.plan_input import (
    demand_history,
    failed_schedds,
    hides_requirements,
    idle_jobs,
    others_free,
    read_concurrency_limits,
    read_core_hours,
    read_groups,
    read_queue,
    read_supply,
    removals,
    reported_attributes,
    stale_reason,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Matcher, UnparsableError
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

PAUSED = "the demand server is paused: nothing is submitted, and queued glideins are withdrawn"
HIDDEN = (
    "the demand lacks what jobs require, which the demand server sends only to callers with a valid token; check "
    "glidein_demand_token of the sites: nothing is changed"
)


class Pool(NamedTuple):
    """The input of one plan.

    groups: of plan_input.read_groups; idle: all idle jobs; idle_history: [[epoch, idle jobs]]; removals: [[epoch,
    jobs]]; reported_attributes: names of the job attributes that groups are divided by; silent_schedds: names of
    schedds that did not answer, as text, or None; sites: of make_plan, with counts and orphans; supplied: of
    plan_input.read_supply; supply_age_s: seconds since the supply was read; others_free: free slots of machines that
    are no glideins; core_hours: of plan_input.read_core_hours; stale: why nothing may be changed, or None; stop: why no
    job is given a glidein, or None; job_limits: plan_input.ConcurrencyLimits.
    """

    groups: list
    idle: int
    idle_history: list
    removals: list
    reported_attributes: list
    silent_schedds: Any
    sites: list
    supplied: dict
    supply_age_s: float
    others_free: list
    core_hours: Any
    stale: Any
    stop: Any
    job_limits: Any

    @property
    def queue_errors(self):
        """Return {site: why its queue is not known}."""
        return {site["site"]["site"]: site["error"] for site in self.sites if site["error"]}


def read_pool(demand, supply, sites, matcher, now_s, max_age_s):
    """Return the Pool. The arguments are those of make_plan; matcher: classad.Matcher. Raises InputError."""
    groups = read_groups(demand)
    _check_unique(sites)
    check_expressions(sites, matcher)
    supplied = read_supply(supply)
    stale = (
        stale_reason(demand, "demand", now_s, max_age_s)
        or stale_reason(supply, "supply", now_s, max_age_s)
        or (HIDDEN if hides_requirements(demand) else None)
    )
    return Pool(
        groups=groups,
        idle=idle_jobs(demand),
        idle_history=demand_history(supply),
        removals=removals(supply),
        reported_attributes=reported_attributes(demand),
        silent_schedds=failed_schedds(demand),
        sites=[_with_counts(site) for site in sites],
        supplied=supplied,
        supply_age_s=0 if stale else max(0, now_s - supply["as_of"]),
        others_free=others_free(supply),
        core_hours=read_core_hours(supply),
        stale=stale,
        stop=stale or (PAUSED if demand.get("paused") else None),
        job_limits=read_concurrency_limits(demand),
    )


def read_sites(deployment, raw_sites):
    """Return (sites for make_plan, errors of sites with an invalid configuration).

    raw_sites: definitions of sites.sites_of_play. Sites of one name are all left out, with one error: their glideins
    could not be distinguished.
    """
    number = collections.Counter(raw["site"] for raw in raw_sites)
    errors = [
        {
            "site": name,
            "error": f"glidein_site: {name!r} is the name of {number[name]} sites of the inventory; expected a name of "
            "its own for each. They are left out of the plan.",
        }
        for name in sorted(number)
        if number[name] > 1
    ]
    sites = []
    for raw in raw_sites:
        if number[raw["site"]] > 1:
            continue
        try:
            site = normalise_site(
                deployment, raw["site"], raw["entries"], raw["limits"], raw.get("budget"), raw.get("eagerness")
            )
            make_scheduler(raw["scheduler"], raw["scheduler_options"], site["entries"])
            check_expressions([{"site": site}])
        except InputError as error:
            errors.append({"site": raw["site"], "error": str(error)})
            continue
        sites.append({"site": site, "queue": raw["queue"] or None, "error": raw["error"] or None})
    return sites, errors


def check_expressions(sites, matcher=None):
    """Raise InputError that names each invalid accept_requirements."""
    matcher = matcher or Matcher()
    problems = []
    for site in sites:
        for entry in site["site"]["entries"].values():
            try:
                if entry["accept_requirements"]:
                    matcher.conditions(entry["accept_requirements"])
            except UnparsableError as error:
                problems.append(f"glidein_entries.{entry['name']}.accept_requirements: {error}")
    if problems:
        raise InputError(problems)


def _check_unique(sites):
    names = [site["site"]["site"] for site in sites]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"sites: {', '.join(twice)} is listed more than once; expected each site once")


def _with_counts(site):
    """Return a site with `counts` and `orphans` of its queue; with the `error` if its queue cannot be read."""
    counts, error = {}, site["error"]
    if not error:
        try:
            counts = read_queue(site["queue"], site["site"])
        except InputError as invalid:
            error = str(invalid)
    return dict(site, error=error, orphans=counts.pop("orphans", {"queued": 0, "running": 0}), counts=counts)
