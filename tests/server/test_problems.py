# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the problems on the page: what is one, its text, its severity, and their order."""

import pytest
from glidein_demand.web import problems

from page_data import NOW, demand, entry, experience, group, page_data, report, reports, supplied, supply

UNREGISTERED = "RM/node: {} of 10 glideins that started in the last 6 h never registered."
ENDED_EARLY = "RM/node: 5 of 10 glideins that registered in the last 6 h ended within minutes."
UNREADABLE = {
    "schedd": "cm", "count": 2, "first_job": "3.0", "attribute": "RequestMemory", "error": "RequestMemory is alice",
}  # fmt: skip
UNKNOWN = experience(started=None, registered=None, never_registered=None, ended_early=None)
PLAN = {"as_of": NOW, "present": 3, "queued": 0, "running": 3, "registered": 0, "launched": 0, "cancelled": 0}
NOT_USED_UP = (
    "BadConstraints", "InvalidAccount", "QOSMaxWallDurationPerJobLimit", "AssocGrpCPURunMinutesLimit",
    "held by the load balancer",
)  # fmt: skip
USED_UP = (
    "AssocGrpCPUMinutesLimit", "QOSGrpGRESMinutes", "allocation exhausted", "Project has used up its allocation",
    "balance too low",
)  # fmt: skip
FAILURES = [
    {"exit_status": 17, "count": 5, "last": NOW, "reason": "fewer GPUs than GLIDEIN_GPUS=1."},
    {"exit_status": 137, "count": 1, "last": NOW, "reason": ""},
]
CAUSES = " 5 ended with status 17: fewer GPUs than GLIDEIN_GPUS=1. 1 ended with status 137."


def found(**changes):
    return problems.find(page_data(**changes))


def lines(**changes):
    return problems.lines(found(**changes))


def failed(*schedds):
    return demand(schedds={"answered": [], "failed": [dict(zip(("name", "error", "as_of"), row)) for row in schedds]})


def of_report(*entries, **changes):
    return {"reports": reports(report("PSC", *entries, **changes))}


def of_history(now_registered=2, **changes):
    return {"supply": supply(supplied(registered=now_registered, history=experience(**changes)))}


def held(reason):
    return of_report(entry(sick=2, sick_reasons=[reason])), f"RM/node: 2 glideins are held: {reason}"


@pytest.mark.parametrize(
    ("changes", "kind", "subject", "text"),
    [
        ({"demand": demand(as_of=None)}, "queue", "", "The queue has not been read yet: the demand is unknown."),
        (
            {"demand": demand(as_of=None, schedds={"answered": [], "failed": [], "error": "refused"})}, "queue", "",
            "The queue has not been read yet: the demand is unknown. No schedd is known: refused.",
        ),
        ({"demand": demand(as_of=NOW - 5000)}, "queue", "",
         "The queue was last read 83 min ago: no site submits glideins."),
        ({"demand": failed(("a", "no answer", NOW - 400))}, "schedd_late", "Schedd a",
         "does not answer: no answer. Last read 6 min ago; its last known jobs are counted."),
        ({"demand": failed(("b", "no answer", NOW - 5000))}, "schedd_gone", "Schedd b",
         "does not answer: no answer. Last read 83 min ago; its last known jobs are counted."),
        ({"demand": failed(("c", "refused", None))}, "schedd_gone", "Schedd c",
         "does not answer: refused. It was never read."),
        ({"supply": supply(error="timed out", as_of=NOW - 60)}, "collector", "The collector",
         "does not answer: timed out. Last read 60 s ago."),
        ({"supply": supply(problems=["2 machines say that they are of PSC"])}, "supply", "",
         "2 machines say that they are of PSC"),
        (of_report(received=NOW - 3601), "silent", "Site PSC", "no report for 60 min."),
        (of_report(error="login1: Permission denied (publickey)."), "login", "Site PSC",
         "login1: Permission denied (publickey)."),
        *((of_report(error=text), "login", "Site PSC", text) for text in (
            "login1: Permission denied (publickey, password).", "login1: Permission denied, please try again.",
        )),
        (of_report(error="Site PSC: no connection is open: log in again with glidein.ops.login"), "login", "Site PSC",
         "no connection is open: log in again with glidein.ops.login"),
        (of_report(error="login1: Verification code:"), "login", "Site PSC", "login1: Verification code:"),
        # Not ssh's: a file on the login node.
        (of_report(error="/home/glide/.glidein: Permission denied"), "site_error", "Site PSC",
         "/home/glide/.glidein: Permission denied"),
        (of_report(error="Site PSC: squeue: exit status 1"), "site_error", "Site PSC", "squeue: exit status 1"),
        (of_report(entry(error="sbatch: exit status 1")), "entry_error", "Site PSC", "RM/node: sbatch: exit status 1"),
        (of_report(entry(sick=1)), "held", "Site PSC", "RM/node: 1 glidein is held or can never start."),
        *((changes, "held", "Site PSC", text) for changes, text in map(held, NOT_USED_UP)),
        *((changes, "allocation", "Site PSC", text) for changes, text in map(held, USED_UP)),
        (of_report(orphans=3), "orphans", "Site PSC", "3 glideins of an unknown entry or shape."),
        (of_history(never_registered=4), "some_unregistered", "Site PSC", UNREGISTERED.format(4)),
        (of_history(never_registered=5), "unregistered", "Site PSC", UNREGISTERED.format(5)),
        (of_history(never_registered=6, failures=FAILURES), "unregistered", "Site PSC",
         UNREGISTERED.format(6) + CAUSES),
        # Without ids of glideins, three reports with none registered are enough.
        (of_history(0, **{**UNKNOWN, "plans": [PLAN] * 3}), "unregistered", "Site PSC",
         "RM/node: 3 glideins running, none registered."),
        (of_history(ended_early=5), "ended_early", "Site PSC", ENDED_EARLY),
        (of_history(ended_early=5, failures=FAILURES), "ended_early", "Site PSC", ENDED_EARLY + CAUSES),
        ({"demand": demand(unreadable=[UNREADABLE])}, "unreadable", "",
         "2 idle jobs of cm cannot be counted: RequestMemory is invalid (first job: 3.0)."),
        ({"demand": demand(unreadable=[UNREADABLE]), "caller_has_token": True}, "unreadable", "",
         "2 idle jobs of cm cannot be counted: RequestMemory is invalid (first job: 3.0). RequestMemory is alice"),
        ({"demand": demand(group(), waiting_for_limit=[{"schedd": "cm", "count": 1200, "limit": 10000}])}, "limit",
         "Schedd cm", "1,200 idle jobs cannot start until others end: MAX_JOBS_RUNNING is 10,000."),
        ({"can_report": False}, "token", "", "No token exists: no site can report or take a lease."),
        ({"database_works": False}, "database", "", "Reports, leases and history cannot be stored."),
    ],
)  # fmt: skip
def test_a_problem_has_its_kind_place_and_text(changes, kind, subject, text):
    (problem,) = found(**changes)
    assert (problem.kind, problem.subject, problem.text) == (kind, subject, text)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        of_report(received=NOW - 3600),
        {**of_report(received=NOW - 3601), "sections": {"pool": {"silent_seconds": 7200}}},
        of_history(**UNKNOWN),
        of_history(0, **{**UNKNOWN, "plans": [PLAN] * 2}),
        of_history(1, **{**UNKNOWN, "plans": [PLAN] * 3}),
        of_history(ended_early=4),
        of_history(registered=2, ended_early=2),
        {"clients": [("glide@login1", {"received": NOW - 90000, "metrics": {}})]},
    ],
)
def test_what_is_not_a_problem(changes):
    assert found(**changes) == []


def test_the_failures_of_an_entry_are_named_once():
    first, second = found(**of_history(never_registered=6, registered=4, ended_early=4, failures=FAILURES))
    assert first.text.endswith(CAUSES)
    assert second.text.endswith("ended within minutes.")


def test_problems_are_sorted_by_severity():
    late = {"answered": [], "failed": [{"name": "a", "error": "no answer", "as_of": NOW - 400}]}
    waiting = [{"schedd": "cm", "count": 1, "limit": 1}]
    everything = found(
        demand=demand(as_of=NOW - 5000, schedds=late, waiting_for_limit=waiting),
        reports=reports(report("A", orphans=1), report("B", entry(sick=1)), report("C", error="login needed")),
    )
    assert [problem.kind for problem in everything] == ["queue", "login", "held", "schedd_late", "orphans", "limit"]
    severities = [kind.severity for kind in problems.KINDS.values()]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert all(kind.title and kind.action for kind in problems.KINDS.values())


def test_many_sites_with_the_same_problem_are_one_line_with_their_number_and_a_list():
    def silent(number):
        return lines(reports=reports(*(report(f"Site-{index}", received=NOW - 9000) for index in range(number))))

    assert [line["subject"] for line in silent(5)] == [f"Site Site-{index}" for index in range(5)]
    (line,) = silent(300)
    assert line["text"] == "300 sites do not report."
    assert line["members"][0] == {
        "subject": "Site Site-0", "separator": ": ", "anchor": "site-Site-0", "text": "no report for 2 h 30 min."
    }  # fmt: skip
    assert len(line["members"]) == 300
