# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The explanation of one job for the playbook explain: pure functions of what was read."""

from typing import Any, Dict, List, Optional, Sequence

from ansible_collections.glidein.ops.plugins.module_utils.common.token_expiry import utc
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Demand, Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_summary import how_served, job_numbers
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import (
    count,
    cut,
    number,
    one_line,
    section,
    table,
    wrap,
)

_HEAD = ("SITE", "ENTRY", "SHAPE", "QUEUED", "RUNNING", "JOBS")
# The states of a job that a glidein may serve, with the titles of their table.
WAITING = {"idle": "if the demand counted it", "held": "after its release"}
# Two lines of the report.
_MAX_REQUIREMENTS = 160
# One screen: entries of many sites are summed up.
_MAX_ENTRIES = 12
_MAX_CONDITIONS = 6
_NOT_READ = "no host for condor_q: set explain_host, or add a host to the group glidein_demand_server"


def with_job(demand: Dict[str, Any], job: Dict[str, Any]) -> Dict[str, Any]:
    """Return the demand with at least one counted job of the job's group, so that the plan has a verdict on it.

    demand: get_demand; job: get_job. A job that is not counted, such as a held one, is added as one idle job.
    """
    group, row = job.get("group"), _row(demand, job)
    if not group or (row and row["count"] > 0):
        return demand
    others = [each for each in demand.get("groups") or [] if each["id"] != group["id"]]
    return dict(demand, groups=[*others, dict(group, count=1, leased=0, stale=0, unmaterialized=0)])


def job_explanation(
    job: Dict[str, Any], demand: Demand, plan: Plan, analysis: Dict[str, Any], left_out: Sequence[str] = ()
) -> List[str]:
    """Return the lines that explain why a job waits.

    job: get_job; demand, plan: of cycle.read_demand and cycle.plan_sites for the demand of `with_job` and the group of
    the job, without items for a job that needs no plan; analysis: the result of job_analysis, also of a skipped or
    failed task; left_out: the hosts in pull mode, which the plan does not consider.
    """
    row = _row(demand.demand, job) if job["state"] == "idle" else None
    counted = row is not None and row["count"] > 0
    rows = plan.explanation if job.get("group") and job["state"] in WAITING else ()
    lines = _job_lines(job) + _group_lines(job.get("group"), row, plan, counted)
    lines += section("WHAT NO GLIDEIN CAN CHANGE", _obstacle_lines(job))
    title = "ENTRIES" if counted else f"ENTRIES, {WAITING.get(job['state'])}"
    lines += section(title, _entry_lines(rows, plan, job.get("group"), counted))
    claimed = _claimed_lines(rows, demand) if job["state"] == "idle" else []
    lines += section("HTCONDOR (condor_q -better-analyze)", claimed + _analysis_lines(job, analysis))
    return lines + section("NEXT STEP", wrap(_next_step(job, demand, plan, rows, row, left_out), "  "))


def _row(demand: Dict[str, Any], job: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Return the group of the demand, get_demand, to which a job belongs, or None."""
    group = job.get("group") or {}
    return next((each for each in demand.get("groups") or [] if each["id"] == group.get("id")), None)


def _job_lines(job: Dict[str, Any]) -> List[str]:
    name = f"{job['schedd']}#{job['job']}" if job.get("schedd") else job["job"]
    of = f" of {job['user']}" if job.get("user") else ""
    queued = f"; submitted {utc(job['queued_at'])}" if job.get("queued_at") else ""
    return wrap(f"Job {name}{of}: {job['text']}{queued}.", "")


def _group_lines(
    group: Optional[Dict[str, Any]], row: Optional[Dict[str, Any]], plan: Plan, counted: bool
) -> List[str]:
    """Return what the job requests, and how the jobs of its group are served. row: of _row."""
    if not group:
        return []
    request = [count(group["cpus"], "core"), f"{group['memory_mb']} MB of memory", f"{group['disk_mb']} MB of disk"]
    request += [count(group["gpus"], "GPU")] if group["gpus"] else []
    request += [f"at most {group['max_runtime_s']} s"] if group["max_runtime_s"] is not None else []
    lines = wrap(f"It requests {', '.join(request)}: group {group['id']}.", "")
    if group.get("requirements"):
        lines += wrap(f"Requirements: {cut(one_line(group['requirements']), _MAX_REQUIREMENTS)}", "")
    return lines + (wrap(f"Its group: {_served(row, plan, counted)}.", "") if row else [])


def _served(row: Dict[str, Any], plan: Plan, counted: bool) -> str:
    """Return how the idle jobs of a group are served, in the words of the line that begins the table of status."""
    numbers = job_numbers([row], plan if counted else Plan())
    text = how_served(numbers) if plan.items else ""
    text = f"{count(numbers['idle_jobs'], 'idle job')}{f': {text}' if text else ''}"
    more = (
        (numbers["stale"], "of schedds that do not answer"),
        (numbers["leased_by_others"], "that other sites have a lease on"),
        (numbers["over_limit"], "over a limit"),
    )
    return text + "".join(f"; {jobs} more {description}" for jobs, description in more if jobs)


def _obstacle_lines(job: Dict[str, Any]) -> List[str]:
    """Return what keeps a waiting job from starting; the text of other states is enough."""
    if job["state"] not in WAITING:
        return []
    return [line for each in job["obstacles"] for line in wrap(f"{each['reason']}. {each['action']}", "  ")]


def _entry_lines(rows: Sequence[Dict[str, Any]], plan: Plan, group: Any, counted: bool) -> List[str]:
    """Return the table of the verdicts: entries that serve the job first, then those where it fits.

    JOBS is the number of jobs of the group for which glideins are queued, starting or about to be submitted.
    """
    items = {item.key: item for item in plan.items}
    ordered = sorted(rows, key=lambda row: (-row["serves"], not row["fits"], row["site"], row["entry"], row["shape"]))
    cells = []
    for row in ordered[:_MAX_ENTRIES]:
        item = items.get((row["site"], row["entry"], row["shape"]))
        jobs = item.serves.get(group["id"], 0) if item and counted else 0
        numbers = [number(item and item.counted), number(item and item.running), number(jobs)]
        cells.append(([row["site"], row["entry"], row["shape"], *numbers], row["reason"]))
    more = len(ordered) - _MAX_ENTRIES
    fitting = sum(row["fits"] for row in ordered[_MAX_ENTRIES:])
    left = [f"  and {count(more, 'shape')} more ({fitting} fit)"] if more > 0 else []
    return table(_HEAD, cells) + left


def _claimed_lines(rows: Sequence[Dict[str, Any]], demand: Demand) -> List[str]:
    """Return a line if all cores of the glideins where the job fits are claimed: condor_q shows that as a mismatch."""
    fitting = {(row["site"], row["entry"], row["shape"]) for row in rows if row["fits"]}
    supplied = demand.supply.get("entries") or []
    found = [each for each in supplied if (each["site"], each["entry"], each["shape"]) in fitting]
    cpus, claimed = (sum(each.get(key) or 0 for each in found) for key in ("cpus", "cpus_claimed"))
    full = 0 < cpus <= claimed
    return wrap(f"all cores of the glideins where the job fits are claimed ({cpus})", "  ") if full else []


def _analysis_lines(job: Dict[str, Any], analysis: Dict[str, Any]) -> List[str]:
    """Return HTCondor's own analysis of the machines that are in the pool now."""
    if analysis.get("failed") or analysis.get("unreachable"):
        return wrap(f"not read: {analysis.get('msg')}", "  ")
    if analysis.get("error"):
        return wrap(f"not read: {analysis['error']}", "  ")
    if "conditions" not in analysis:
        return wrap(_NOT_READ, "  ") if job.get("schedd") and job["state"] == "idle" else []
    lines = []
    machines = analysis["machines"]
    if machines is None and analysis["conditions"]:
        lines += wrap("no machine in the pool to compare with", "  ")
    elif machines is not None:
        verdicts = ", ".join(f"{each['machines']} {each['verdict']}" for each in analysis["counts"])
        lines += wrap(f"of {count(machines, 'machine')}: {verdicts or 'nothing to report'}", "  ")
        conditions = sorted(analysis["conditions"], key=lambda each: each["slots"])
        for each in conditions[:_MAX_CONDITIONS]:
            lines += wrap(f"{count(each['slots'], 'slot')}: {each['condition']}", "    ")
    if analysis["last_failure"]:
        lines += wrap(f"reason for the last match failure: {analysis['last_failure']}", "  ")
    return lines


def _next_step(
    job: Dict[str, Any],
    demand: Demand,
    plan: Plan,
    rows: Sequence[Dict[str, Any]],
    row: Optional[Dict[str, Any]],
    left_out: Sequence[str],
) -> str:
    """Return the one thing to do next, in a sentence."""
    blocking = [each for each in job["obstacles"] if each["blocks"]]
    if blocking:
        return blocking[0]["action"]
    if demand.error:
        return f"Restore the demand server, then try again: {demand.error}"
    stopped = [item.reason for item in plan.items if ": nothing is changed" in item.reason]
    if stopped:
        return f"Remove what stops the plan: {stopped[0]}"
    if row and not row["count"] and row.get("leased"):
        return "Wait: another controller has leased the job for glideins of its sites."
    if job["obstacles"] and not row:
        return job["obstacles"][0]["action"]
    if not rows:
        return "Add a site: no site of the inventory has an entry that could be read."
    return _step_of_group(job["group"], plan, rows, left_out)


def _step_of_group(group: Dict[str, Any], plan: Plan, rows: Sequence[Dict[str, Any]], left_out: Sequence[str]) -> str:
    """Return the next step for a job that only lacks a glidein."""
    items = {item.key: item for item in plan.items}
    serving = [row for row in rows if row["serves"]]
    if serving:
        item = items[tuple(serving[0][key] for key in ("site", "entry", "shape"))]
        path = "/".join(item.key)
        if group["id"] in item.waits and not item.counted:
            return f"Wait for the next cycle, which submits a glidein to {path}; or run glidein.ops.cycle now."
        if item.counted:
            return f"Wait: glideins are queued at {path}. If they stay queued, look at its batch queue."
        return f"Wait: glideins at {path} are starting."
    fitting = [row for row in rows if row["fits"]]
    if not fitting and any(row["passed_over"] for row in rows):
        return (
            "Look at the priority of the job's user and at the quota of its accounting group, with `condor_userprio "
            "-all -allusers`: the negotiator has left the job idle beside free glideins that fit."
        )
    if not fitting:
        in_pull_mode = f" Sites in pull mode were not considered: {', '.join(left_out)}." if left_out else ""
        return (
            "Change the request of the job, or add a shape or an entry that satisfies it: the table has the first "
            f"reason of each entry.{in_pull_mode}"
        )
    unserved = [each["reason"] for each in plan.unserved if each["group"] == group["id"]]
    if unserved:
        return f"Wait, or remove the cause: {unserved[0]}."
    return "Wait for the next negotiation cycle: a free slot of the pool is meant for it."
