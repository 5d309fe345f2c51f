# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The problems that the summary of a cycle and the table of the playbook status name, as sentences. Pure functions."""

import collections
from typing import Any, Dict, List, Optional, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import MIN_LEFT_S, REMEDY, utc
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Demand, Lease, Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import count, listed, one_line

# {host: definition} of sites_of_play.
Sites = Dict[str, Dict[str, Any]]
# The results of a site: {"host", "site", "error", "queue", "result", "report_error"}.
Outcome = Dict[str, Any]

_MAX_SITES = 5
_MAX_SUPPLY_PROBLEMS = 5
# The fewest failed glideins of an entry that are a problem, and their fewest per cent of those that started.
_MIN_FAILED = 3
_MIN_FAILED_PERCENT = 10


def cycle_problems(outcomes: List[Outcome], demand: Demand, plan: Plan, lease: Lease) -> List[str]:
    """Return one sentence for each problem of a cycle."""
    problems = []
    for missing, error in (("no demand", demand.error), ("no plan", plan.error)):
        if error:
            problems.append(f"{missing}, so nothing was changed: {error}")
    problems += _reading_problems(demand, plan)
    named = set()
    for outcome in outcomes:
        site_problems = _site_problems(outcome)
        if site_problems:
            named.add(outcome["site"])
        label = outcome["site"] if outcome["host"] == outcome["site"] else f"{outcome['site']} ({outcome['host']})"
        # The module glideins reports an invalid credential of the batch system, too.
        site_problems += [*_token_problems(outcome), *_queue_problems(outcome["queue"])]
        problems += [f"{label}: {problem}" for problem in dict.fromkeys(site_problems)]
        # A refused token has one cause: the failed reading or lease states it.
        if outcome["report_error"] and outcome["report_error"] not in _refusals(outcome["site"], demand, lease):
            problems.append(f"{outcome['site']}: not reported to the demand server: {outcome['report_error']}")
    problems += _failure_problems(demand, plan)
    unknown = {item.site: item.reason for item in plan.items if item.counted is None}
    problems += [f"{site}: {reason}" for site, reason in unknown.items() if site not in named]
    problems += _lease_problems(lease)
    # The site's own problems include an invalid configuration, but not a name that another site has, too.
    hosts = collections.Counter(outcome["site"] for outcome in outcomes)
    problems += [
        f"{error['site']}: {error['error']}"
        for error in plan.errors
        if error["site"] not in named or hosts[error["site"]] > 1
    ]
    return problems


def status_problems(plan: Plan, demand: Demand, sites: Sites) -> List[str]:
    """Return one sentence for each problem that the table of sites shows. The arguments are those of status_table."""
    items = plan.items
    problems = [f"no demand: {demand.error}"] if demand.error else []
    problems += _reading_problems(demand, plan)
    # The reason is the same for all entries of a site: its queue is read once.
    problems += [f"{item.site}: {item.reason}" for item in items if item.counted is None]
    problems += [f"{'/'.join(item.key)}: {item.reason}" for item in items if item.sick]
    for site in sites.values():
        problems += [f"{site['site']}: {problem}" for problem in _queue_problems(site["queue"] or {})]
    problems += _failure_problems(demand, plan)
    # The plan finds no entries where variables could not be read.
    unreadable = {site["site"]: site["error"] for site in sites.values() if not site["entries"]}
    for error in plan.errors:
        problems.append(f"{error['site']}: {unreadable.get(error['site']) or error['error']}")
    return [one_line(problem) for problem in dict.fromkeys(problems)]


def _reading_problems(demand: Demand, plan: Plan) -> List[str]:
    """Return the failed readings of the demand server, and the reasons why a plan changes nothing."""
    problems = []
    schedds = demand.demand.get("schedds") or {}
    if schedds.get("error"):
        problems.append(f"the demand server knows no schedd: {schedds['error']}")
    for failed in schedds.get("failed") or []:
        problems.append(f"schedd {failed.get('name')} did not answer the demand server: {failed.get('error')}")
    error = demand.supply.get("error")
    if error:
        problems.append(f"the demand server could not read the collector: {error}")
    problems += [str(line) for line in demand.supply.get("problems") or []][:_MAX_SUPPLY_PROBLEMS]
    # Without idle jobs no line of the table shows why the plan changes nothing. If the demand server was not read, that
    # is the reason.
    reasons = [] if demand.error else [item.reason for item in plan.items]
    if demand.demand.get("paused"):
        problems.append("the demand server is paused: nothing is submitted until it is resumed there")
    return problems + list(dict.fromkeys(reason for reason in reasons if ": nothing is changed" in reason))


def _failure_problems(demand: Demand, plan: Plan) -> List[str]:
    """Return a sentence for each entry of the plan and exit status with which its glideins failed.

    Single failures among many glideins are no problem.
    """
    paths = {item.path for item in plan.items}
    histories: Dict[Tuple[str, str], List[Dict[str, Any]]] = {}
    for each in demand.supply.get("entries") or []:
        if each.get("history") and (each["site"], each["entry"]) in paths:
            histories.setdefault((each["site"], each["entry"]), []).append(each["history"])
    problems = []
    for path, found in sorted(histories.items()):
        failures: Dict[int, List[Dict[str, Any]]] = {}
        for failure in (failure for history in found for failure in history.get("failures") or []):
            failures.setdefault(failure["exit_status"], []).append(failure)
        failed = sum(failure["count"] for same in failures.values() for failure in same)
        ended = sum((history.get(key) or 0) for history in found for key in ("registered", "never_registered"))
        if failed >= _MIN_FAILED and 100 * failed >= _MIN_FAILED_PERCENT * ended:
            problems += [_failure_text("/".join(path), same, found[0].get("window_s")) for same in failures.values()]
    return problems


def _failure_text(path: str, failures: List[Dict[str, Any]], window_s: Optional[int]) -> str:
    """Return a sentence about failures of an entry with the same exit status."""
    last = max(failures, key=lambda failure: failure["last"])
    period = f" in the last {window_s // 3600} h" if window_s else ""
    number = count(sum(failure["count"] for failure in failures), "glidein")
    text = f"{number} of {path} ended with status {last['exit_status']}{period}, the last one at {utc(last['last'])}"
    return f"{text}: {last['reason']}" if last["reason"] else text


def _lease_problems(lease: Lease) -> List[str]:
    """Return one sentence for each error of a lease request, with the sites that got it."""
    sites: Dict[str, List[str]] = {}
    for error in lease.errors:
        sites.setdefault(error["error"], []).append(error["site"])
    return [
        f"{listed(names, _MAX_SITES)}: no lease, so nothing new was ordered: {text}" for text, names in sites.items()
    ]


def _refusals(site: str, demand: Demand, lease: Lease) -> List[str]:
    """Return the errors of the earlier calls to the demand server for a site."""
    texts = [str(error["error"]) for error in lease.errors if error["site"] == site]
    return texts + ([demand.error] if demand.error else [])


def _site_problems(outcome: Outcome) -> List[str]:
    """Return one sentence for each problem at a site itself."""
    result = outcome["result"]
    prefix = f"Site {outcome['site']}: "

    def plain(text: Any) -> str:
        text = str(text)
        return text[len(prefix) :] if text.startswith(prefix) else text

    if outcome["error"]:
        return [f"left as it is: {plain(outcome['error'])}"]
    if result.get("errors"):
        return [
            (f"{error['entry']}/{error['shape']}: " if error["entry"] else "") + str(error["error"])
            for error in result["errors"]
        ]
    if result.get("unreachable"):
        return [f"{plain(result.get('msg'))}; submissions may have been made before: the next cycle counts again"]
    # Without a list of errors the module did not start.
    return [plain(result.get("msg"))] if result.get("failed") else []


def _token_problems(outcome: Outcome) -> List[str]:
    """Return a sentence if the token on a site's login node expires soon or has expired."""
    queue = outcome["queue"]
    end = queue.get("credential_expires")
    if end is None or end - queue["as_of"] > MIN_LEFT_S:
        return []
    # Then the module glideins has reported it.
    if end <= queue["as_of"] and outcome["result"].get("failed"):
        return []
    return [f"its token {'expires' if end > queue['as_of'] else 'expired'} at {utc(end)}: {REMEDY}"]


def _queue_problems(queue: Dict[str, Any]) -> List[str]:
    """Return a sentence for each problem that the reading of a queue found: credentials, jobs in unknown states."""
    return [*((queue.get("access") or {}).get("problems") or []), *(queue.get("unknown_states") or [])]
