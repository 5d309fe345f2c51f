# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sites of a play or of the inventory: their definitions, tokens and reports. Controller only.

These functions serve tasks that run once for all hosts: a task for each host would cost a process for each. `hostvars`
is Ansible's: {host: variables, which are templated when they are read}.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    checked,
    plain,
    read_variable,
    read_variables,
    scheduler_options,
    truth,
    unknown_of_host,
    unquoted_names,
    unreadable,
    value_of,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES

# Limits of the demand server: reasons of held glideins of an entry; groups of jobs that are not served, and characters
# of a reason.
MAX_SICK_REASONS = 20
MAX_UNSERVED = 50
MAX_REASON_CHARS = 500

# Variables that only the module glideins reads. It runs where it has work; an error is reported in every cycle.
_OF_GLIDEINS = [
    name
    for name, variable in VARIABLES.items()
    if "glideins" in variable.modules and "queue_info" not in variable.modules
]
_VALID_TOKEN = re.compile(r"^[!-~]+\Z")
_INVALID_TOKEN = "invalid (not shown); expected ASCII characters without spaces and line breaks"  # noqa: S105
# ansible-core 2.19 begins the messages of unreachable hosts with this.
_TASK_FAILED = re.compile(r"^Task failed: ")


def sites_of_play(hostvars: Any, hosts: List[str]) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """Return ({host: definition}, {site: token of the demand server}).

    A definition is that of read_site with `credential`, `log_days`, the `queue` of queue_info, and `error`: the reason
    why its queue or its variables could not be read. It has no `queue` then. The variables cycle_session and
    cycle_queue are the results of ssh_session and queue_info.
    """
    definitions, tokens = {}, {}
    for host in hosts:
        # Looked up once: Ansible assembles all variables of a host each time.
        variables = hostvars[host]
        site, errors = read_site(hostvars, host, variables)
        options, invalid_options = checked(variables, *_OF_GLIDEINS)
        queue = plain(variables.get("cycle_queue") or {})
        session = plain(variables.get("cycle_session") or {})
        token, token_error = site_token(variables)
        # queue_info has failed for the same reason as the first template.
        first = _queue_error(queue, session) or site["error"]
        # An invalid token stops the site: without a lease, it would order for the same jobs as other controllers. A
        # misspelt variable stops it, too, because it may be a limit.
        problems = [problem for problem in [first, token_error, *errors, *invalid_options] if problem]
        site.update(
            credential=options.get("glidein_credential"),
            log_days=options.get("glidein_log_days"),
            queue=None if problems else queue["queue"],
            error="; ".join(problems) or None,
        )
        definitions[host] = site
        if token:
            tokens[site["site"]] = token
    return definitions, tokens


def results_of_play(hostvars: Any, sites: Dict[str, Any]) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """Return ({host: result of the module glideins}, {site: token of the demand server}).

    sites: {host: definition}. The variable cycle_glideins is the result of the module, also of a skipped task.
    """
    results, tokens = {}, {}
    for host, site in sites.items():
        variables = hostvars[host]
        results[host] = plain(variables.get("cycle_glideins") or {})
        token = site_token(variables)[0]
        if token:
            tokens[site["site"]] = token
    return results, tokens


def site_reports(sites: Dict[str, Any], glideins: Dict[str, Any], plan: Plan) -> List[Dict[str, Any]]:
    """Return the reports of the sites, [{"site", "report"}].

    sites: {host: definition}; glideins: {host: result of the module glideins}, also of a skipped task; plan: with
    the items that the leases left.
    """
    reports = []
    for host, site in sites.items():
        name, result = site["site"], glideins.get(host) or {}
        items = [item for item in plan.items if item.site == name]
        if "before" in result:
            report = _report(result["after"] or result["before"], items, result)
        elif site["error"] or result.get("failed") or result.get("unreachable") or plan.error:
            report = {"error": str(site["error"] or result.get("msg") or plan.error)}
        else:
            # The queue matches the plan: the module was skipped.
            report = _report(site["queue"], items, {})
        # The plan leaves out a site with an invalid configuration.
        invalid = "; ".join(dict.fromkeys(error["error"] for error in plan.errors if error["site"] == name))
        report["error"] = report["error"] or invalid or None
        reports.append({"site": name, "report": dict(report, **_unserved(plan, name))})
    return reports


def read_site(hostvars: Any, host: str, variables: Any) -> Tuple[Dict[str, Any], List[str]]:
    """Return (definition, errors of further variables) of a host. variables: hostvars[host].

    A definition has the site's name, its variables that the plan depends on, no `queue`, and `error`: the reason why
    one of these could not be read, or None. It has no entries then.
    """
    site: Dict[str, Any] = {
        "site": site_name(host, variables),
        "scheduler": "",
        "scheduler_options": {},
        "entries": {},
        "limits": {},
        "budget": {},
        "eagerness": None,
        "queue": None,
        "error": None,
    }
    try:
        for key in ("scheduler_options", "entries", "limits", "budget"):
            site[key] = _mapping(f"glidein_{key}", value_of(variables, f"glidein_{key}"))
        site["eagerness"] = value_of(variables, "glidein_eagerness")
        scheduler = site["scheduler"] = str(value_of(variables, "glidein_scheduler") or "")
        site["scheduler_options"] = scheduler_options(variables, scheduler, site["scheduler_options"])
    except InputError as error:
        site.update(entries={}, error=str(error))
    return site, [
        # If they cannot be read, a revoked site could get glideins.
        *unreadable(variables, "glidein_revoked", "glidein_pull"),
        *unquoted_names(variables, site["entries"]),
        *unknown_of_host(hostvars, host, variables),
    ]


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) and value is not None:
        raise InputError(invalid(name, value, "a mapping"))
    return value or {}


def site_name(host: str, variables: Any) -> str:
    """Return a site's name; the host's name if glidein_site is missing or cannot be read."""
    return str(read_variable(variables, "glidein_site")[0] or host)


def site_token(variables: Any) -> Tuple[Optional[str], Optional[str]]:
    """Return (a site's token, why it is invalid); each is None if it does not apply."""
    token, error = read_variable(variables, "glidein_demand_token")
    if token and not _VALID_TOKEN.match(str(token)):
        return None, f"glidein_demand_token: {_INVALID_TOKEN}"
    return str(token) if token else None, error


def _queue_error(queue: Dict[str, Any], session: Dict[str, Any]) -> Optional[str]:
    """Return the reason why a site's queue is unknown, or None. Without an SSH session, the queue was not read."""
    if queue.get("queue") is not None:
        return None
    result = session if queue.get("skipped") else queue
    return _TASK_FAILED.sub("", str(result.get("msg") or "its queue was not read"))


def _report(queue: Dict[str, Any], items: List[PlanItem], result: Dict[str, Any]) -> Dict[str, Any]:
    """Return the report of a site whose queue was read.

    queue: the last result of queue_info; items: the site's items of the plan; result: of the module glideins, {} if it
    was skipped.
    """
    counts = {(count["entry"], count["shape"]): count for count in queue["entries"]}
    submitted, cancelled, errors = (result.get(key) or [] for key in ("submitted", "cancelled", "errors"))
    entries = []
    for item in items:
        key = item.key[1:]
        if key not in counts:
            continue
        mine = [error["error"] for error in errors if (error["entry"], error["shape"]) == key]
        entries.append(
            {
                "entry": item.entry,
                "shape": item.shape,
                "credential_expires": queue["credential_expires"],
                "present": item.present,
                "wanted": item.wanted_present,
                "queued": counts[key]["queued"],
                "running": counts[key]["running"],
                "sick": counts[key]["sick"],
                "sick_reasons": counts[key]["sick_reasons"][:MAX_SICK_REASONS],
                "registered": item.registered,
                # Submissions of unknown outcome have no job_id.
                "launched": _total([each for each in submitted if each["job_id"] is not None], key),
                "cancelled": _total(cancelled, key),
                "reason": item.reason,
                "error": " ".join(mine) or None,
                # For the core-hours.
                "cpus": item.cpus,
                "running_since": counts[key]["running_since"],
                "running_glideins": counts[key]["running_glideins"],
            }
        )
    general = [error["error"] for error in errors if error["entry"] is None]
    return {
        "as_of": queue["as_of"],
        "error": " ".join(general) or None,
        "entries": entries,
        "orphans": sum(queue["orphans"].values()),
        "summaries": result.get("summaries"),
    }


def _total(changes: List[Dict[str, Any]], key: Tuple[str, str]) -> int:
    """Return the number of glideins of (entry, shape) that were submitted or cancelled."""
    return sum(change["count"] for change in changes if (change["entry"], change["shape"]) == key)


def _unserved(plan: Plan, site: str) -> Dict[str, Any]:
    """Return {"unserved": [{"group", "count", "reason"}]}: the largest groups that a plan does not serve at a site."""
    if plan.error:
        return {}
    rows = sorted(plan.unserved, key=lambda row: (-row["count"], row["group"]))[:MAX_UNSERVED]
    here = plan.unserved_at
    reasons = [here.get(row["group"], {}).get(site, row["reason"])[:MAX_REASON_CHARS] for row in rows]
    return {"unserved": [dict(row, reason=reason) for row, reason in zip(rows, reasons)]}


def inventory_sites(hostvars: Any, hosts: List[str]) -> Dict[str, List[Any]]:
    """Return {"trusted": [site], "revoked": [site], "revoked_hosts": [names], "errors": [texts]} of these hosts.

    A site is {"site": its name, "credential": "token" or "pool_password", "supplied": whether the credential comes from
    glidein_credential_file}. If two hosts have the same trusted site, the last one decides. errors: of
    revocation_error, with the host's name.
    Raises InputError if a variable cannot be read: the pool would remove the credentials of a site that is missing
    here, or accept those of a revoked one again.
    """
    trusted: Dict[str, Dict[str, Any]] = {}
    revoked: Dict[str, Dict[str, Any]] = {}
    revoked_hosts = []
    errors = []
    for host in hosts:
        names = ("glidein_site", "glidein_revoked", "glidein_credential", "glidein_credential_file")
        site, is_revoked, credential, file = read_variables(host, hostvars[host], *names)
        site, is_revoked = site or host, truth(is_revoked)
        error = revocation_error(is_revoked, credential)
        errors += [f"{host}: {error}"] if error else []
        (revoked if is_revoked else trusted)[site] = {
            "site": site,
            "credential": credential or VARIABLES["glidein_credential"].default,
            "supplied": bool(file),
        }
        revoked_hosts += [host] if is_revoked else []
    return {
        "trusted": list(trusted.values()),
        "revoked": list(revoked.values()),
        "revoked_hosts": revoked_hosts,
        "errors": errors,
    }


def revocation_error(is_revoked: bool, credential: Optional[str]) -> Optional[str]:
    """Return why the credential of a revoked site cannot be refused, and what to do, or None."""
    if not is_revoked or credential != "pool_password":
        return None
    return (
        "glidein_credential: 'pool_password' is invalid with glidein_revoked; expected token. All sites with the pool "
        "password share it, so it cannot be refused for one of them. Set glidein_credential=token for this host, too. "
        "If other sites have the pool password, change it with glidein.ops.rotate -e rotate=pool_password."
    )


def demand_server_sites(hostvars: Any, hosts: List[str]) -> Dict[str, Any]:
    """Return {"tokens": {site: token}, "revoked": [site], "lease_limits": {site: most leased jobs}}.

    A site without entries has no limit. The limits are there because a stolen token must not reserve the whole demand.
    Raises InputError for invalid entries, or variables that cannot be read.
    """
    sites = inventory_sites(hostvars, hosts)
    trusted = [site["site"] for site in sites["trusted"]]
    tokens: Dict[str, str] = {}
    limits: Dict[str, int] = {}
    for host in hosts:
        variables = hostvars[host]
        site = read_variables(host, variables, "glidein_site")[0] or host
        if "glidein_demand_token" in variables and host not in sites["revoked_hosts"]:
            tokens[site] = str(read_variables(host, variables, "glidein_demand_token")[0] or "")
        names = ("glidein_deployment", "glidein_entries", "glidein_limits")
        deployment, entries, of_site = read_variables(host, variables, *names)
        if "glidein_entries" in variables:
            deployment = deployment or VARIABLES["glidein_deployment"].default
            try:
                limits[site] = lease_limit(normalise_site(deployment, site, entries, of_site))
            except InputError as error:
                raise InputError(f"{host}: {error}") from error
    revoked = [site["site"] for site in sites["revoked"] if site["site"] not in trusted]
    return {"tokens": tokens, "revoked": revoked, "lease_limits": limits}


def lease_limit(site: Dict[str, Any]) -> int:
    """Return how many jobs the glideins of a site can run at once within its limits.

    site: as normalise_site returns it. A job takes at least one core of a glidein.
    """
    most, widest = 0, 0
    for entry in site["entries"].values():
        cpus = max(shape["cpus"] for shape in entry["shapes"].values())
        most += _within(entry["limits"], cpus, entry["limits"]["total"] * cpus)
        widest = max(widest, cpus)
    return _within(site["limits"], widest, most)


def _within(limits: Dict[str, Optional[int]], cpus: int, jobs: int) -> int:
    total, cores = limits.get("total"), limits.get("cores")
    if total is not None:
        jobs = min(jobs, total * cpus)
    if cores is not None:
        jobs = min(jobs, cores)
    return jobs
