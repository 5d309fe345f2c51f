# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of the server, and the problems of the pool and the sites, each with the action to take."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..config import Settings
from .formatting import anchor, format_age, format_count, format_duration
from .results import PageData

ERROR, WARNING, NOTE = "error", "warning", "note"
MAX_LINES_OF_A_KIND = 5
"""The most lines of one kind. More problems become one line with their number, and the single ones are folded."""


class Kind(NamedTuple):
    """A kind of problem. plural: the text of one line for several problems, or "" if there is at most one."""

    severity: str
    title: str
    plural: str
    action: str


# The page uses this order: the most severe first.
KINDS: Mapping[str, Kind] = {
    "database": Kind(ERROR, "Database unusable", "", "Read the service's log: journalctl -u glidein-demand."),
    "queue": Kind(ERROR, "Queue not read", "", "Read the service's log: journalctl -u glidein-demand."),
    "schedd_gone": Kind(
        ERROR,
        "Schedd unavailable",
        "{} schedds are unavailable",
        "Check that the schedd runs (condor_status -schedd), and read its SchedLog.",
    ),
    "collector": Kind(
        ERROR,
        "Collector unavailable",
        "",
        "Check that the collector runs (condor_status -any). Until it answers, free slots are unknown.",
    ),
    "token": Kind(ERROR, "No token", "", "Create one for each site: glidein-demand token create NAME."),
    "login": Kind(
        ERROR,
        "Login needed",
        "{} sites need a login",
        "Log in to the site again (glidein.ops.login). Until then, no glidein is submitted; running ones continue.",
    ),
    "held": Kind(
        ERROR, "Held glideins", "glideins are held at {} entries", "Check the reason in the site's batch system."
    ),
    "allocation": Kind(
        ERROR,
        "Allocation used up",
        "allocations of {} entries are used up",
        "Renew the allocation, or remove the entry.",
    ),
    "unregistered": Kind(
        ERROR,
        "Glideins do not register",
        "glideins of {} entries never register",
        "Correct the cause if it is named. If not, read a glidein's log, and check the network and the credential.",
    ),
    "site_error": Kind(
        ERROR, "Site error", "{} sites have an error", "Correct the error. Until then, nothing changes at the site."
    ),
    "entry_error": Kind(
        ERROR,
        "Entry error",
        "{} entries have an error",
        "Correct the error. Until then, the entry's glideins are kept as they are.",
    ),
    "silent": Kind(
        ERROR,
        "No report",
        "{} sites do not report",
        "Check that the cycle runs on its controller and reaches the site.",
    ),
    "schedd_late": Kind(
        WARNING, "No answer", "{} schedds did not answer", "No action is needed: the next refresh queries it again."
    ),
    "some_unregistered": Kind(
        WARNING,
        "Some glideins do not register",
        "some glideins of {} entries never register",
        "Read a glidein's log at the site.",
    ),
    "ended_early": Kind(
        WARNING,
        "Glideins end early",
        "glideins of {} entries end early",
        "Read a glidein's log: it was killed, or no job matched.",
    ),
    "orphans": Kind(
        WARNING,
        "Orphaned glideins",
        "{} sites have orphaned glideins",
        "No action is needed: the next cycle cancels queued ones; running ones end.",
    ),
    "unreadable": Kind(
        WARNING,
        "Invalid job requests",
        "{} kinds of jobs cannot be counted",
        "Ask the owner to correct the submit file.",
    ),
    "supply": Kind(
        WARNING,
        "Inconsistent machine ad",
        "{} inconsistent machine ads",
        "Compare with condor_status -af Name AuthenticatedIdentity.",
    ),
    "limit": Kind(
        NOTE,
        "Jobs wait for a limit",
        "jobs of {} schedds wait for a limit",
        "No action is needed: more glideins would not start them.",
    ),
}

_MIN_ENDED_EARLY = 3
"""The fewest early ends for a problem: a glidein whose job was taken by another one also ends early."""

# The collection's own message about a session, and ssh's about the login: "Permission denied (publickey,password).".
_LOGIN = re.compile(
    r"login needed|log in again|permission denied(?: \([\w, -]+\)|, please try again)|verification code", re.IGNORECASE
)
# Slurm's limits on what ended jobs have used, and batch systems' own words. Other limits are about the request.
_ALLOCATION = re.compile(
    r"(?:assoc|qos)grp(?:(?!\w*runminutes)\w*minutes|wall)|qosusagethreshold|"
    r"allocation (?:is )?(?:exhausted|used up|expired)|insufficient (?:allocation|balance|budget|credit)|"
    r"used up (?:its|the|your) allocation|balance (?:is )?too low",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Problem:
    """A problem. subject: the schedd or site; site: its site, or ""; anchor: the HTML id of its row, or "".

    separator: the text between `subject` and `text`.
    """

    kind: str
    text: str
    subject: str = ""
    site: str = ""
    anchor: str = ""
    separator: str = ": "

    @property
    def severity(self) -> str:
        """Return ERROR, WARNING or NOTE."""
        return KINDS[self.kind].severity


def health(about: Mapping[str, Any], settings: Settings, now: float) -> dict[str, Any]:
    """Return the health of the server; only "ok" is healthy.

    about: QueryResults.about, or a result of get_demand. Times are in epoch seconds, ages in seconds.

    {"status": "ok"|"starting"|"stale", "as_of", "age_s", "max_age_s", "failed_schedds": n, "failed": [names]}
    """
    as_of = about["as_of"]
    age = None if as_of is None else max(0, int(now - as_of))
    failed = [schedd["name"] for schedd in about["schedds"]["failed"]]
    return {
        "status": "starting" if age is None else "stale" if age > settings.max_age_seconds else "ok",
        "as_of": as_of, "age_s": age, "max_age_s": settings.max_age_seconds,
        "failed_schedds": len(failed), "failed": failed,
    }  # fmt: skip


def find(data: PageData) -> list[Problem]:
    """Return all problems except a pause, sorted by severity, kind and subject."""
    problems = [*_of_demand(data), *_of_supply(data), *_of_reports(data), *_of_history(data)]
    if not data.database_works:
        problems.append(Problem("database", "Reports, leases and history cannot be stored."))
    if not data.can_report:
        problems.append(Problem("token", "No token exists: no site can report or take a lease."))
    order = list(KINDS)
    return sorted(problems, key=lambda problem: (order.index(problem.kind), problem.subject))


def lines(problems: list[Problem]) -> list[dict[str, Any]]:
    """Return the template's lines: [{**line, "severity", "kind", "title", "action", "members": [line]}]."""
    rows = []
    for name, kind in KINDS.items():
        same = [problem for problem in problems if problem.kind == name]
        single = [_line(problem) for problem in same]
        common = {"severity": kind.severity, "kind": name, "title": kind.title, "action": kind.action}
        if len(same) > MAX_LINES_OF_A_KIND and kind.plural:
            text = kind.plural.format(len(same))
            rows.append({**_line(Problem(name, text[0].upper() + text[1:])), **common, "members": single})
        else:
            rows += [{**line, **common, "members": []} for line in single]
    return rows


def _line(problem: Problem) -> dict[str, str]:
    text = problem.text if problem.text.endswith((".", "!", "?")) else f"{problem.text}."
    return {"subject": problem.subject, "separator": problem.separator, "anchor": problem.anchor, "text": text}


def _of_demand(data: PageData) -> Iterator[Problem]:
    demand, now = data.demand, data.now
    state = health(demand, data.settings, now)
    if state["status"] == "starting":
        error = demand["schedds"].get("error")
        reason = f" No schedd is known: {error.rstrip('.')}." if error else ""
        yield Problem("queue", f"The queue has not been read yet: the demand is unknown.{reason}")
    elif state["status"] == "stale":
        yield Problem(
            "queue", f"The queue was last read {format_duration(state['age_s'])} ago: no site submits glideins."
        )
    for schedd in demand["schedds"]["failed"]:
        as_of = schedd["as_of"]
        last = (
            "It was never read"
            if as_of is None
            else f"Last read {format_age(as_of, now)}; its last known jobs are counted"
        )
        gone = as_of is None or now - as_of > data.settings.max_age_seconds
        text = f"does not answer: {schedd['error'].rstrip('.')}. {last}."
        yield Problem("schedd_gone" if gone else "schedd_late", text, f"Schedd {schedd['name']}", separator=" ")
    for row in demand["unreadable"]:
        text = (
            f"{format_count(row['count'], 'idle job')} of {row['schedd']} cannot be counted: {row['attribute']} is "
            f"invalid (first job: {row['first_job'] or 'unknown'})."
        )
        if "error" in row:
            text += f" {row['error']}"
        yield Problem("unreadable", text)
    for row in demand["waiting_for_limit"]:
        jobs = format_count(row["count"], "idle job")
        text = f"{jobs} cannot start until others end: MAX_JOBS_RUNNING is {row['limit']:,}."
        yield Problem("limit", text, f"Schedd {row['schedd']}", anchor="demand")


def _of_supply(data: PageData) -> Iterator[Problem]:
    supply = data.supply
    if supply["error"]:
        as_of = supply["as_of"]
        last = "It was never read" if as_of is None else f"Last read {format_age(as_of, data.now)}"
        text = f"does not answer: {supply['error'].rstrip('.')}. {last}."
        yield Problem("collector", text, "The collector", separator=" ")
    for text in supply["problems"]:
        yield Problem("supply", text)


def _of_reports(data: PageData) -> Iterator[Problem]:
    for site, report in data.reports.items():
        silent = data.now - report["received"]
        if silent > data.settings.pool.silent_seconds:
            yield _of_site("silent", site, f"no report for {format_duration(silent)}.")
        if report["error"]:
            # Error texts of the collection's modules already begin with the site.
            text = report["error"].removeprefix(f"Site {site}: ")
            needs_login = _LOGIN.search(text)
            yield _of_site("login" if needs_login else "site_error", site, text)
        for entry in report["entries"]:
            yield from _of_entry(site, entry)
        if report["orphans"]:
            yield _of_site(
                "orphans", site, f"{format_count(report['orphans'], 'glidein')} of an unknown entry or shape."
            )


def _of_entry(site: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    place = f"{entry['entry']}/{entry['shape']}: "
    if entry["error"]:
        yield _of_site("entry_error", site, place + entry["error"].removeprefix(f"Site {site}: "))
    if entry["sick"]:
        reasons = "; ".join(entry.get("sick_reasons") or ())
        detail = f": {reasons}" if reasons else " or can never start."
        text = f"{place}{format_count(entry['sick'], 'glidein is', 'glideins are')} held{detail}"
        yield _of_site("allocation" if _ALLOCATION.search(reasons) else "held", site, text)


def _of_history(data: PageData) -> Iterator[Problem]:
    for entry in data.supply["entries"]:
        history = entry["history"]
        if not history:
            continue
        site, place = entry["site"], f"{entry['entry']}/{entry['shape']}: "
        window = format_duration(history["window_s"])
        causes = "".join(_failure(row) for row in history["failures"])
        started, lost = history["started"], history["never_registered"]
        if lost:
            kind = "unregistered" if 2 * lost >= started else "some_unregistered"
            text = f"{lost:,} of {format_count(started, 'glidein')} that started in the last {window} never registered."
            yield _of_site(kind, site, place + text + causes)
        elif lost is None and not entry["registered"] and _never_registered(history["plans"]):
            running = history["plans"][-1]["running"]
            yield _of_site("unregistered", site, f"{place}{format_count(running, 'glidein')} running, none registered.")
        early, joined = history["ended_early"] or 0, history["registered"] or 0
        if early >= _MIN_ENDED_EARLY and 2 * early >= joined:
            of_joined = f"{early:,} of {format_count(joined, 'glidein')}"
            text = f"{of_joined} that registered in the last {window} ended within minutes."
            yield _of_site("ended_early", site, place + text + ("" if lost else causes))


def _failure(row: Mapping[str, Any]) -> str:
    """Return a sentence about the glideins that failed with the same exit status."""
    reason = f": {row['reason'].rstrip('.')}" if row["reason"] else ""
    return f" {row['count']:,} ended with status {row['exit_status']}{reason}."


def _never_registered(plans: list[Mapping[str, Any]]) -> bool:
    """Return True if glideins ran in each of the last three reports and none was registered."""
    last = plans[-3:]
    return len(last) == 3 and all(plan["running"] and plan["registered"] == 0 for plan in last)


def _of_site(kind: str, site: str, text: str) -> Problem:
    return Problem(kind, text, f"Site {site}", site, anchor("site", site))
