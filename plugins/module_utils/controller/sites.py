# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sites of a play: their definitions, tokens and reports. Controller only.

These functions serve tasks that run once for all hosts: a task for each host would cost a process for each. `hostvars`
is Ansible's: {host: variables, which are templated when they are read}.
"""

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    checked,
    plain,
    unknown_of_host,
    unquoted_names,
    unreadable,
    why_unreadable,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.plan import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.scheduler_variables import with_variables
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

# Limits of the demand server for jobs that are not served: groups, and characters of a reason.
MAX_UNSERVED = 50
MAX_REASON_CHARS = 500

_VALID_TOKEN = re.compile(r"^[!-~]+\Z")
_INVALID_TOKEN = "invalid (not shown); expected ASCII characters without spaces and line breaks"  # noqa: S105
# ansible-core 2.19 begins the messages of unreachable hosts with this.
_TASK_FAILED = re.compile(r"^Task failed: ")


def sites_of_play(hostvars: Any, hosts: list) -> tuple:
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
        options, invalid_options = checked(variables, "glidein_credential", "glidein_log_days")
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


def results_of_play(hostvars: Any, sites: dict) -> tuple:
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


def site_reports(sites: dict, glideins: dict, plan: Plan) -> list:
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
        reports.append({"site": name, "report": dict(report, **_unserved(plan, name))})
    return reports


def read_site(hostvars: Any, host: str, variables: Any) -> tuple:
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
            site[key] = _mapping(variables, f"glidein_{key}")
        key = "eagerness"
        site[key] = plain(variables.get("glidein_eagerness"))
        key = "scheduler"
        site[key] = str(variables.get("glidein_scheduler") or "")
        site["scheduler_options"] = with_variables(site[key], site["scheduler_options"], variables.get)
    # Of any type: a variable may refer to an undefined one, or be in a vault with another password.
    except Exception as error:  # pylint: disable=broad-exception-caught
        reason = why_unreadable(error, "")
        site.update(entries={}, error=f"glidein_{key}: {reason}" if reason else str(error))
    return site, [
        # If they cannot be read, a revoked site could get glideins.
        *unreadable(variables, "glidein_revoked", "glidein_pull"),
        *unquoted_names(variables, site["entries"]),
        *unknown_of_host(hostvars, host, variables),
    ]


def _mapping(variables: Any, name: str) -> Mapping[str, Any]:
    value = plain(variables.get(name))
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(invalid(name, value, "a mapping"))
    return value


def site_name(host: str, variables: Any) -> str:
    """Return a site's name; the host's name if glidein_site is missing or cannot be read."""
    try:
        return str(variables.get("glidein_site") or host)
    except Exception:  # pylint: disable=broad-exception-caught
        return host


def site_token(variables: Any) -> Tuple[Optional[str], Optional[str]]:
    """Return (a site's token, why it is invalid); each is None if it does not apply."""
    try:
        token = variables.get("glidein_demand_token") or None
    except Exception as error:  # pylint: disable=broad-exception-caught
        return None, f"glidein_demand_token: {why_unreadable(error)}"
    if token and not _VALID_TOKEN.match(str(token)):
        return None, f"glidein_demand_token: {_INVALID_TOKEN}"
    return token and str(token), None


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
                "sick_reasons": counts[key]["sick_reasons"],
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
