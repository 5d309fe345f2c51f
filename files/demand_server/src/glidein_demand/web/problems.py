# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong in the pool and at the sites, the worst first, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Iterator, Mapping

from ..pool.refresh import COLLECTOR
from .health import health
from .shown import Shown
from .words import ago, anchor, duration, many, moment

ERROR, WARNING, NOTE = "error", "warning", "note"
MOST_OF_A_KIND = 5
"""More problems of one kind than this become one line that counts them, with the single ones folded under it."""

# kind: severity, what many of them are called, what to do. The worst first: this is the order of the page.
KINDS: Mapping[str, tuple[str, str, str]] = {
    "queue": (ERROR, "", "See the service's log: journalctl -u glidein-demand."),
    "schedd_gone": (ERROR, "{} schedds are gone", "Is it running? condor_status -schedd, and its SchedLog."),
    "collector": (ERROR, "", "Is it running? condor_status -any. Free slots are not known meanwhile."),
    "token": (ERROR, "", "Make one for each site: glidein-demand token create NAME."),
    "login": (ERROR, "{} sites need a login", "Log in to the site anew. Running glideins go on; none are submitted."),
    "held": (ERROR, "glideins are held at {} entries", "Look at the batch system's reason at the site."),
    "allocation": (ERROR, "an allocation or limit stops glideins at {} entries", "Renew it, or take the entry out."),
    "unregistered": (ERROR, "glideins of {} entries never register", "Read the log of one: network, credential?"),
    "site_error": (ERROR, "{} sites have an error", "Nothing changes at the site until this is put right."),
    "entry_error": (ERROR, "{} entries have an error", "The entry keeps what it has until this is put right."),
    "silent": (ERROR, "{} sites are silent", "Does the cycle run on its controller, and does it reach the site?"),
    "schedd_late": (WARNING, "{} schedds did not answer", "It is asked again at the next refresh."),
    "some_unregistered": (WARNING, "some glideins of {} entries never register", "Read the log of one at the site."),
    "ended_early": (WARNING, "glideins of {} entries end early", "Read the log of one: killed, or nothing to do?"),
    "orphans": (WARNING, "{} sites have glideins of no entry", "The next cycle cancels queued ones; others run out."),
    "unreadable": (WARNING, "jobs of {} kinds cannot be counted", "The owner must correct the submit file."),
    "supply": (WARNING, "{} oddities in the collector", "Compare with condor_status -af Name AuthenticatedIdentity."),
    "client_silent": (WARNING, "{} PyGlidein clients are silent", "Does the client still run there?"),
    "limit": (NOTE, "jobs of {} schedds wait for a limit", "Not an error; no glidein helps."),
}  # fmt: skip

_EARLY_AT_LEAST = 3
"""So many glideins end early before it is told: one that found its job taken by another is nothing to look at."""

_LOGIN = re.compile(
    r"permission denied|keyboard-interactive|verification code|one-time|two-factor|login\.yml|"
    r"log ?in (is )?(needed|anew|again)",
    re.IGNORECASE,
)
_ALLOCATION = re.compile(r"alloc|account|assoc|balance|budget|credit|grp|qos|quota|used up|limit", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. where: its subject; site: the site it is at, or ""; anchor: the id of its row, or ""."""

    kind: str
    text: str
    where: str = ""
    site: str = ""
    anchor: str = ""
    joined: str = ": "
    """What stands between `where` and `text`."""

    @property
    def severity(self) -> str:
        return KINDS[self.kind][0]


def find(shown: Shown) -> list[Problem]:
    """All problems, the worst first; those of one kind in the order of their names. The pause is told apart."""
    found = [*_of_demand(shown), *_of_supply(shown), *_of_reports(shown), *_of_history(shown), *_of_clients(shown)]
    if not shown.can_report:
        found.append(Problem("token", "No token exists: no site can report or take a lease."))
    order = list(KINDS)
    return sorted(found, key=lambda problem: (order.index(problem.kind), problem.where))


def listed(found: list[Problem]) -> list[dict[str, Any]]:
    """For the template: [{**line, "severity", "kind", "action", "single": [line]}], where a line is as of `_line`."""
    lines = []
    for kind, (severity, many_of_them, action) in KINDS.items():
        same = [problem for problem in found if problem.kind == kind]
        single = [_line(problem) for problem in same]
        if len(same) > MOST_OF_A_KIND and many_of_them:
            text = many_of_them.format(len(same))
            together = _line(Problem(kind, text[0].upper() + text[1:]))
            lines.append({**together, "severity": severity, "kind": kind, "action": action, "single": single})
        else:
            lines += [{**one, "severity": severity, "kind": kind, "action": action, "single": []} for one in single]
    return lines


def _line(problem: Problem) -> dict[str, str]:
    ended = problem.text if problem.text.endswith((".", "!", "?")) else f"{problem.text}."
    return {"where": problem.where, "joined": problem.joined, "anchor": problem.anchor, "text": ended}


def pause(shown: Shown) -> dict[str, Any] | None:
    """Return the banner while the server is paused: {"since", "by", "reason", "how"}; None when it is off."""
    state, configured = shown.pause, shown.settings.paused
    if not state["paused"] and not configured:
        return None
    # What the configuration does has no beginning that is known; the switch has.
    switched = state["paused"] and state["since"] is not None
    how = ["glidein-demand resume"] if switched else []
    how += ["server.paused = false in the configuration, and a restart"] if configured else []
    return {
        "since": moment(state["since"], shown.now) if switched else None,
        "by": state["by"] if switched else "the configuration",
        "reason": state["reason"] if switched else "server.paused = true",
        "how": "; ".join(how),
    }


def _of_demand(shown: Shown) -> Iterator[Problem]:
    demand, now = shown.demand, shown.now
    state = health(dict(demand), shown.settings, now)
    if state["status"] == "starting":
        yield Problem("queue", "The queue has not been read yet: nothing is known about the demand.")
    elif state["status"] == "stale":
        yield Problem("queue", f"The queue was last read {duration(state['age_s'])} ago: sites submit nothing on this.")
    for schedd in demand["schedds"]["failed"]:
        as_of = schedd["as_of"]
        last = "It was never read" if as_of is None else f"Last read {ago(as_of, now)}; its jobs count as then"
        gone = as_of is None or now - as_of > shown.settings.max_age_seconds
        text = f"does not answer: {schedd['error'].rstrip('.')}. {last}."
        who = "The pool" if schedd["name"] == COLLECTOR else f"Schedd {schedd['name']}"
        yield Problem("schedd_gone" if gone else "schedd_late", text, who, joined=" ")
    for row in demand["unreadable"]:
        text = (
            f"{many(row['count'], 'idle job')} of {row['schedd']} cannot be counted: {row['attribute']} has no usable "
            f"value (first: {row['first_job'] or 'unknown'})."
        )
        if shown.caller_has_token and row.get("error"):
            text += f" {row['error']}"
        yield Problem("unreadable", text)
    for row in demand.get("waiting_for_limit", ()):
        text = f"{many(row['count'], 'idle job')} cannot start before others end: MAX_JOBS_RUNNING is {row['limit']:,}."
        yield Problem("limit", text, f"Schedd {row['schedd']}", anchor="demand")


def _of_supply(shown: Shown) -> Iterator[Problem]:
    supply = shown.supply
    if supply["error"]:
        as_of = supply["as_of"]
        last = "It was never read" if as_of is None else f"Last read {ago(as_of, shown.now)}"
        text = f"does not answer: {supply['error'].rstrip('.')}. {last}."
        yield Problem("collector", text, "The collector", joined=" ")
    for text in supply.get("problems") or ():
        yield Problem("supply", text)


def _of_reports(shown: Shown) -> Iterator[Problem]:
    for site, report in shown.reports.items():
        silent = shown.now - report["received"]
        if silent > shown.settings.silent_seconds:
            yield _of_site("silent", site, f"no report for {duration(silent)}.")
        if report["error"]:
            # Error texts of the collection's modules begin with the site already.
            text = report["error"].removeprefix(f"Site {site}: ")
            needs_login = _LOGIN.search(text)
            yield _of_site("login" if needs_login else "site_error", site, text)
        for entry in report["entries"]:
            yield from _of_entry(site, entry)
        if report["orphans"]:
            yield _of_site("orphans", site, f"{many(report['orphans'], 'glidein')} of no entry or shape that is known.")


def _of_entry(site: str, entry: Mapping[str, Any]) -> Iterator[Problem]:
    place = f"{entry['entry']}/{entry['shape']}: "
    if entry["error"]:
        yield _of_site("entry_error", site, place + entry["error"].removeprefix(f"Site {site}: "))
    if entry["sick"]:
        reasons = "; ".join(entry.get("sick_reasons") or ())
        said = f": {reasons}" if reasons else ", or can never start."
        text = f"{place}{many(entry['sick'], 'glidein is', 'glideins are')} held{said}"
        yield _of_site("allocation" if _ALLOCATION.search(reasons) else "held", site, text)


def _of_history(shown: Shown) -> Iterator[Problem]:
    for entry in shown.supply["entries"]:
        history = entry.get("history")
        if not history:
            continue
        site, place = entry["site"], f"{entry['entry']}/{entry['shape']}: "
        window = duration(history["window_s"])
        started, lost = history["started"], history["never_registered"]
        if lost:
            kind = "unregistered" if 2 * lost >= started else "some_unregistered"
            text = f"{lost:,} of {many(started, 'glidein')} that started in the last {window} never registered."
            yield _of_site(kind, site, place + text)
        elif lost is None and not entry["registered"] and _runs_unseen(history["plans"]):
            running = history["plans"][-1]["running"]
            yield _of_site("unregistered", site, f"{place}{many(running, 'glidein')} running, and none has registered.")
        early, joined = history["ended_early"] or 0, history["registered"] or 0
        if early >= _EARLY_AT_LEAST and 2 * early >= joined:
            text = f"{early:,} of {many(joined, 'glidein')} that registered in the last {window} ended within minutes."
            yield _of_site("ended_early", site, place + text)


def _runs_unseen(plans: list[Mapping[str, Any]]) -> bool:
    """Whether in each of the last three reports glideins ran that the collector did not know."""
    last = plans[-3:]
    return len(last) == 3 and all(plan["running"] and plan["registered"] == 0 for plan in last)


def _of_clients(shown: Shown) -> Iterator[Problem]:
    for uuid, entry in shown.monitoring.items():
        silent = shown.now - entry["received"]
        if silent > shown.settings.silent_seconds:
            yield Problem("client_silent", f"nothing heard for {duration(silent)}.", f"Client {uuid}", anchor="clients")


def _of_site(kind: str, site: str, text: str) -> Problem:
    return Problem(kind, text, f"Site {site}", site, anchor("site", site))
