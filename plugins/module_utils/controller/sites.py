# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sites of a play: their definitions, tokens and reports. Controller only.

These functions serve tasks that run once for all hosts: a task for each host would cost a process for each. `hostvars`
is Ansible's: {host: variables, which are templated when they are read}.
"""

import re
from collections.abc import Mapping

from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import (
    plain,
    read_variables,
    unknown_of_host,
    unquoted_names,
    unreadable,
    why_unreadable,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.profiles import host_variable
from ansible_collections.glidein.ops.plugins.module_utils.controller.server_token import INVALID, TOKEN
from ansible_collections.glidein.ops.plugins.module_utils.scheduler_variables import with_variables
from ansible_collections.glidein.ops.plugins.module_utils.site_report import unserved
from ansible_collections.glidein.ops.plugins.module_utils.validation import invalid

# ansible-core 2.19 begins the messages of unreachable hosts with this.
_TASK_FAILED = re.compile(r"^Task failed: ")


def site_definitions(hostvars, hosts, queues, sessions=None):
    """Return {host: definition}, where a definition is an item of the option `sites` of the module plan.

    queues: {host: result of queue_info}; sessions: {host: result of ssh_session}, also of skipped tasks. `error` is
    the reason why a site's queue or variables could not be read; such a site has no `queue`.
    """
    definitions = {}
    for host in hosts:
        # Looked up once: Ansible assembles all variables of a host each time.
        variables = hostvars[host]
        queue = queues.get(host) or {}
        session = (sessions or {}).get(host) or {}
        unknown = unknown_of_host(hostvars, host, variables)
        definitions[host] = _definition(site_name(host, variables), variables, unknown, queue, session)
    return definitions


def demand_tokens(hostvars, hosts, strict=False):
    """Return {site: token} of the hosts that have a valid token for the demand server.

    strict: also return invalid tokens, and raise InputError if a token or the site's name cannot be read.
    """
    tokens = {}
    for host in hosts:
        variables = hostvars[host]
        if strict:
            if "glidein_demand_token" in variables:
                site, token = read_variables(host, variables, "glidein_site", "glidein_demand_token")
                tokens[str(site or host)] = str(token or "")
            continue
        token = _token(variables)[0]
        if token:
            tokens[site_name(host, variables)] = token
    return tokens


def site_reports(sites, glideins, demand, plan, lease):
    """Return the option `sites` of the module demand_report: [{"site", "report"}].

    sites: {host: definition}; glideins: {host: result of the module glideins}; demand, plan, lease: results of
    demand_info, plan and demand_lease. Results may be those of skipped tasks.
    """
    cause = next((step.get("msg") for step in (demand, plan, lease) if step.get("failed")), "not planned")
    return [
        {
            "site": site["site"],
            "report": dict(_report(site, glideins.get(host) or {}, cause), **unserved(plan, site["site"])),
        }
        for host, site in sites.items()
    ]


def _definition(name, variables, unknown, queue, session):
    site = {
        "site": name,
        "scheduler": "",
        "scheduler_options": {},
        "entries": {},
        "limits": {},
        "budget": {},
        "eagerness": None,
        "queue": queue.get("queue"),
        "error": None,
    }
    problems = [_queue_error(queue, session)]
    try:
        for key in ("scheduler_options", "entries", "limits", "budget"):
            site[key] = _mapping(variables, f"glidein_{key}")
        key = "eagerness"
        site[key] = plain(host_variable(variables, "glidein_eagerness"))
        key = "scheduler"
        site[key] = str(host_variable(variables, "glidein_scheduler") or "")
        site["scheduler_options"] = with_variables(site[key], site["scheduler_options"], variables.get)
    # Of any type: a variable may refer to an undefined one, or be in a vault with another password.
    except Exception as error:  # pylint: disable=broad-exception-caught
        site["entries"] = {}
        if problems == [None]:
            reason = why_unreadable(error, "")
            problems = [f"glidein_{key}: {reason}" if reason else str(error)]
    # Otherwise a revoked site could get glideins.
    problems += unreadable(variables, "glidein_revoked", "glidein_pull")
    problems += unquoted_names(variables, site["entries"])
    # A site with an invalid token takes no lease, and would order for the same jobs as others. A misspelt variable may
    # be a limit.
    problems = [problem for problem in [*problems, _token(variables)[1], *unknown] if problem]
    if problems:
        site.update(queue=None, error="; ".join(problems))
    return site


def _mapping(variables, name):
    value = plain(host_variable(variables, name))
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(invalid(name, value, "a mapping"))
    return value


def site_name(host, variables):
    """Return a site's name; the host's name if glidein_site is missing or cannot be read."""
    try:
        return str(variables.get("glidein_site") or host)
    except Exception:  # pylint: disable=broad-exception-caught
        return host


def _token(variables):
    """Return (a site's token, why it is invalid); each is None if it does not apply."""
    try:
        token = variables.get("glidein_demand_token") or None
    except Exception as error:  # pylint: disable=broad-exception-caught
        return None, f"glidein_demand_token: {why_unreadable(error)}"
    if token and not TOKEN.match(str(token)):
        return None, f"glidein_demand_token: {INVALID}"
    return token, None


def _queue_error(queue, session):
    """Return the reason why a site's queue is unknown, or None. Without an SSH session, the queue was not read."""
    if queue.get("queue") is not None:
        return None
    result = session if queue.get("skipped") else queue
    return _TASK_FAILED.sub("", str(result.get("msg") or "its queue was not read"))


def _report(site, result, cause):
    """Return the report of the module glideins, or one with an error. cause: the reason why a plan is missing."""
    if result.get("report"):
        return result["report"]
    return {"error": str(site["error"] or result.get("msg") or cause)}
