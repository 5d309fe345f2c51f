# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of one job as text, and what keeps it from starting that no glidein changes: pure functions of its facts.

The page, and the playbook `explain`, show these texts. They may name users: only callers with a token get them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..config import Settings
from ..pool.accounting_limits import CONCURRENCY, GROUPS, SUBMITTERS, Limit, Limits, of_group
from .formatting import format_age, format_count, format_duration, format_number, format_time, printable_values

IDLE, RUNNING, REMOVED, COMPLETED, HELD, TRANSFERRING, SUSPENDED = range(1, 8)
_STATES = {
    IDLE: "idle", RUNNING: "running", REMOVED: "removed", COMPLETED: "completed", HELD: "held",
    TRANSFERRING: "transferring output", SUSPENDED: "suspended",
}  # fmt: skip
UNKNOWN = "unknown"

VANILLA = 5
_OTHER_UNIVERSES = {
    7: "scheduler: the access point itself runs it",
    9: "grid: the schedd sends it to another batch system",
    11: "parallel: it needs machines with a dedicated scheduler",
    12: "local: the access point itself runs it",
    13: "vm: it needs a machine that runs virtual machines",
}

_NOT_OFFERED = {
    "IsNoopJob": (
        "Its IsNoopJob is true (noop_job): the schedd ends it without a machine",
        "Nothing: it needs no glidein.",
    ),
    "WantParallelScheduling": (
        "Its WantParallelScheduling is true: it needs machines with a dedicated scheduler",
        "If a glidein is to run it, submit it again without this attribute.",
    ),
    "Managed": (
        "Its Managed is External: a job router runs it elsewhere",
        "Nothing: it needs no glidein. `condor_router_q` shows where it runs.",
    ),
    "MaxHosts": (
        "Its CurrentHosts is not below MaxHosts: the schedd takes it for started",
        "Look at the job: `condor_q -long {job}`.",
    ),
}
"""Reason and action for each condition of pool/jobs.py that keeps an idle job from being offered to the negotiator."""

_HOW_TO_RAISE = {
    CONCURRENCY: "set {upper}_LIMIT in the configuration of the negotiator, then `condor_reconfig -negotiator`",
    SUBMITTERS: "`condor_userprio -setceiling {name} NUMBER`, -1 for none",
    GROUPS: "set GROUP_QUOTA_{name} in the configuration of the negotiator, then `condor_reconfig -negotiator`",
}

_SCHEDD_INTERVAL_S = 300
"""HTCondor's default of SCHEDD_INTERVAL: by so much a deferred job is matched before its time."""


@dataclass(frozen=True)
class Pool:
    """The last results of the server's queries, and its state. demand: the full get_demand, before leases."""

    demand: Mapping[str, Any]
    limits: Limits | None
    settings: Settings
    paused: bool
    now: float


def describe(job: str, found: Mapping[str, Any], pool: Pool) -> dict[str, Any]:
    """Return the result of get_job: docs/protocol.md has its keys. job: its id; found: JobLookup.find."""
    result: dict[str, Any] = {
        "job": job, "schedd": None, "schedds": [schedd for schedd, _facts in found["found"]], "as_of": int(pool.now),
        "state": UNKNOWN, "text": "", "since": None, "queued_at": None, "user": None, "in_demand": False,
        "group": None, "obstacles": [], "rejected": None,
    }  # fmt: skip
    if len(found["found"]) != 1:
        return printable_values({**result, **_not_one(job, found)})
    schedd, facts = found["found"][0]
    group = facts["group"]
    row = next((each for each in pool.demand["groups"] if group and each["id"] == group["id"]), None)
    return printable_values(
        {
            **result,
            "schedd": schedd,
            "state": _STATES.get(facts["status"], UNKNOWN),
            "text": _text(facts, pool.now),
            "since": facts["since"],
            "queued_at": facts["queued_at"],
            "user": facts["user"],
            "in_demand": row is not None and facts["status"] == IDLE and not facts["excluded_by"],
            "group": group and {key: value for key, value in group.items() if key != "accounting_group"},
            "obstacles": _obstacles(job, schedd, facts, row, pool),
            "rejected": _rejected(facts, pool.now),
        }
    )


def obstacle(reason: str, action: str, blocks: bool = True) -> dict[str, Any]:
    """Return an obstacle. blocks: True if no glidein lets the job start before the operator or the user acts."""
    return {"reason": reason, "action": action, "blocks": blocks}


def _not_one(job: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of the result if no schedd, or several ones, have the job."""
    names = [schedd for schedd, _facts in found["found"]]
    if names:
        reason = f"{len(names)} schedds have a job {job}: {', '.join(names)}"
        return {"text": reason, "obstacles": [obstacle(reason, f"Name its schedd: {names[0]}#{job}.")]}
    if found["errors"]:
        failed = "; ".join(f"{schedd}: {error}" for schedd, error in found["errors"].items())
        reason = f"the job was not found, and not all schedds answered: {failed}"
        return {"text": reason, "obstacles": [obstacle(reason, "Try again when the schedd answers.")]}
    where = ", ".join(found["schedds"]) or "no schedd"
    reason = f"neither the queue nor the history of ended jobs has it (read: {where})"
    action = f"Check the id with `condor_q {job}` and `condor_history {job}` on its access point."
    return {"text": reason, "obstacles": [obstacle(reason, action)]}


def _text(facts: Mapping[str, Any], now: float) -> str:
    """Return the state in words: "idle for 3 min", "held for 2 h: Error from slot1@node"."""
    status, since = facts["status"], facts["since"]
    if facts["place"] == "factory":
        return "not in the queue yet: its submission is materialized late"
    text = _STATES.get(status, f"{UNKNOWN}, JobStatus is {status}")
    if status == RUNNING and facts["host"]:
        text += f" on {facts['host']}"
    if since:
        ended = status in (COMPLETED, REMOVED)
        text += f" {format_age(since, now)}" if ended else f" for {format_duration(now - since)}"
    if status == COMPLETED and facts["exit_status"] is not None:
        text += f", exit status {facts['exit_status']}"
    reason = facts["hold_reason"] if status == HELD else facts["remove_reason"] if status == REMOVED else None
    return f"{text}: {reason}" if reason else text


def _obstacles(
    job: str, schedd: str, facts: Mapping[str, Any], row: Mapping[str, Any] | None, pool: Pool
) -> list[dict[str, Any]]:
    ended = _not_idle(job, facts)
    if ended is not None:
        return [ended]
    found = [*_never(job, facts, pool.settings), *_later(job, facts, pool.now), *_limits(schedd, facts, row, pool)]
    if pool.paused:
        found.append(obstacle(
            "The demand server is paused: nothing is submitted until it is resumed there",
            "Resume it: `glidein-demand resume` on the demand server's host.",
        ))  # fmt: skip
    if facts["place"] == "factory" and facts["group"] is None:
        found.append(obstacle(
            "Its submission is materialized late: what it requests is unknown until it is in the queue",
            f"Explain a job of the submission that is in the queue: `condor_q {job.partition('.')[0]}`.",
        ))  # fmt: skip
    if row is None and not any(each["blocks"] for each in found):
        found.append(_not_counted(schedd, facts, pool))
    return found


def _not_idle(job: str, facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the obstacle of a job that does not wait for a machine."""
    status = facts["status"]
    if status == HELD:
        return obstacle("A held job is not matched", f"Remove the cause, then release it: `condor_release {job}`.")
    if status in (REMOVED, COMPLETED):
        return obstacle(f"The job is {_STATES[status]}", "Nothing: it needs no glidein.")
    if status in (RUNNING, TRANSFERRING, SUSPENDED):
        return obstacle("The job has a slot", "Nothing: it does not wait.")
    if status != IDLE:
        return obstacle(f"JobStatus is {status}", f"Look at the job: `condor_q -long {job}`.")
    return None


def _never(job: str, facts: Mapping[str, Any], settings: Settings) -> list[dict[str, Any]]:
    """Return what keeps the job from starting on any glidein."""
    found = []
    universe = facts["universe"]
    if universe != VANILLA:
        kind = _OTHER_UNIVERSES.get(universe, f"number {universe}")
        found.append(obstacle(
            f"Its universe is {kind}", "If a glidein is to run it, submit it again with `universe = vanilla`."
        ))  # fmt: skip
    for attribute in facts["excluded_by"]:
        if attribute in _NOT_OFFERED:
            reason, action = _NOT_OFFERED[attribute]
            found.append(obstacle(reason, action.format(job=job)))
    if "pool.users" in facts["excluded_by"]:
        found.append(obstacle(
            f"The demand server does not count it: pool.users is {', '.join(settings.pool.users)}",
            "Add its user to pool.users in demand_server_settings.",
        ))  # fmt: skip
    if "pool.constraint" in facts["excluded_by"]:
        found.append(obstacle(
            f"The demand server does not count it: pool.constraint is `{settings.pool.constraint}`",
            f"Make this true for the job: `condor_qedit {job} ATTRIBUTE VALUE`; or change pool.constraint in "
            "demand_server_settings.",
        ))  # fmt: skip
    # Only jobs that need a machine need valid requests.
    if facts["unreadable"] and universe == VANILLA:
        attribute = facts["unreadable"]["attribute"]
        found.append(obstacle(
            f"{facts['unreadable']['error']}, so that HTCondor never starts it",
            f"Correct it: `condor_qedit {job} {attribute} VALUE`.",
        ))  # fmt: skip
    return found


def _later(job: str, facts: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
    """Return what keeps the job from starting before a time."""
    found = []
    if facts["deferred_until"] is not None:
        start = facts["deferred_until"] - (facts["deferral_prep_s"] or 0) - _SCHEDD_INTERVAL_S
        if start > now:
            at = format_time(facts["deferred_until"], now)["at"]
            found.append(obstacle(
                f"It is deferred: its DeferralTime is {at}",
                f"Wait, or change the time: `condor_qedit {job} DeferralTime SECONDS`.",
            ))  # fmt: skip
    if (facts["cool_down_until"] or 0) > now:
        at = format_time(facts["cool_down_until"], now)["at"]
        found.append(obstacle(f"It cools down until {at} after an interrupted start (JobCoolDownExpiration)", "Wait."))
    return found


def _limits(schedd: str, facts: Mapping[str, Any], row: Mapping[str, Any] | None, pool: Pool) -> list[dict[str, Any]]:
    """Return the limits on running jobs that exclude jobs of the group. Those of other users are left out."""
    if row is None:
        return []
    limited, over = row.get("limited_by", {}), row["over_limit"]
    every = not any(row["users"].get(user) for user in facts["group"]["users"])  # no job of the user can start now

    def which(jobs: int) -> str:
        total = row["count"] + over
        if total == 1:
            return "The only job of its group is"
        return f"{'All' if jobs == total else f'{jobs:,} of'} {format_count(total, 'job')} of its group are"

    found = [
        obstacle(f"{which(limited[str(limit)])} over a limit: {limit}", _raise_limit(limit), every)
        for limit in of_group(facts["group"], pool.limits)
        if str(limit) in limited
    ]
    if over <= sum(limited.values()):
        return found
    limits = [each["limit"] for each in pool.demand["waiting_for_limit"] if each["schedd"] == schedd]
    if limits:
        number = format_number(limits[0])
        found.append(obstacle(
            f"MAX_JOBS_RUNNING of {schedd} is {number}: jobs beyond it cannot start until others end",
            f"Wait until running jobs end, or raise MAX_JOBS_RUNNING in the configuration of {schedd}.",
            every,
        ))  # fmt: skip
    if facts["place"] == "factory" and (every or not limits):
        found.append(obstacle(
            "The max_idle or max_materialize of its submission keeps jobs out of the queue until others start or end",
            "Wait until jobs of the submission start and end, or raise max_idle and max_materialize.",
            every,
        ))  # fmt: skip
    return found


def _raise_limit(limit: Limit) -> str:
    """Return what to do about a limit of the negotiator. If nothing uses it, no job ends that could free a part."""
    how = _HOW_TO_RAISE[limit.kind].format(name=limit.name, upper=limit.name.upper())
    return f"Wait until running jobs end, or raise it: {how}." if limit.used else f"Raise the limit: {how}."


def _not_counted(schedd: str, facts: Mapping[str, Any], pool: Pool) -> dict[str, Any]:
    """Return why the last reading of the queue does not have the job's group."""
    failed = {each["name"]: each["error"] for each in pool.demand["schedds"]["failed"]}
    if schedd in failed:
        return obstacle(
            f"The demand server's last query of {schedd} failed: {failed[schedd]}",
            "Restore the schedd; the next reading counts its jobs.",
            False,
        )
    wait = f"Wait for the next reading, at most {format_duration(pool.settings.pool.refresh_seconds)}."
    as_of = pool.demand["as_of"]
    if as_of is None:
        return obstacle("The queue has not been read yet", wait, False)
    read = format_age(as_of, pool.now)
    if (facts["since"] or facts["queued_at"] or 0) >= as_of:
        return obstacle(f"It became idle after the last reading of the queue, {read}", wait, False)
    return obstacle(f"The last reading of the queue, {read}, does not count it", wait, False)


def _rejected(facts: Mapping[str, Any], now: float) -> str | None:
    """Return the negotiator's last reason not to match an idle job, as the schedd notes it in its ad."""
    if facts["status"] != IDLE or not facts["rejected"]:
        return None
    at = facts["rejected_at"]
    return f"{facts['rejected']}{f' ({format_age(at, now)})' if at else ''}"
