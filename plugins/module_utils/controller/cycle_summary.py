# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The summary of a cycle and the table of the playbook status, as lines of text. Pure functions."""

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.drains import drain_text
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Demand, Lease, Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.input import Key
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.reasons import KEPT
from ansible_collections.glidein.ops.plugins.module_utils.controller.problems import (
    Outcome,
    Sites,
    cycle_problems,
    status_problems,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import (
    count,
    cut,
    number,
    one_line,
    paragraphs,
    section,
    table,
    wrap,
)

_MAX_JOB_IDS_WIDTH = 12
# The age from which the summary states when the demand was read: jobs submitted since then are not in it.
_OLD_READING_S = 120

_CYCLE_HEAD = ("SITE", "ENTRY", "SHAPE", "PRESENT", "QUEUED", "RUNNING", "REGISTERED", "SUBMITTED", "CANCELLED")
_CHECK_HEAD = _CYCLE_HEAD[:-2] + ("TO SUBMIT", "TO CANCEL")
_STATUS_HEAD = ("SITE", "ENTRY", "SHAPE", "QUEUED", "RUNNING", "SICK", "REGISTERED", "USED", "DEMAND")


def cycle_summary(
    sites: Sites,
    glideins: Dict[str, Any],
    demand: Demand,
    plan: Plan,
    lease: Lease,
    report_errors: Sequence[Dict[str, str]],
    check_mode: bool,
) -> Dict[str, Any]:
    """Return {"lines", "problems", "submitted", "cancelled"}: the decisions and actions of a cycle.

    sites: {host: definition} of sites_of_play; glideins: {host: result of the module glideins}, also of a skipped or
    failed task; demand, plan, lease, report_errors: results of the steps in cycle.py; plan: with the items that the
    leases left. In check mode the lines show what would be done.
    """
    outcomes = [_outcome(host, site, glideins[host], report_errors) for host, site in sites.items()]
    leased = plan.items
    plan = plan if check_mode else plan._replace(items=[_submitted_item(outcomes, item) for item in leased])
    not_submitted = _served(leased) - _served(plan.items)
    lost = dict(lease.not_leased, **{"whose glideins could not be submitted": not_submitted})
    problems = [one_line(problem) for problem in cycle_problems(outcomes, demand, plan, lease)]
    rows = []
    for before, item in zip(leased, plan.items):
        changes = _changes(outcomes, item, check_mode)
        if not _is_empty(before, changes):
            # The problems state once for all shapes of a site why its queue is unknown.
            rows.append((_cycle_row(item, changes), KEPT if item.counted is None else _reason(outcomes, item)))
    lines = _demand_lines(demand, plan, lost)
    lines += section("", table(_CHECK_HEAD if check_mode else _CYCLE_HEAD, rows))
    omitted = len(leased) - len(rows)
    if omitted:
        lines += section("", [f"{omitted} of {count(len(leased), 'shape')} not listed: no glideins, none ordered."])
    lines += section("", _orphan_lines(outcomes, check_mode))
    lines += _sections(sites, demand, plan, problems)
    if check_mode:
        lines += ["", "Check mode: nothing was leased, submitted, cancelled or reported."]
    totals = {key: _glideins_changed(outcomes, key) for key in ("submitted", "cancelled")}
    return dict(totals, lines=lines, problems=problems)


def status_table(plan: Plan, demand: Demand, sites: Sites) -> List[str]:
    """Return the lines of the table of sites.

    plan, demand: of cycle.plan_sites and cycle.read_demand; sites: {host: definition} of sites_of_play.

    USED is the share of the glideins' core-hours of the last 7 days that jobs used.
    """
    supplied = _supplied(demand)
    rows = []
    for item in plan.items:
        cells = [number(value) for value in (item.counted, item.running, item.sick, _registered(item, demand))]
        used = _used(supplied.get(item.key, {}).get("core_hours"))
        rows.append(([*item.key] + cells + [used, number(_jobs_for(item, demand))], ""))
    lines = _demand_lines(demand, plan, {})
    lines += section("", table(_STATUS_HEAD, rows))
    return lines + _sections(sites, demand, plan, status_problems(plan, demand, sites))


def _sections(sites: Sites, demand: Demand, plan: Plan, problems: List[str]) -> List[str]:
    """Return the sections below the table."""
    return [
        *section("DRAINED", _drain_lines(sites)),
        *section("NOT SERVED", _unserved_lines(demand, plan)),
        *section("HELD BACK", paragraphs(plan.notes, "note")),
        *section("PROBLEMS", paragraphs(problems, "problem")),
    ]


def status_report(plan: Plan, demand: Demand, sites: Sites) -> Dict[str, Any]:
    """Return what status_table shows as a mapping for programs; docs/operations.md has its keys.

    The arguments are those of status_table. An unknown number is None.
    """
    supplied = _supplied(demand)
    return {
        "format": 1,
        "as_of": plan.as_of,
        "demand": _demand_numbers(demand, plan),
        "entries": [_status_item(item, supplied, demand) for item in plan.items],
        "drained": [
            {"site": site["site"], **drain}
            for site in sites.values()
            for drain in (site["queue"] or {}).get("drains") or []
        ],
        "unserved": [
            {"group": each["group"], "jobs": each["count"], "reason": each["reason"]} for each in plan.unserved
        ],
        "gateways": demand.supply.get("gateways"),
        "notes": plan.notes,
        "problems": status_problems(plan, demand, sites),
    }


def _supplied(demand: Demand) -> Dict[Key, Dict[str, Any]]:
    """Return {(site, entry, shape): row of get_supply}."""
    rows = demand.supply.get("entries") or []
    return {(row["site"], row["entry"], row["shape"]): row for row in rows}


def _demand_numbers(demand: Demand, plan: Plan) -> Optional[Dict[str, Any]]:
    """Return the numbers of the line that begins the table; None if the demand is unknown."""
    groups = _groups(demand)
    if groups is None or demand.demand.get("as_of") is None:
        return None
    return {
        "as_of": demand.demand["as_of"],
        "paused": bool(demand.demand.get("paused")),
        "groups": len(groups),
        **job_numbers(groups, plan),
    }


def job_numbers(groups: List[Dict[str, Any]], plan: Plan) -> Dict[str, int]:
    """Return the numbers of jobs of these groups of get_demand: idle ones, and those that are not counted."""
    names = {group["id"] for group in groups}
    served = (item.serves for item in plan.items)
    stale = sum(group.get("stale", 0) for group in groups)
    return {
        "idle_jobs": sum(group["count"] for group in groups) - stale,
        "for_glideins": sum(jobs for serves in served for name, jobs in serves.items() if name in names),
        "unserved": sum(each["count"] for each in plan.unserved if each["group"] in names),
        "leased_by_others": sum(group.get("leased", 0) for group in groups),
        "over_limit": sum(group.get("over_limit", 0) for group in groups),
        "stale": stale,
    }


def how_served(numbers: Dict[str, int], others: Sequence[Tuple[int, str]] = ()) -> str:
    """Return how idle jobs are served, as text. numbers: of job_numbers; others: [(jobs, what becomes of them)]."""
    free = numbers["idle_jobs"] - numbers["for_glideins"] - numbers["unserved"] - sum(jobs for jobs, _text in others)
    parts = (
        (numbers["for_glideins"], "for glideins on their way"),
        (free, "for free slots"),
        *others,
        (numbers["unserved"], "not served"),
    )
    return ", ".join(f"{jobs} {description}" for jobs, description in parts if jobs > 0)


def _status_item(item: PlanItem, supplied: Dict[Key, Dict[str, Any]], demand: Demand) -> Dict[str, Any]:
    """Return a plan item with what the collector knows of it. supplied: {(site, entry, shape): row of get_supply}."""
    row = supplied.get(item.key, {})
    core_hours = row.get("core_hours") or {}
    return {
        "site": item.site,
        "entry": item.entry,
        "shape": item.shape,
        "queued": item.counted,
        "running": item.running,
        "sick": item.sick,
        "present": item.present,
        "registered": _registered(item, demand),
        "demand": _jobs_for(item, demand),
        "cpus": row.get("cpus", 0),
        "cpus_claimed": row.get("cpus_claimed", 0),
        "granted_core_s": core_hours.get("granted_core_s"),
        "used_core_s": core_hours.get("used_core_s"),
        "reason": item.reason,
    }


def _registered(item: PlanItem, demand: Demand) -> Optional[int]:
    """Return the registered glideins of a plan item; None if the demand server did not return them."""
    supply = demand.supply
    return None if demand.error or supply.get("error") else item.registered


def _jobs_for(item: PlanItem, demand: Demand) -> Optional[int]:
    """Return the number of idle jobs that a plan item serves; None if the demand is unknown."""
    return None if demand.error else item.jobs_served


def _outcome(
    host: str, site: Dict[str, Any], result: Dict[str, Any], report_errors: Sequence[Dict[str, str]]
) -> Outcome:
    """Return the results of a site: {"host", "site", "error", "queue", "result", "report_error"}."""
    return {
        "host": host,
        "site": site["site"],
        "error": site["error"],
        "queue": site["queue"] or {},
        "result": result,
        "report_error": next((each["error"] for each in report_errors if each["site"] == site["site"]), None),
    }


def _served(items: Iterable[PlanItem]) -> int:
    """Return the number of jobs that starting, queued and new glideins of plan items are meant for."""
    return sum(item.jobs_served for item in items)


def _submitted_item(outcomes: List[Outcome], item: PlanItem) -> PlanItem:
    """Return a plan item as the module glideins left it: without the jobs of glideins that it could not submit."""
    result = _result_of(outcomes, item)
    if item.counted is None:
        return item
    if _has_refused(result):
        return item.with_queued(item.counted, "nothing was submitted or cancelled")
    decisions = _of_item(result, "decisions", item)
    # A limited decision has only the glideins that the login node found room for.
    is_limited = any(each["limited_by"] for each in decisions)
    if not is_limited and not result.get("errors"):
        return item
    wanted = item.added if is_limited else sum(each["submit"] for each in decisions)
    done = sum(each["count"] for each in _of_item(result, "submitted", item))
    queued = min(item.queued, max(0, item.queued - wanted + done))
    return item.with_queued(queued, f"{wanted - done} could not be submitted")


def _has_refused(result: Dict[str, Any]) -> bool:
    """Return whether the module glideins failed with an error of its own before it acted.

    After a crash, a time limit or a lost connection it is unknown what was submitted.
    """
    unknown = ("exception", "module_stderr", "timed_out", "unreachable")
    return bool(result.get("failed")) and "decisions" not in result and not any(result.get(key) for key in unknown)


def _reason(outcomes: List[Outcome], item: PlanItem) -> str:
    """Return the reason of a plan item, with the limit that made the module glideins submit fewer."""
    decisions = _of_item(_result_of(outcomes, item), "decisions", item)
    limits = [each["limited_by"] for each in decisions if each["limited_by"]]
    return "; ".join([item.reason, *(f"the login node found less room: {limit}" for limit in limits)])


def _drain_lines(sites: Sites) -> List[str]:
    """Return a paragraph for each drained site or entry whose queue is known."""
    texts = []
    for site in sites.values():
        for drain in (site["queue"] or {}).get("drains") or []:
            label = f"{site['site']}/{drain['entry']}" if drain["entry"] else site["site"]
            texts.append(f"{label}: {drain_text(drain)}")
    return paragraphs(texts, "drain")


def _changes(outcomes: List[Outcome], item: PlanItem, check_mode: bool) -> Tuple[str, str]:
    """Return (submitted, cancelled) of a plan item as text: numbers, with the job ids of submissions."""
    result = _result_of(outcomes, item)
    if check_mode:
        decisions = _of_item(result, "decisions", item)
        submit, cancel = (number(sum(each[key] for each in decisions)) for key in ("submit", "cancel"))
        return submit, cancel
    submitted = _of_item(result, "submitted", item)
    ids = ", ".join(str(each["job_id"] or "unknown") for each in submitted)
    return (
        number(sum(each["count"] for each in submitted)) + (f" (job {cut(ids, _MAX_JOB_IDS_WIDTH)})" if ids else ""),
        number(sum(each["count"] for each in _of_item(result, "cancelled", item))),
    )


def _result_of(outcomes: List[Outcome], item: PlanItem) -> Dict[str, Any]:
    """Return the result of the module glideins for the site of a plan item; {} without one."""
    return next((outcome["result"] for outcome in outcomes if outcome["site"] == item.site), {})


def _of_item(result: Dict[str, Any], key: str, item: PlanItem) -> List[Dict[str, Any]]:
    """Return the elements of a list in a result of the module glideins that are about a plan item."""
    return [each for each in result.get(key) or [] if (each["entry"], each["shape"]) == item.key[1:]]


def _glideins_changed(outcomes: List[Outcome], key: str) -> int:
    """Return the number of glideins that a cycle submitted or cancelled at all sites, orphans included."""
    return sum(each["count"] for outcome in outcomes for each in outcome["result"].get(key) or [])


def _is_empty(item: PlanItem, changes: Tuple[str, str]) -> bool:
    """Return whether the table omits a shape: it has no glideins, needs none, and nothing was changed."""
    numbers = [item.present, item.counted, item.running, item.sick, item.registered]
    return changes == ("0", "0") and numbers == [0] * len(numbers) and not item.serves


def _cycle_row(item: PlanItem, changes: Tuple[str, str]) -> List[str]:
    numbers = (item.present, item.counted, item.running, item.registered)
    return [*item.key, *map(number, numbers), *changes]


def _orphan_lines(outcomes: List[Outcome], check_mode: bool) -> List[str]:
    """Return a line for each site whose queued orphans are cancelled; a plan has no item for them."""
    lines = []
    for outcome in outcomes:
        result = outcome["result"]
        if check_mode:
            number = ((result.get("before") or {}).get("orphans") or {}).get("queued", 0)
        else:
            number = sum(each["count"] for each in result.get("cancelled") or [] if each["entry"] is None)
        if number:
            verb = "to cancel" if check_mode else "cancelled"
            orphans = count(number, "queued glidein")
            lines += wrap(f"{outcome['site']}: {orphans} {verb} whose entry or shape is not in the inventory.", "")
    return lines


def _groups(demand: Demand) -> Optional[List[Dict[str, Any]]]:
    """Return the demand's groups; None without a demand or with an invalid number of jobs, which the plan reports."""
    groups = demand.demand.get("groups")
    if not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
        return None
    numbers = [group.get(key, 0) for group in groups for key in ("count", "stale", "over_limit", "leased")]
    return groups if all(isinstance(number, int) for number in numbers) else None


def _demand_lines(demand: Demand, plan: Plan, not_leased: Dict[str, int]) -> List[str]:
    """Return a line with the number of idle jobs and how they are served; [] if the demand is unknown.

    not_leased: {why they get no glideins: jobs}.
    """
    groups = _groups(demand)
    if groups is None or (demand.demand.get("as_of") is None and not groups):
        return []
    numbers = job_numbers(groups, plan)
    idle = numbers["idle_jobs"]
    text = f"Demand: {count(idle, 'idle job')} in {count(len(groups), 'group')}" if idle else "Demand: no idle jobs"
    if idle and not plan.error:
        text += ": " + how_served(numbers, [(jobs, reason) for reason, jobs in not_leased.items()])
    not_counted = (
        (numbers["stale"], "of schedds that do not answer"),
        (
            numbers["over_limit"],
            "that a limit keeps waiting (MAX_JOBS_RUNNING, max_materialize, concurrency limits, ceilings, quotas)",
        ),
        (numbers["leased_by_others"], "that other sites have a lease on"),
    )
    text += "." + "".join(f" Not counted: {number} {description}." for number, description in not_counted if number)
    text += _reading_age(demand.demand.get("as_of"), plan.as_of, _OLD_READING_S if idle else 0)
    return wrap(text, "")


def _reading_age(read_s: Any, now_s: Any, least_s: int) -> str:
    """Return the age of the demand as a sentence if it is at least least_s, otherwise "". Times are epoch seconds."""
    if not all(isinstance(value, (int, float)) for value in (read_s, now_s)) or now_s - read_s < least_s:
        return ""
    age_s = int(now_s - read_s)
    return f" The queue was read {f'{age_s // 60} min' if age_s >= _OLD_READING_S else f'{age_s} s'} ago."


def _unserved_lines(demand: Demand, plan: Plan) -> List[str]:
    """Return a paragraph for each group of jobs that no glidein is ordered for."""
    groups = {group["id"]: group for group in _groups(demand) or []}
    texts = []
    for each in plan.unserved:
        first = groups.get(each["group"], {}).get("first_job")
        example = f" like {first}" if first else ""
        texts.append(f"{count(each['count'], 'job')}{example} (group {each['group']}): {each['reason']}")
    for group in groups.values():
        for reason, jobs in sorted((group.get("limited_by") or {}).items()):
            texts.append(f"{count(jobs, 'job')} (group {group['id']}): {reason}")
    for each in demand.demand.get("unreadable") or []:
        first = each.get("first_job") or "unknown"
        reason = each.get("error") or f"{each.get('attribute')} has no usable value"
        texts.append(f"{count(each['count'], 'job')} like {first}: {reason}, so that HTCondor never starts them")
    return paragraphs(texts, "group")


def _used(core_hours: Optional[Dict[str, Any]]) -> str:
    """Return the share of the glideins' core-seconds that jobs used, in per cent; "-" without any."""
    granted = core_hours.get("granted_core_s") if core_hours else None
    return f"{round(100 * core_hours['used_core_s'] / granted)}%" if core_hours and granted else "-"
