# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle import Demand, Lease, Plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.cycle_summary import (
    cycle_summary,
    status_report,
    status_table,
)
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.item import PlanItem
from ansible_collections.glidein.ops.plugins.module_utils.controller.report_text import WIDTH
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    history,
    supplied,
    supply,
)
from hypothesis import given
from hypothesis import strategies as st

# The result of a task that Ansible skipped because there was no plan or no reading of the queue.
SKIPPED = {"changed": False, "skipped": True, "skip_reason": "Conditional result was False"}
STALE = "the demand is 2000 s old, at most 900 s are allowed: nothing is changed"


def item(site="lab", entry="main", shape="core", reason="because", **changes):
    """Return a plan item; its shape has no problems by default."""
    present, counted, running = (changes.pop(key, 0) for key in ("present", "queued", "running"))
    known = {"counted": counted, "running": running, "sick": 0, "text": reason, **changes}
    return PlanItem(site, entry, shape, queued=present - running, wanted=present - running, **known)


def unknown(**changes):
    """Return a plan item of a site whose queue is unknown."""
    return item(**changes)._replace(counted=None, running=None, sick=None)


def applied(**changes):
    """Return a result of the module glideins."""
    return dict({"changed": False, "submitted": [], "cancelled": [], "decisions": [], "errors": []}, **changes)


def submitted(count=1, job_id="7", entry="main", shape="core"):
    return {"entry": entry, "shape": shape, "count": count, "job_id": job_id}


def outcome(site="lab", host=None, error=None, result=None, report_error=None, queue=None):
    """Return the outcome of one site; `arguments` combines several into the results of a cycle."""
    return {
        "host": host or ("login1" if site == "lab" else f"login-{site}"),
        "site": site,
        "error": error,
        "queue": queue,
        "result": applied() if result is None else result,
        "report_error": report_error,
    }


def arguments(outcomes, demand, plan, lease, check_mode):
    """Return the arguments of cycle_summary for these outcomes."""
    errors = [{"site": each["site"], "error": each["report_error"]} for each in outcomes if each["report_error"]]
    return {
        "sites": {each["host"]: {key: each[key] for key in ("site", "error", "queue")} for each in outcomes},
        "glideins": {each["host"]: each["result"] for each in outcomes},
        "demand": demand,
        "plan": plan,
        "lease": lease,
        "report_errors": errors,
        "check_mode": check_mode,
    }


def planned(*items, **changes):
    return Plan(items, **changes)


def demand_result(*groups, **changes):
    return Demand(demand(*groups, **changes), supply())


def summary(outcomes=None, demanded=None, plan=None, check_mode=False, lease=None):
    outcomes = [outcome()] if outcomes is None else outcomes
    demanded, lease = demanded or demand_result(), lease or Lease()
    return cycle_summary(**arguments(outcomes, demanded, plan or planned(), lease, check_mode))


def rows(lines, head="SITE"):
    """Return the table's rows as {column title: cell}."""
    start = next(number for number, line in enumerate(lines) if line.startswith(head))
    titles = lines[start].replace("TO ", "TO_").split()
    found = []
    for line in lines[start + 1 :]:
        if not line or line[0] == " ":
            if not line:
                break
            continue
        found.append(dict(zip(titles, line.replace(" (job", "_(job").replace("(job ", "(job_").split())))
    return found


def part(lines, title):
    """Return the paragraphs below a title as one string each, or [] if the section is missing."""
    if title not in lines:
        return []
    found = []
    for line in lines[lines.index(title) + 1 :]:
        if not line:
            break
        if line.startswith("    "):
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found


# Successful cycles


def test_a_cycle_shows_demand_actions_and_reasons():
    result = summary(
        [outcome(result=applied(submitted=[submitted(2, "123")]))],
        demand_result(group("a", 3), group("b", 4)),
        planned(item(present=3, queued=2, running=1, registered=1, serves={"a": 2}, reason="2 idle jobs to serve")),
    )
    assert result == {
        "lines": [
            "Demand: 7 idle jobs in 2 groups: 2 for glideins on their way, 5 for free slots.",
            "",
            "SITE  ENTRY  SHAPE  PRESENT  QUEUED  RUNNING  REGISTERED    SUBMITTED  CANCELLED",
            "lab   main   core         3       2        1           1  2 (job 123)          0",
            "  2 idle jobs to serve",
        ],
        "problems": [],
        "submitted": 2,
        "cancelled": 0,
    }


def test_jobs_of_which_the_lease_was_lost_are_not_counted_as_those_of_free_slots():
    plan = planned(item(present=3, serves={"a": 1}), item("other", present=1, serves={"b": 1}))
    lease = Lease(not_leased={"without a lease": 5, "that are no longer idle, or leased to others": 0})
    result = summary(demanded=demand_result(group("a", 6), group("b", 2)), plan=plan, lease=lease)
    assert " ".join(" ".join(result["lines"][: result["lines"].index("")]).split()) == (
        "Demand: 8 idle jobs in 2 groups: 2 for glideins on their way, 1 for free slots, 5 without a lease."
    )


@pytest.mark.parametrize(
    "groups, age_s, told",
    [
        # Jobs that were submitted since the reading would explain it.
        ([], 100, "Demand: no idle jobs. The queue was read 100 s ago."),
        ([], 299, "Demand: no idle jobs. The queue was read 4 min ago."),
        ([], -50, "Demand: no idle jobs."),
        ([group("a", 1)], 100, "."),
        ([group("a", 1)], 299, ". The queue was read 4 min ago."),
    ],
)
def test_the_age_of_the_demand_is_shown_if_it_is_old_or_has_no_jobs(groups, age_s, told):
    demanded = demand_result(*groups)
    demanded.demand["as_of"] = 1795000000
    lines = summary(demanded=demanded, plan=planned(as_of=1795000000 + age_s))["lines"]
    text = " ".join(" ".join(lines[: lines.index("")] if "" in lines else lines).split())
    assert text.endswith(told) and ("ago" in text) == ("ago" in told)


def test_without_jobs_and_glideins_there_is_no_table():
    assert summary(plan=planned(item(), item(shape="node")))["lines"] == [
        "Demand: no idle jobs.",
        "",
        "2 of 2 shapes not listed: no glideins, none ordered.",
    ]


@pytest.mark.parametrize("key", ["present", "queued", "running", "sick", "registered"])
def test_a_shape_with_glideins_or_jobs_is_shown(key):
    result = summary(plan=planned(item(**{key: 1}), item(shape="node")))
    assert [row["SHAPE"] for row in rows(result["lines"])] == ["core"]
    assert "1 of 2 shapes not listed: no glideins, none ordered." in result["lines"]


def test_work_is_shown_at_its_own_entry_and_site():
    cancelled = {"entry": "main", "shape": "core", "count": 2, "job_ids": ["7_1", "7_2"]}
    orphans = dict(cancelled, entry=None, shape=None)
    result = summary(
        [
            outcome(result=applied(submitted=[submitted(2, entry="long")], cancelled=[cancelled, orphans])),
            outcome("other", result=applied(submitted=[submitted(5)])),
        ],
        plan=planned(item(running=1), item(entry="long")),
    )
    assert [row["SUBMITTED"] for row in rows(result["lines"])] == ["0", "2_(job_7)"]
    assert [row["CANCELLED"] for row in rows(result["lines"])] == ["2", "0"]
    assert "lab: 2 queued glideins cancelled whose entry or shape is not in the inventory." in result["lines"]


def test_jobs_that_are_not_served_are_named_with_the_reason():
    unserved = [{"group": "b", "count": 3, "reason": "no shape fits"}]
    plan, demanded = planned(unserved=unserved), demand_result(group("b", 3, first_job="12.0"))
    result = summary(demanded=demanded, plan=plan)
    assert result["lines"][0] == "Demand: 3 idle jobs in 1 group: 3 not served."
    assert part(result["lines"], "NOT SERVED") == ["3 jobs like 12.0 (group b): no shape fits"]
    assert part(status_table(plan, demanded, {}), "NOT SERVED") == ["3 jobs like 12.0 (group b): no shape fits"]
    assert result["problems"] == []


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_limit_that_the_login_node_has_reached_is_part_of_the_reason(check_mode):
    decision = {"entry": "main", "shape": "core", "present": 3, "submit": 1, "cancel": 0}
    decision["limited_by"] = "site limit total 3 reached"
    outcomes = [outcome(result=applied(decisions=[decision], submitted=[submitted()]))]
    lines = summary(outcomes, plan=planned(item(present=3)), check_mode=check_mode)["lines"]
    number = "" if check_mode else "2 could not be submitted; "
    assert f"  because; {number}the login node found less room: site limit total 3 reached" in lines


# Check mode


def test_check_mode_shows_planned_actions():
    decision = {"entry": "main", "shape": "core", "present": 3, "submit": 2, "cancel": 1, "limited_by": None}
    before = {"orphans": {"queued": 1, "running": 4}}
    result = summary(
        [outcome(result=applied(decisions=[decision], before=before))], plan=planned(item()), check_mode=True
    )
    row = rows(result["lines"])[0]
    assert (row["TO_SUBMIT"], row["TO_CANCEL"]) == ("2", "1")
    assert "lab: 1 queued glidein to cancel whose entry or shape is not in the inventory." in result["lines"]
    assert result["lines"][-1] == "Check mode: nothing was leased, submitted, cancelled or reported."


# Failures


def test_without_demand_nothing_was_changed():
    result = summary([outcome(result=SKIPPED)], Demand(error="no answer"))
    assert result["lines"] == ["", "PROBLEMS", "  no demand, so nothing was changed: no answer"]
    assert result["problems"] == ["no demand, so nothing was changed: no answer"]


def test_an_unreachable_site_is_left_as_it_is_and_the_others_work():
    result = summary(
        [
            outcome("gone", "far", error="Failed to connect to the host via ssh", result=SKIPPED),
            outcome(result=applied(submitted=[submitted()])),
        ],
        plan=planned(unknown(site="gone", reason="kept as it is"), item()),
    )
    gone, lab = rows(result["lines"])
    assert [gone[key] for key in ("PRESENT", "QUEUED", "RUNNING")] == ["?", "?", "?"]
    assert lab["SUBMITTED"] == "1_(job_7)"
    assert result["problems"] == ["gone (far): left as it is: Failed to connect to the host via ssh"]


def down(error="down", **more):
    """Return the outcome of a site that could not be read."""
    return outcome(error=error, result=SKIPPED, **more)


def failing(message, **more):
    """Return the outcome of a site whose glideins could not be changed."""
    return outcome(result={"failed": True, "msg": message}, **more)


EXPIRED = {"as_of": NOW, "credential_expires": NOW - 1}
LOST = {"unreachable": True, "changed": False, "msg": "Connection reset"}
MAYBE = "submissions may have been made before: the next cycle counts again"
SITE_PROBLEMS = {
    "the host is named once": (down(site="sge", host="sge"), ["sge: left as it is: down"]),
    "the site is named once": (down("Site lab: no squeue"), ["lab (login1): left as it is: no squeue"]),
    "failed": (failing("Site lab: the plan is 700 s old"), ["lab (login1): the plan is 700 s old"]),
    "unreachable": (outcome(result=LOST), [f"lab (login1): Connection reset; {MAYBE}"]),
    "an expired token": (
        failing("Site lab: The token t expired", queue=EXPIRED),
        ["lab (login1): The token t expired"],
    ),
    "a token that does not expire": (outcome(queue={"as_of": NOW, "credential_expires": None}), []),
    "a token whose end is unknown": (outcome(queue={"as_of": NOW}), []),
    "a refused report": (outcome(report_error="HTTP 401"), ["lab: not reported to the demand server: HTTP 401"]),
}


@pytest.mark.parametrize("one, problems", SITE_PROBLEMS.values(), ids=SITE_PROBLEMS)
def test_the_problem_of_a_site_is_named_once(one, problems):
    assert summary([one])["problems"] == problems


def test_without_a_plan_the_demand_is_shown_and_nothing_was_changed():
    result = summary([outcome(result=SKIPPED)], demand_result(group("a", 2)), Plan(error="wrong"))
    assert result["lines"][0] == "Demand: 2 idle jobs in 1 group."
    assert result["problems"] == ["no plan, so nothing was changed: wrong"]


def test_machines_that_the_server_does_not_count_are_named():
    demanded = Demand(demand(group("a", 1)), {"problems": ["slot1@x: says that it is of site A"] * 9})
    assert summary(demanded=demanded)["problems"] == ["slot1@x: says that it is of site A"] * 5


def test_an_invalid_configuration_is_reported_once():
    errors = [{"site": "lab", "error": "glidein_entries: missing"}, {"site": "other", "error": "walltime"}]
    problems = summary([down("glidein_entries: missing")], plan=planned(errors=errors))["problems"]
    assert problems == ["lab (login1): left as it is: glidein_entries: missing", "other: walltime"]


def test_a_duplicate_site_name_is_reported_even_if_one_site_is_unreachable():
    errors = [{"site": "lab", "error": "glidein_site: 'lab' is the name of 2 sites"}]
    assert summary([outcome(), down("no route", host="login2")], plan=planned(errors=errors))["problems"] == [
        "lab (login2): left as it is: no route",
        "lab: glidein_site: 'lab' is the name of 2 sites",
    ]


def failed_lease(*errors):
    """Return the Lease of failed requests. errors: (site, error)."""
    return Lease(errors=[{"site": site, "error": error} for site, error in errors])


def test_a_refused_token_is_one_problem():
    lease = failed_lease(("lab", "the server refuses the token"))
    result = summary([outcome(report_error="the server refuses the token")], lease=lease)
    assert result["problems"] == ["lab: no lease, so nothing new was ordered: the server refuses the token"]
    # Another error of the report is a separate problem.
    assert len(summary([outcome(report_error="HTTP 500")], lease=lease)["problems"]) == 2


def test_leases_that_failed_are_problems_and_alike_ones_are_one():
    lease = failed_lease(("lab", "HTTP 503"), ("away", "HTTP 503"), ("odd", "HTTP 400"))
    assert summary(lease=lease)["problems"] == [
        "lab; away: no lease, so nothing new was ordered: HTTP 503",
        "odd: no lease, so nothing new was ordered: HTTP 400",
    ]


CE_TOKEN = "glidein_ce_token_file: /f: the token of the CE expired"  # noqa: S105
SILENT = {"answered": [], "failed": [{"name": "ap1", "error": "no answer within 60 s"}]}
NO_SCHEDD = {"answered": [], "failed": [], "error": "the collector has no schedd"}
ALL_STALE = planned(item(reason=STALE), item(shape="node", reason=STALE))
# What changes in the demand, its supply, the queue of the site, or the plan; and the problem.
SHARED_PROBLEMS = {
    "schedd": ({"schedds": SILENT}, "schedd ap1 did not answer the demand server: no answer within 60 s"),
    "schedds": ({"schedds": NO_SCHEDD}, "the demand server knows no schedd: the collector has no schedd"),
    "collector": ({"supply": supply(error="down")}, "the demand server could not read the collector: down"),
    "pause": ({"paused": True}, "the demand server is paused: nothing is submitted until it is resumed there"),
    "stale": ({"plan": ALL_STALE}, STALE),
    "access": ({"queue": {"access": {"due": False, "problems": [CE_TOKEN]}}}, f"lab: {CE_TOKEN}"),
    "state": ({"queue": {"unknown_states": ["state X is unknown"]}}, "lab: state X is unknown"),
}


@pytest.mark.parametrize("changes, problem", SHARED_PROBLEMS.values(), ids=SHARED_PROBLEMS)
def test_cycle_and_status_name_the_same_problem(changes, problem):
    changes = dict(changes)
    queue, plan = dict(changes.pop("queue", {}), as_of=NOW), changes.pop("plan", planned())
    read = changes.pop("supply", supply())
    demanded = Demand(demand(**changes), read)
    sites = {"login1": {"site": "lab", "queue": queue, "entries": {"main": {}}}}
    assert part(status_table(plan, demanded, sites), "PROBLEMS") == [problem]
    (found,) = summary([outcome(queue=queue)], demanded, plan)["problems"]
    assert found.replace("lab (login1): ", "lab: ") == problem


def test_a_problem_of_the_access_to_a_batch_system_is_not_repeated_by_a_failed_change():
    queue = {"as_of": NOW, "access": {"due": False, "problems": [CE_TOKEN]}}
    failed = applied(failed=True, errors=[{"entry": None, "shape": None, "error": CE_TOKEN}])
    assert summary([outcome(queue=queue, result=failed)])["problems"] == [f"lab (login1): {CE_TOKEN}"]


NO_ANSWER = Demand(error="get_demand: no answer")
UNREAD = planned(unknown(reason="no ssh"), unknown(shape="node", reason="no ssh"))
STATUS_PROBLEMS = {
    "no demand": (planned(item(reason="nothing is changed")), NO_ANSWER, "no demand: get_demand: no answer"),
    "an unknown queue": (UNREAD, demand_result(), "lab: no ssh"),
    "sick glideins": (planned(item(sick=2, reason="2 sick"), item()), demand_result(), "lab/main/core: 2 sick"),
    "configuration": (planned(errors=[{"site": "x", "error": "walltime"}]), demand_result(), "x: walltime"),
}


@pytest.mark.parametrize("plan, demanded, problem", STATUS_PROBLEMS.values(), ids=STATUS_PROBLEMS)
def test_the_status_names_each_problem_once(plan, demanded, problem):
    assert part(status_table(plan, demanded, {}), "PROBLEMS") == [problem]


def test_lines_are_not_broken_within_a_name():
    lines = summary([outcome(error="x" * 66 + " psc-bridges2 is unknown", result=SKIPPED)])["lines"]
    assert lines[-1].split()[0] == "psc-bridges2"


def test_the_reason_for_an_unusable_queue_is_reported_once_for_all_shapes():
    why = "kept as it is, because its queue is not known: queue.entries[0].queued: 'x' is invalid"
    result = summary([outcome("odd")], plan=planned(*[unknown(site="odd", shape=key, reason=why) for key in "ab"]))
    assert result["problems"] == ["odd: " + why]
    assert result["lines"].count("  kept as it is, because its queue is not known") == 2


@pytest.mark.parametrize("failed", [True, False])
def test_a_refused_submission_is_reported_with_its_entry_and_shortened(failed):
    errors = [
        {"entry": "main", "shape": "core", "error": "sbatch x failed:\n" + "no way " * 1000 + "You have no SUs"},
        {"entry": None, "shape": None, "error": "scancel failed"},
    ]
    result = summary([outcome(result=applied(failed=failed, msg="Site lab: all of it", errors=errors))])
    assert result["problems"][0].startswith("lab (login1): main/core: sbatch x failed: no way no way ")
    assert result["problems"][0].endswith(" no way You have no SUs")
    assert len(result["problems"][0]) == 800
    assert result["problems"][1:] == ["lab (login1): scancel failed"]


@pytest.mark.parametrize("limit", [None, "limit queued 10 reached"])
@pytest.mark.parametrize("done, left", [(0, 0), (1, 3)])
def test_glideins_that_could_not_be_submitted_are_neither_present_nor_on_their_way(done, left, limit):
    wanted = {"entry": "main", "shape": "core", "present": 3, "submit": 2, "cancel": 0, "limited_by": None}
    errors = [{"entry": "main", "shape": "core", "error": "No space left on device"}]
    if limit:
        wanted, errors = dict(wanted, submit=done, limited_by=limit), []
    submissions = [submitted(done)] if done else []
    result = summary(
        [outcome(result=applied(failed=bool(errors), decisions=[wanted], submitted=submissions, errors=errors))],
        demand_result(group(count=7)),
        planned(item(present=3, running=1, serves={"a": 7}, waits={"a": (6, 3)})),
    )
    (row,) = rows(result["lines"])
    assert row["PRESENT"] == str(1 + done)
    text = " ".join(" ".join(result["lines"]).split())
    assert f"because; {2 - done} could not be submitted" in text
    assert f"{1 + left} for glideins on their way, {6 - left} whose glideins could not be submitted." in text


@pytest.mark.parametrize("more, present, on_their_way", [({}, 1, 1), ({"timed_out": True}, 3, 7)])
def test_after_an_error_before_any_change_no_glidein_is_on_its_way(more, present, on_their_way):
    """After a time limit, it is unknown what was submitted."""
    refused = {"failed": True, "msg": "Another cycle is at work at this site. Nothing was changed.", **more}
    plan = planned(item(present=3, running=1, serves={"a": 7}, waits={"a": (6, 3)}))
    result = summary([outcome(result=refused)], demand_result(group(count=7)), plan)
    assert [row["PRESENT"] for row in rows(result["lines"])] == [str(present)]
    assert f"{on_their_way} for glideins on their way" in " ".join(" ".join(result["lines"]).split())


def test_the_row_of_a_shape_stays_when_none_of_its_glideins_could_be_submitted():
    wanted = {"entry": "main", "shape": "core", "present": 2, "submit": 2, "cancel": 0, "limited_by": None}
    errors = [{"entry": None, "shape": None, "error": "No space left on device"}]
    outcomes = [outcome(result=applied(failed=True, decisions=[wanted], errors=errors))]
    plan = planned(item(present=2, serves={"a": 2}, waits={"a": (2, 1)}))
    result = summary(outcomes, demand_result(group(count=2)), plan)
    assert [row["PRESENT"] for row in rows(result["lines"])] == ["0"]
    assert result["lines"][0] == "Demand: 2 idle jobs in 1 group: 2 whose glideins could not be submitted."
    decided = [outcome(result=applied(decisions=[wanted]))]
    assert [row["PRESENT"] for row in rows(summary(decided, None, plan, check_mode=True)["lines"])] == ["2"]


def test_a_submission_of_unknown_outcome_is_reported_as_such():
    errors = [{"entry": "main", "shape": "core", "error": "The outcome of this submission is unknown"}]
    result = summary(
        [outcome(result=applied(failed=True, submitted=[submitted(2, None)], errors=errors))], plan=planned(item())
    )
    assert rows(result["lines"])[0]["SUBMITTED"] == "2_(job_unknown)"
    assert result["problems"] == ["lab (login1): main/core: The outcome of this submission is unknown"]


@pytest.mark.parametrize(
    "left_s, told",
    [
        (3 * 86400 + 1, []),
        (
            3 * 86400,
            ["lab (login1): its token expires at 2026-11-23 21:48:00 UTC: run the playbook glidein.ops.deploy"],
        ),
        (0, ["lab (login1): its token expired at 2026-11-20 21:48:00 UTC: run the playbook glidein.ops.deploy"]),
    ],
)
def test_a_token_that_expires_soon_or_has_expired_is_reported(left_s, told):
    queue = {"as_of": NOW, "credential_expires": NOW + left_s}
    assert summary([outcome(queue=queue)])["problems"] == told
    assert summary([outcome(queue=queue, result=SKIPPED)])["problems"] == told


@pytest.mark.parametrize("count", [float("nan"), float("inf"), "3", None, 1.5])
def test_a_demand_with_invalid_numbers_is_not_shown(count):
    wrong = Plan(error="demand.groups[0].count: 'x' is invalid")
    result = summary(demanded=demand_result(group(count=count)), plan=wrong)
    assert "Demand" not in result["lines"][0]
    assert result["problems"] == ["no plan, so nothing was changed: demand.groups[0].count: 'x' is invalid"]


def test_jobs_not_counted_in_the_demand_are_shown_with_the_reason():
    groups = (group("a", 3, stale=2, over_limit=7), group("b", 1, leased=4))
    line = " ".join(" ".join(summary(demanded=demand_result(*groups))["lines"]).split())
    assert line.startswith("Demand: 2 idle jobs in 2 groups")
    assert "Not counted: 2 of schedds that do not answer." in line
    limits = "(MAX_JOBS_RUNNING, max_materialize, concurrency limits, ceilings, quotas)"
    assert f"Not counted: 7 that a limit keeps waiting {limits}." in line
    assert "Not counted: 4 that other sites have a lease on." in line


def failure(count=3, exit_status=17, last=NOW, reason="fewer GPUs (DetectedGPUs=0)"):
    return {"exit_status": exit_status, "count": count, "last": last, "reason": reason}


def failed(*failures, shape="core", entry="main", **counts):
    """Return a row of get_supply for a shape whose glideins failed."""
    numbers = dict({"never_registered": sum(one["count"] for one in failures)}, **counts)
    return supplied(entry=entry, shape=shape, history=history(failures=list(failures), **numbers))


def problems_of(*supplied_entries):
    """Return the problems of a cycle; assert that the status shows the same ones."""
    demanded = Demand(demand(), supply(*supplied_entries))
    found = summary(demanded=demanded, plan=planned(item()))["problems"]
    assert part(status_table(planned(item()), demanded, {}), "PROBLEMS") == found
    return found


def test_failures_of_all_shapes_of_an_entry_are_one_problem_for_each_status_with_the_last_reason():
    killed = failure(1, 137, reason="")
    found = problems_of(failed(failure(1, last=NOW - 60, reason="before"), killed), failed(failure(2), shape="large"))
    last = "in the last 6 h, the last one at 2026-11-20 21:48:00 UTC"
    assert found == [
        f"3 glideins of lab/main ended with status 17 {last}: fewer GPUs (DetectedGPUs=0)",
        f"1 glidein of lab/main ended with status 137 {last}",
    ]


@pytest.mark.parametrize(
    "entries",
    [
        [failed(failure(2))],
        [failed(failure(3), registered=30)],
        [failed(failure(9), entry="another")],
    ],
)
def test_few_failures_and_those_of_other_entries_are_not_a_problem(entries):
    assert problems_of(*entries) == []


def test_of_very_many_problems_the_first_are_shown_and_all_are_returned():
    result = summary([outcome("s" + str(number), error="down", result=SKIPPED) for number in range(30)])
    told = part(result["lines"], "PROBLEMS")
    assert (len(told), told[-1], len(result["problems"])) == (21, "and 10 problems more", 30)


# Status


def test_the_status_shows_every_shape():
    plan = planned(item(queued=1, running=2, registered=2, serves={"a": 3, "b": 1}), item(shape="node"))
    hours = {"granted_core_s": 7200, "used_core_s": 5400}
    entries = [{"site": "lab", "entry": "main", "shape": "core", "core_hours": hours}]
    demanded = Demand(demand(group("a", 3), group("b", 1)), {"entries": entries})
    assert status_table(plan, demanded, {}) == [
        "Demand: 4 idle jobs in 2 groups: 4 for glideins on their way.",
        "",
        "SITE  ENTRY  SHAPE  QUEUED  RUNNING  SICK  REGISTERED  USED  DEMAND",
        "lab   main   core        1        2     0           2   75%       4",
        "lab   main   node        0        0     0           0     -       0",
    ]


def test_the_status_shows_a_question_mark_for_what_the_demand_server_did_not_return():
    plan = planned(item(running=1))
    (row,) = rows(status_table(plan, NO_ANSWER, {}))
    assert [row[key] for key in ("RUNNING", "REGISTERED", "DEMAND")] == ["1", "?", "?"]
    (row,) = rows(status_table(plan, Demand(demand(), {"error": "no collector", "entries": []}), {}))
    assert [row[key] for key in ("RUNNING", "REGISTERED", "DEMAND")] == ["1", "?", "0"]


# Width


def test_long_names_are_shortened_in_the_table_and_complete_below_it():
    names = {"site": "s" * 64, "entry": "e" * 64, "shape": "x" * 64}
    result = summary([outcome("s" * 64)], plan=planned(item(running=1, reason="why", **names)))
    table = result["lines"][2:]
    row = rows(table)[0]
    assert row["SITE"].startswith("sss") and row["SITE"].endswith("...")
    told = "".join(line.strip() for line in table[2:])
    assert told == "{site}/{entry}/{shape}: why".format(**names)


def test_names_that_fit_are_not_cut_for_the_sake_of_a_longer_one():
    row = rows(summary(plan=planned(item(site="s" * 64, running=1)))["lines"])[0]
    assert (row["ENTRY"], row["SHAPE"]) == ("main", "core")


def test_no_number_is_cut():
    row = rows(summary(plan=planned(item(running=9999999, queued=10**7)))["lines"])[0]
    assert (row["RUNNING"], row["QUEUED"]) == ("9999999", ">9999999")


names = st.text("aZ0._-", min_size=1, max_size=64)
numbers = st.integers(0, 10**30)
texts = st.text(st.characters(blacklist_categories=("Cs",)), max_size=300) | st.just("long " * 300) | st.just("x" * 900)
job_ids = st.none() | st.from_regex(r"\A[0-9]{1,20}(\.[a-z.]{0,40})?\Z")


@st.composite
def cycles(draw):
    """Generate (outcomes, demand, plan) of a cycle, with numbers and texts of any size."""
    items, outcomes = [], []
    for _unused in range(draw(st.integers(0, 4))):
        site, entry, shape = draw(names), draw(names), draw(names)
        counts = {key: draw(numbers) for key in ("present", "queued", "running", "sick", "registered")}
        one = item(site, entry, shape, draw(texts), **dict(counts, serves={"a": draw(numbers)}))
        items.append(one if draw(st.booleans()) else one._replace(counted=None, running=None, sick=None))
        result = applied(
            submitted=[submitted(draw(numbers), draw(job_ids), entry, shape)],
            cancelled=[{"entry": draw(st.sampled_from([entry, None])), "shape": shape, "count": draw(numbers)}],
            decisions=[
                {
                    "entry": entry,
                    "shape": shape,
                    "submit": draw(numbers),
                    "cancel": draw(numbers),
                    "limited_by": draw(st.none() | texts),
                }
            ],
            before={"orphans": {"queued": draw(numbers)}},
            errors=[{"entry": entry, "shape": shape, "error": draw(texts)}],
        )
        outcomes.append(outcome(site, draw(names), draw(st.none() | texts), result, draw(st.none() | texts)))
    groups = [group("a", draw(numbers), first_job=draw(texts))]
    unserved = [{"group": draw(st.sampled_from(["a", "b"])), "count": draw(numbers), "reason": draw(texts)}]
    errors = [{"site": draw(names), "error": draw(texts)}]
    return outcomes, demand_result(*groups), planned(*items, unserved=unserved, errors=errors)


@given(cycles(), st.booleans())
def test_no_line_is_ever_wider_than_a_terminal(cycle, check_mode):
    outcomes, demanded, plan = cycle
    lines = cycle_summary(**arguments(outcomes, demanded, plan, Lease(), check_mode))["lines"]
    lines += status_table(plan, demanded, {})
    assert max(len(line) for line in lines) <= WIDTH
    assert all(line.isprintable() for line in lines)


# Held-back jobs


def test_held_back_jobs_are_shown():
    noted = planned(notes=["the demand fell from 90 idle jobs to none"])
    assert part(summary(plan=noted)["lines"], "HELD BACK") == ["the demand fell from 90 idle jobs to none"]
    assert part(status_table(noted, demand_result(), {}), "HELD BACK") == ["the demand fell from 90 idle jobs to none"]


# Machine-readable results


def test_the_status_for_programs_has_the_numbers_of_the_table():
    hours = {"since": NOW - 3600, "granted_core_s": 400, "used_core_s": 300}
    row = {"site": "lab", "entry": "main", "shape": "core", "cpus": 4, "cpus_claimed": 3, "core_hours": hours}
    plan = planned(item(present=3, queued=1, running=2, registered=2, serves={"a": 4}), unserved=[
        {"group": "b", "count": 3, "reason": "no shape fits"}
    ], notes=[], as_of=NOW)  # fmt: skip
    gateway = {"name": "gateway-lab@", "site": "lab", "state": "running", "idle": 1, "running": 0, "held": 0}
    groups = (group("a", 4), group("b", 3, leased=2, over_limit=1, stale=1))
    demanded = Demand(demand(*groups), supply(row, gateways=[gateway]))
    drain = {"entry": None, "since": NOW, "by": "ada", "reason": "disk"}
    sites = {"h": {"site": "lab", "error": None, "entries": {"main": {}}, "queue": {"drains": [drain]}}}
    assert status_report(plan, demanded, sites) == {
        "format": 1,
        "as_of": NOW,
        "demand": {
            "as_of": NOW - 10,
            "paused": False,
            "groups": 2,
            "idle_jobs": 6,
            "for_glideins": 4,
            "unserved": 3,
            "leased_by_others": 2,
            "over_limit": 1,
            "stale": 1,
        },
        "entries": [
            {
                "site": "lab",
                "entry": "main",
                "shape": "core",
                "queued": 1,
                "running": 2,
                "sick": 0,
                "registered": 2,
                "present": 3,
                "demand": 4,
                "cpus": 4,
                "cpus_claimed": 3,
                "granted_core_s": 400,
                "used_core_s": 300,
                "reason": "because",
            }
        ],
        "drained": [{"site": "lab", "entry": None, "since": NOW, "by": "ada", "reason": "disk"}],
        "unserved": [{"group": "b", "jobs": 3, "reason": "no shape fits"}],
        "gateways": [gateway],
        "notes": [],
        "problems": [],
    }


def test_the_json_status_has_null_for_unknown_values_and_the_tables_problems():
    plan = planned(unknown(reason="no ssh"))
    away = Demand(error="no answer")
    report = status_report(plan, away, {})
    assert (report["demand"], report["gateways"], report["entries"][0]["queued"]) == (None, None, None)
    assert (
        report["problems"] == part(status_table(plan, away, {}), "PROBLEMS") == ["no demand: no answer", "lab: no ssh"]
    )
    assert rows(status_table(plan, away, {}))[0]["QUEUED"] == "?"
