# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The steps of a cycle that run once for all sites: read the demand, plan, lease, report. Controller only."""

import functools
import os
import time
from typing import Any, Container, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible.module_utils.basic import missing_required_lib
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    GlideinError,
    NoAnswerError,
    ServerError,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.units import parse_duration
from ansible_collections.glidein.ops.plugins.module_utils.controller.demand_client import (
    DemandClient,
    with_first_token,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import settings
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import MissingLibraryError
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import plan_options, read_sites
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.jobs import accepted_attributes
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.leases import Jobs, request_leases, trim

# Demand and supply that are older have missed two readings of the demand server, which reads at least every 300 s.
MAX_DEMAND_AGE_S = 900
# At least the time between two cycles, which docs/schedule.md limits. Otherwise another controller orders for the same
# jobs.
LEASE_TTL_S = 1800


class Demand(NamedTuple):
    """The readings of the demand server; empty ones, with the error, after a failed reading."""

    demand: Dict[str, Any] = {"groups": []}  # of get_demand
    supply: Dict[str, Any] = {"entries": []}  # of get_supply
    error: Optional[str] = None


class Plan(NamedTuple):
    """The result of make_plan, whose `plan` is here `items`, or the error that prevented it."""

    items: Sequence[PlanItem] = ()
    unserved: Sequence[Dict[str, Any]] = ()
    unserved_at: Dict[str, Dict[str, str]] = {}
    explanation: Sequence[Dict[str, Any]] = ()
    notes: Sequence[str] = ()
    lease_requests: Dict[str, Jobs] = {}
    as_of: Optional[int] = None  # epoch seconds; None without a plan
    errors: Sequence[Dict[str, str]] = ()  # [{"site", "error"}] of sites with an invalid configuration
    error: Optional[str] = None  # the reason of a failed planning

    def result(self) -> Dict[str, Any]:
        """Return the plan in plain containers, for a result of Ansible. Plan.of(result) is the plan again."""
        return dict(self._asdict(), items=[item.result() for item in self.items])

    @classmethod
    def of(cls, result: Dict[str, Any]) -> "Plan":
        """Return the plan of a result."""
        return cls(**dict(result, items=[PlanItem(**item) for item in result["items"]]))


class Lease(NamedTuple):
    """The result of the lease requests of a plan."""

    limited: Dict[str, int] = {}  # {site: jobs} of sites whose own lease limit reduced the grant
    errors: Sequence[Dict[str, str]] = ()  # [{"site", "error"}] of sites whose request failed
    not_leased: Dict[str, int] = {}  # {reason: jobs} that get no glideins because they were not leased


class Server:
    """The demand server that the variables of a host name. Raises InputError.

    client: a function of a token that returns a DemandClient; deployment: name of the deployment.
    """

    def __init__(self, variables: Any) -> None:
        values = settings(variables, "glidein_demand_url", "glidein_demand_ca_path", "glidein_deployment")
        path = values["glidein_demand_ca_path"]
        verify = os.path.expanduser(os.path.expandvars(path)) if path else True
        self.client = functools.partial(DemandClient, values["glidein_demand_url"], verify=verify)
        self.deployment = values["glidein_deployment"]


def read_job(variables: Any, tokens: Dict[str, str], job: str) -> Dict[str, Any]:
    """Return the demand server's reply about a job. Raises GlideinError."""

    def read(client: DemandClient) -> Dict[str, Any]:
        found = client.call("get_job", {"job": job})
        if not isinstance(found, dict) or "obstacles" not in found:
            raise ServerError(f"Demand server {client.url}, get_job: the reply has no job.")
        return found

    return with_first_token(Server(variables).client, tokens.values(), read)


def read_demand(variables: Any, sites: Dict[str, Any], tokens: Dict[str, str]) -> Demand:
    """Return the Demand for these sites, {host: definition}."""
    known = [site["site"] for site in sites.values() if site["queue"]]
    # A site whose queue is unknown is not named and keeps its leases: its glideins may still start. Neither are sites
    # of the same name, which the plan leaves out.
    names = sorted(name for name in set(known) if known.count(name) == 1)
    wanted = {"sites": names, "attributes": accepted_attributes(sites.values()) or None}

    def read(client: DemandClient) -> Tuple[Any, Any]:
        return client.call("get_demand", wanted), client.call("get_supply")

    try:
        demand, supply = with_first_token(Server(variables).client, tokens.values(), read)
    except GlideinError as error:
        return Demand(error=str(error))
    return Demand(demand or {}, supply or {})


def plan_sites(variables: Any, sites: Dict[str, Any], demand: Demand, explain: Optional[str] = None) -> Plan:
    """Return the Plan. sites: {host: definition}; explain: id of a demand group."""
    now_s = int(time.time())
    try:
        options = plan_options(variables)
        valid, errors = read_sites(options.deployment, list(sites.values()))
        plan = make_plan(demand.demand, demand.supply, valid, now_s, MAX_DEMAND_AGE_S, explain, options)
    except MissingLibraryError as error:
        return Plan(error=f"{missing_required_lib('htcondor')} {error}")
    except GlideinError as error:
        return Plan(error=str(error))
    return Plan(plan.pop("plan"), **plan, as_of=now_s, errors=errors)


def lease_jobs(variables: Any, plan: Plan, tokens: Dict[str, str]) -> Tuple[Plan, Lease]:
    """Request the leases of a plan, site by site; return the plan without the glideins whose jobs were not granted.

    tokens: {site: token}; a site without a token requests none. A site whose request failed orders nothing new: another
    controller may order for the same jobs. Raises InputError.
    """
    limits: Dict[str, Optional[int]] = {}
    server = Server(variables)

    def lease(site: str, jobs: Jobs) -> Jobs:
        granted, limits[site] = server.client(tokens[site]).lease(site, jobs, LEASE_TTL_S, server.deployment)
        return granted

    requests = {site: entries for site, entries in plan.lease_requests.items() if site in tokens}
    granted, failed = request_leases(requests, lease)
    limited = {site: limit for site, limit in sorted(limits.items()) if limit is not None}
    items = trim(plan.items, {site: granted.get(site) for site in requests}, limited)
    lost = _jobs_not_leased(plan.items, items, failed, limited)
    return plan._replace(items=items), Lease(limited, _errors(failed), lost)


def _jobs_not_leased(
    planned: Sequence[PlanItem], leased: Sequence[PlanItem], failed: Container[str], limited: Container[str]
) -> Dict[str, int]:
    """Return the number of jobs that get no glideins because they were not leased, by the reason: {text: jobs}."""
    jobs: Dict[str, int] = {}
    for before, after in zip(planned, leased):
        if before.site in failed:
            reason = "without a lease"
        elif before.site in limited:
            reason = "beyond the lease limit of their site"
        else:
            reason = "that are no longer idle, or leased to others"
        jobs[reason] = jobs.get(reason, 0) + before.jobs_served - after.jobs_served
    return jobs


def orders(sites: Dict[str, Any], items: Sequence[PlanItem], supply: Dict[str, Any]) -> Dict[str, Any]:
    """Return {host: {"plan", "summaries_since"}}: the options of the module glideins at sites where it has work.

    sites: {host: definition} of sites_of_play; items: PlanItems that the leases left; supply: of the demand server.
    """
    found = {}
    for host, site in sites.items():
        since = (supply.get("summaries_until") or {}).get(site["site"], 0)
        of_site = [item for item in items if item.site == site["site"]]
        if site["error"] is None and (
            any(item.differs for item in of_site) or _has_upkeep(site, site["queue"], since, time.time())
        ):
            found[host] = {"plan": [item.order() for item in of_site], "summaries_since": since}
    return found


def _has_upkeep(site: Dict[str, Any], queue: Dict[str, Any], summaries_since: float, now_s: float) -> bool:
    """Return whether the module glideins has work at a site beside its plan, or would report missing files or tokens.

    Its options were checked by sites_of_play.
    """
    files, end = queue["files"], queue["credential_expires"]
    lacks_token = not files["credential"] or (end is not None and end <= now_s)
    newest, oldest = files["newest_output"], files["oldest_log"]
    # As in old_logs.
    longest_s = max((parse_duration(entry["walltime"]) or 0 for entry in site["entries"].values()), default=0)
    log_age_s = max(site["log_days"] * 86400, longest_s + 86400)
    return (
        not files["deployed"]
        or queue["access"]["due"]
        or (site["credential"] == "token" and lacks_token)
        or queue["orphans"]["queued"] > 0
        or (newest is not None and newest > summaries_since)
        or (site["log_days"] > 0 and oldest is not None and oldest <= now_s - log_age_s)
    )


def send_reports(variables: Any, reports: List[Dict[str, Any]], tokens: Dict[str, str]) -> List[Dict[str, str]]:
    """Send the reports, [{"site", "report"}], each with its site's token; return the failures, [{"site", "error"}].

    Sites without a token are not reported. Raises InputError.
    """
    server = Server(variables)
    failed: Dict[str, ServerError] = {}
    no_answer = None
    for one in reports:
        site = one["site"]
        if site not in tokens:
            continue
        # If the server does not answer, the reports of the other sites would fail after the same long wait.
        if no_answer:
            failed[site] = no_answer
            continue
        try:
            _send(server.client(tokens[site]), site, one["report"], server.deployment)
        except NoAnswerError as error:
            failed[site] = no_answer = error
        except ServerError as error:
            failed[site] = error
    return _errors(failed)


def _send(client: DemandClient, site: str, report: Dict[str, Any], deployment: str) -> None:
    """Send the report of one site. Raises ServerError."""
    completed = {"as_of": int(time.time()), "error": None, "entries": [], "orphans": 0, **report}
    answer = client.call("report", {**completed, "site": site, "deployment": deployment})
    if not isinstance(answer, dict) or answer.get("accepted") is not True:
        raise ServerError(f"Demand server {client.url}, report: not accepted: {answer!r}")


def _errors(failed: Mapping[str, ServerError]) -> List[Dict[str, str]]:
    return [{"site": site, "error": str(error)} for site, error in sorted(failed.items())]
