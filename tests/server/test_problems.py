# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the problems on the page, their order and their actions."""

import pytest
from glidein_demand.web import problems

from page_data import NOW, demand, entry, experience, group, page_context, report, reports, supplied, supply


def found(**changes):
    return problems.find(page_context(**changes))


def kinds(**changes):
    return [problem.kind for problem in found(**changes)]


def lines(**changes):
    return problems.lines(found(**changes))


def schedds(*failed):
    return {"answered": [], "failed": [{"name": name, "error": error, "as_of": as_of} for name, error, as_of in failed]}


def test_a_healthy_pool_has_no_problems():
    assert found() == []


def test_a_queue_that_was_never_read_is_an_error():
    (problem,) = found(demand=demand(as_of=None))
    assert (problem.kind, problem.severity) == ("queue", "error")
    assert "has not been read yet" in problem.text


def test_a_stale_queue_is_a_problem_with_its_age():
    (problem,) = found(demand=demand(as_of=NOW - 5000))
    assert "last read 83 min ago" in problem.text


def test_a_pool_without_a_schedd_is_a_problem_with_the_reason():
    (problem,) = found(demand=demand(as_of=None, schedds={"answered": [], "failed": [], "error": "refused"}))
    assert problem.text == "The queue has not been read yet: the demand is unknown. No schedd is known: refused."


def test_a_schedd_that_missed_one_refresh_is_a_warning_and_an_unreachable_one_an_error():
    late, gone, never = ("a", "no answer", NOW - 400), ("b", "no answer", NOW - 5000), ("c", "refused", None)
    every = found(demand=demand(schedds=schedds(late, gone, never)))
    assert [(problem.subject, problem.severity) for problem in every] == [
        ("Schedd b", "error"), ("Schedd c", "error"), ("Schedd a", "warning"),
    ]  # fmt: skip
    assert [problem.text for problem in every[:2]] == [
        "does not answer: no answer. Last read 83 min ago; its last known jobs are counted.",
        "does not answer: refused. It was never read.",
    ]


def test_a_collector_that_does_not_answer_is_a_problem():
    (problem,) = found(supply=supply(error="timed out", as_of=NOW - 60))
    assert problem.text == "does not answer: timed out. Last read 60 s ago."


def test_a_site_is_silent_after_the_time_that_is_set():
    (problem,) = found(reports=reports(report(received=NOW - 3601)))
    assert (problem.kind, problem.subject, problem.anchor) == ("silent", "Site PSC", "site-PSC")
    assert found(reports=reports(report(received=NOW - 3600))) == []
    assert found(reports=reports(report(received=NOW - 3601)), sections={"pool": {"silent_seconds": 7200}}) == []


@pytest.mark.parametrize(
    "error",
    [
        "login1: Permission denied (publickey,keyboard-interactive).",
        "Site PSC: login1: no connection is open: log in again with glidein.ops.login",
        "login1: Verification code:",
    ],
)
def test_a_site_that_needs_an_interactive_login_is_a_login_problem(error):
    (line,) = lines(reports=reports(report(error=error)))
    assert line["kind"] == "login"
    assert "Log in" in line["action"]


def test_any_other_error_of_a_site_is_quoted_and_names_the_site_once():
    (problem,) = found(reports=reports(report(error="Site PSC: squeue: exit status 1")))
    assert (problem.kind, problem.subject, problem.text) == ("site_error", "Site PSC", "squeue: exit status 1")


def test_held_glideins_are_a_problem_with_the_batch_system_s_reason():
    sick = entry(sick=2, sick_reasons=["BadConstraints"])
    (problem,) = found(reports=reports(report("PSC", sick)))
    assert (problem.kind, problem.text) == ("held", "RM/node: 2 glideins are held: BadConstraints")


def test_held_glideins_without_a_reason_are_a_problem_too():
    (problem,) = found(reports=reports(report("PSC", entry(sick=1))))
    assert problem.text == "RM/node: 1 glidein is held or can never start."


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("AssocGrpCPUMinutesLimit", "allocation"),
        ("QOSGrpGRESMinutes", "allocation"),
        ("allocation ABC123 is exhausted", "allocation"),
        ("InvalidAccount", "held"),
        ("MaxMemPerLimit", "held"),
        ("QOSMaxWallDurationPerJobLimit", "held"),
    ],
)
def test_an_exhausted_allocation_is_a_separate_kind_of_problem(reason, kind):
    (line,) = lines(reports=reports(report("PSC", entry(sick=2, sick_reasons=[reason]))))
    assert line["kind"] == kind
    assert reason in line["text"]


def test_an_entry_s_error_names_entry_and_shape():
    (problem,) = found(reports=reports(report("PSC", entry(error="sbatch: exit status 1"))))
    assert (problem.kind, problem.text) == ("entry_error", "RM/node: sbatch: exit status 1")


def test_orphans_are_a_warning():
    (problem,) = found(reports=reports(report(orphans=3)))
    assert (problem.severity, problem.text) == ("warning", "3 glideins of an unknown entry or shape.")


@pytest.mark.parametrize(("lost", "severity"), [(1, "warning"), (4, "warning"), (5, "error"), (10, "error")])
def test_glideins_that_never_register_are_an_error_when_they_are_half_of_all(lost, severity):
    (problem,) = found(supply=supply(supplied(history=experience(never_registered=lost))))
    assert problem.severity == severity
    assert "of 10 glideins that started in the last 6 h never registered" in problem.text


def test_failures_of_an_entry_are_named_once_with_status_and_reason():
    failures = [
        {"exit_status": 17, "count": 5, "last": NOW, "reason": "fewer GPUs than GLIDEIN_GPUS=1."},
        {"exit_status": None, "count": 1, "last": NOW, "reason": ""},
    ]
    history = experience(never_registered=6, registered=4, ended_early=4, failures=failures)
    first, second = found(supply=supply(supplied(history=history)))
    assert first.text == (
        "RM/node: 6 of 10 glideins that started in the last 6 h never registered. "
        "5 ended with status 17: fewer GPUs than GLIDEIN_GPUS=1. 1 ended with no exit status."
    )
    assert second.text.endswith("ended within minutes.")
    (early,) = found(supply=supply(supplied(history={**history, "never_registered": 0})))
    assert "within minutes. 5 ended with status 17: fewer GPUs" in early.text


def test_unknown_counts_of_glideins_are_not_a_problem():
    unknown = experience(started=None, registered=None, never_registered=None, ended_early=None)
    assert found(supply=supply(supplied(history=unknown))) == []


def test_without_ids_of_glideins_three_reports_with_none_registered_are_enough():
    plan = {"as_of": NOW, "present": 3, "queued": 0, "running": 3, "registered": 0, "launched": 0, "cancelled": 0}
    unknown = experience(started=None, registered=None, never_registered=None, ended_early=None)
    assert kinds(supply=supply(supplied(registered=0, history={**unknown, "plans": [plan] * 3}))) == ["unregistered"]
    assert kinds(supply=supply(supplied(registered=0, history={**unknown, "plans": [plan] * 2}))) == []
    assert kinds(supply=supply(supplied(registered=1, history={**unknown, "plans": [plan] * 3}))) == []


def test_an_entry_whose_glideins_mostly_end_early_is_a_warning():
    (problem,) = found(supply=supply(supplied(history=experience(registered=10, ended_early=5))))
    text = "RM/node: 5 of 10 glideins that registered in the last 6 h ended within minutes."
    assert (problem.severity, problem.text) == ("warning", text)
    assert kinds(supply=supply(supplied(history=experience(registered=10, ended_early=4)))) == []
    assert kinds(supply=supply(supplied(history=experience(registered=2, ended_early=2)))) == []


def test_jobs_that_cannot_be_counted_are_a_problem_and_only_callers_with_a_token_see_values():
    row = {
        "schedd": "cm",
        "count": 2,
        "first_job": "3.0",
        "attribute": "RequestMemory",
        "error": "RequestMemory is alice",
    }
    text = "2 idle jobs of cm cannot be counted: RequestMemory is invalid (first job: 3.0)."
    assert [problem.text for problem in found(demand=demand(unreadable=[row]))] == [text]
    (problem,) = found(demand=demand(unreadable=[row]), caller_has_token=True)
    assert problem.text == f"{text} RequestMemory is alice"


def test_jobs_that_wait_for_a_limit_of_their_schedd_are_not_an_error():
    waiting = [{"schedd": "cm", "count": 1200, "limit": 10000}]
    (problem,) = found(demand=demand(group(), waiting_for_limit=waiting))
    assert problem.severity == "note"
    assert "1,200 idle jobs" in problem.text
    assert "MAX_JOBS_RUNNING is 10,000" in problem.text


def test_inconsistent_machine_ads_are_a_problem():
    assert kinds(supply=supply(problems=["2 machines say that they are of PSC"])) == ["supply"]


def test_a_pyglidein_client_that_stopped_reporting_is_a_problem():
    assert kinds(monitoring={"glide@login1": {"received": NOW - 4000, "metrics": {}}}) == ["client_silent"]


def test_without_any_token_no_site_can_report():
    assert kinds(can_report=False) == ["token"]


def test_problems_are_sorted_by_severity():
    everything = kinds(
        demand=demand(
            as_of=NOW - 5000,
            schedds=schedds(("a", "no answer", NOW - 400)),
            waiting_for_limit=[{"schedd": "cm", "count": 1, "limit": 1}],
        ),
        reports=reports(report("A", orphans=1), report("B", entry(sick=1)), report("C", error="Permission denied")),
    )
    assert everything == ["queue", "login", "held", "schedd_late", "orphans", "limit"]
    severities = [kind.severity for kind in problems.KINDS.values()]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)


def test_many_sites_with_the_same_problem_are_one_line_with_their_number_and_a_list():
    silent = reports(*(report(f"Site-{index}", received=NOW - 9000) for index in range(300)))
    (line,) = lines(reports=silent)
    assert line["text"] == "300 sites do not report."
    assert [one["subject"] for one in line["members"]][:2] == ["Site Site-0", "Site Site-1"]
    assert len(line["members"]) == 300
    assert all(one["anchor"] and one["text"] for one in line["members"])


def test_a_few_sites_with_the_same_problem_are_a_line_each():
    silent = reports(*(report(f"Site-{index}", received=NOW - 9000) for index in range(5)))
    assert [line["subject"] for line in lines(reports=silent)] == [f"Site Site-{index}" for index in range(5)]


def test_every_kind_has_a_title_and_an_action():
    assert all(kind.title and kind.action for kind in problems.KINDS.values())


def test_a_pause_by_command_shows_its_start_user_reason_and_the_command_to_resume():
    state = {"paused": True, "since": NOW - 300, "reason": "downtime", "by": "root"}
    banner = problems.pause_banner(page_context(pause=state))
    assert banner["since"]["ago"] == "5 min ago"
    assert (banner["by"], banner["reason"], banner["how"]) == ("root", "downtime", "glidein-demand resume")


def test_no_pause_no_banner():
    assert problems.pause_banner(page_context()) is None
