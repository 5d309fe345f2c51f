# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the conversion of the schedd's grouped ads (real ClassAds) into demand groups."""

import time

import classad2
import pytest
from glidein_demand.pool import jobs
from hypothesis import given
from hypothesis import strategies as st

from conftest import job_row


def only_group(row, **options):
    groups, unreadable = jobs.demand_groups([row], **options)
    assert unreadable == []
    assert len(groups) == 1
    return groups[0]


def selects(constraint, **values):
    """Return whether a real ad satisfies the constraint, as the schedd evaluates it."""
    ad = classad2.ClassAd({"ProcId": 0, "ClusterId": 7, "JobStatus": 1, "JobUniverse": 5, "Owner": "alice", **values})
    return classad2.ExprTree(constraint).eval(ad) is True


def test_request_disk_is_kib_and_disk_mb_is_mib_rounded_up():
    assert only_group(job_row("RequestDisk = 1024000;"))["disk_mb"] == 1000
    assert only_group(job_row("RequestDisk = 1024001;"))["disk_mb"] == 1001
    assert only_group(job_row("RequestDisk = 1;"))["disk_mb"] == 1


@pytest.mark.parametrize(
    ("request_memory", "memory_mb"), [("4000", 4000), ("1024", 1024), ("1024.5", 1025), ("2000 * 2", 4000), ("0", 1)]
)
def test_a_memory_request_that_the_user_stated_is_not_rounded_to_htcondors_steps(request_memory, memory_mb):
    assert only_group(job_row(f"RequestMemory = {request_memory};"))["memory_mb"] == memory_mb


def test_requests_that_htcondor_would_round_alike_are_groups_of_their_own():
    rows = [job_row(f"RequestMemory = {memory};") for memory in (3990, 4000, 4000)]
    groups, _unreadable = jobs.demand_groups(rows)
    assert sorted((found["memory_mb"], found["count"]) for found in groups) == [(3990, 1), (4000, 2)]


@pytest.mark.parametrize(("measured", "memory_mb"), [("", 4000), ("MemoryUsage = 3000;", 4608)])
def test_a_request_based_on_measured_usage_is_rounded_once_it_is_measured(measured, memory_mb):
    retried = "RequestMemory = ifThenElse(MemoryUsage =!= undefined, MemoryUsage * 3 / 2, 4000);"
    assert only_group(job_row(retried + measured))["memory_mb"] == memory_mb


def test_htcondors_default_expressions_are_evaluated():
    row = job_row(
        "RequestMemory = ifThenElse(MemoryUsage =!= undefined, MemoryUsage, (ImageSize + 1023) / 1024);"
        "ImageSize = 300000; RequestDisk = DiskUsage; DiskUsage = 50;"
    )
    found = only_group(row)
    assert (found["memory_mb"], found["disk_mb"]) == (384, 1024)


def test_a_job_that_ran_before_stays_in_the_group_of_those_that_did_not():
    """Assert that DiskUsage, which differs from job to job, does not give every job a group of its own."""
    rows = [job_row(f"RequestDisk = DiskUsage; DiskUsage = {usage};", JobCount=1) for usage in (10, 17, 500, 90000)]
    groups, _unreadable = jobs.demand_groups(rows)
    assert [found["count"] for found in groups] == [4]


def test_undefined_gpus_are_zero():
    assert only_group(job_row("RequestGPUs = undefined;"))["gpus"] == 0


@pytest.mark.parametrize("name", ["RequestCpus", "RequestMemory", "RequestDisk"])
def test_jobs_with_an_undefined_request_never_start_and_are_not_demand(name):
    """Assert that such jobs are excluded, because no slot's WithinResourceLimits is true for them."""
    groups, unreadable = jobs.demand_groups(
        [job_row(f"{name} = undefined;", JobCount=3), job_row(f"{name} = NumHolds;", JobCount=2)]
    )
    assert groups == []
    assert [(row["count"], row["attribute"], row["error"]) for row in unreadable] == [(5, name, f"{name} is undefined")]


@pytest.mark.parametrize("name", ["RequestCpus", "RequestMemory", "RequestDisk"])
def test_a_missing_request_is_like_an_undefined_one(name):
    row = job_row()
    del row[name]
    groups, unreadable = jobs.demand_groups([row])
    assert (groups, [row["error"] for row in unreadable]) == ([], [f"{name} is undefined"])


@pytest.mark.parametrize("value", ['"many"', "error", '"a" + 1', "true", "{1, 2}"])
def test_a_request_without_a_usable_value_is_reported_with_its_jobs(value):
    groups, unreadable = jobs.demand_groups(
        [job_row(f"RequestMemory = {value};", JobCount=7, JobIds="12.0 ... 12.6"), job_row()]
    )
    assert [found["count"] for found in groups] == [1]
    assert [(row["count"], row["first_job"], row["attribute"]) for row in unreadable] == [(7, "12.0", "RequestMemory")]


def test_an_answer_without_counts_is_an_error_not_a_zero():
    with pytest.raises(ValueError, match="JobCount"):
        jobs.demand_groups([classad2.ClassAd("[RequestCpus = 1]")])


def test_first_job_is_the_first_of_job_ids():
    assert only_group(job_row(JobIds="1234.0 ... 1236.5"))["first_job"] == "1234.0"
    assert only_group(job_row(JobIds="7.3"))["first_job"] == "7.3"
    assert only_group(job_row(JobIds="7.3, 8.0"))["first_job"] == "7.3"


def test_attributes_that_requirements_refer_to_are_part_of_the_group():
    found = only_group(
        job_row('WantSite = "X"; Other = 1; Requirements = TARGET.GLIDEIN_Site == MY.WantSite && HasFoo;')
    )
    assert found["attributes"] == {"WantSite": "X"}
    assert found["requirements"] == "TARGET.GLIDEIN_Site == MY.WantSite && HasFoo"


def test_requests_are_not_repeated_as_attributes():
    requirements = "TARGET.Memory >= RequestMemory && TARGET.Disk >= RequestDisk && TARGET.Arch == WantArch;"
    found = only_group(
        job_row(f'RequestDisk = DiskUsage; DiskUsage = 5; WantArch = "X86_64"; Requirements = {requirements}')
    )
    assert found["attributes"] == {"WantArch": "X86_64"}


def test_configured_attributes_are_part_of_the_group_in_any_case():
    found = only_group(job_row('WantPool = "ice";'), attributes=["wantpool", "absent"])
    assert found["attributes"] == {"WantPool": "ice"}


def test_undefined_requirements_match_nothing_and_are_reported():
    assert only_group(job_row("Requirements = undefined;"))["requirements"] == "undefined"


def test_requirements_that_are_absent_or_true_are_null():
    assert only_group(job_row())["requirements"] is None
    assert only_group(job_row("Requirements = true;"))["requirements"] is None
    assert only_group(job_row("Requirements = false;"))["requirements"] == "false"


def test_the_shortest_stated_run_time_counts():
    row = job_row("AllowedJobDuration = 7200; AllowedExecuteDuration = 3600.2;")
    names = ("AllowedExecuteDuration", "AllowedJobDuration")
    assert only_group(row, runtime_attributes=names)["max_runtime_s"] == 3601
    assert only_group(job_row(), runtime_attributes=names)["max_runtime_s"] is None


def test_users_do_not_split_a_group_but_are_kept_for_the_limits():
    rows = [
        job_row(User=user, JobCount=2, JobIds=job) for user, job in (("a@p", "1.0"), ("b@p", "5.0"), ("a@p", "7.0"))
    ]
    groups, _unreadable = jobs.demand_groups(rows)
    assert [(found["count"], found["users"]) for found in groups] == [(4, {"a@p": 4}), (2, {"b@p": 2})]
    assert len({found["id"] for found in groups}) == 1


def test_the_projection_has_every_attribute_of_the_constraint_once():
    names = jobs.projection("WantBridges == True && MY.jobprio > 2", ["WantBridges"], ["AllowedJobDuration"])
    lower = [name.lower() for name in names]
    assert {"wantbridges", "jobprio", "allowedjobduration", "user", "requestcpus"} <= set(lower)
    assert len(lower) == len(set(lower))


@pytest.mark.parametrize(
    "other",
    [{"JobStatus": 2}, {"JobStatus": 5}, {"JobUniverse": 7}, {"JobUniverse": 9}, {"JobUniverse": 12},
     {"Managed": "External"}, {"IsNoopJob": True}, {"IsNoopJob": 1}, {"IsNoopJob": classad2.ExprTree("ProcId == 0")},
     {"WantParallelScheduling": True}, {"CurrentHosts": 1, "MaxHosts": 1}, {"CurrentHosts": 0, "MaxHosts": 0}],
)  # fmt: skip
def test_only_idle_jobs_that_the_schedd_offers_to_the_negotiator_count(other):
    assert not selects(jobs.constraint(""), **other)


@pytest.mark.parametrize(
    "usual",
    [{}, {"Managed": "ScheddDone"}, {"IsNoopJob": False}, {"IsNoopJob": 0}, {"WantParallelScheduling": False},
     {"CurrentHosts": 0, "MaxHosts": 1}, {"CurrentHosts": 0}],
)  # fmt: skip
def test_usual_idle_jobs_count(usual):
    assert selects(jobs.constraint(""), **usual)


def test_a_groups_own_ad_satisfies_the_constraint_without_its_attributes():
    """Test a group's ad, which has only the grouped attributes: the schedd applies the constraint to it, too."""
    constraint = jobs.constraint("WantX == 1", ["alice"], (1, 2))
    group_ad = classad2.ClassAd({"RequestCpus": 1, "WantX": 1, "JobCount": 2, "JobIds": "7.0", "Id": 1})
    assert classad2.ExprTree(constraint).eval(group_ad) is True


def test_the_operators_constraint_cannot_widen_the_query():
    for extra in ("true || true", "WantX =?= 1 || true"):
        assert selects(jobs.constraint(extra))
        assert not selects(jobs.constraint(extra), JobStatus=2)


@pytest.mark.parametrize(
    ("users", "seen"),
    [
        ([], True), (["alice"], True), (["bob", "alice"], True), (["alice@pool"], True), (["bob"], False),
        (["Alice"], False), (["alice@elsewhere"], False), (['" || true || "'], False),
    ],
)  # fmt: skip
def test_users_are_chosen_by_name_with_or_without_their_domain(users, seen):
    assert selects(jobs.constraint("", users), User="alice@pool") is seen


@given(st.integers(1, 4), st.integers(1, 1000))
def test_each_job_is_in_exactly_one_part(parts, cluster):
    there = [selects(jobs.constraint("", (), (number, parts)), ClusterId=cluster) for number in range(parts)]
    assert sum(there) == 1


def test_the_gpu_requirements_are_part_of_the_group():
    found = only_group(
        job_row(
            "RequestGPUs = 1; RequireGPUs = Capability >= 8;"
            "Requirements = countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs;"
        )
    )
    assert (found["gpus"], found["gpu_requirements"], found["attributes"]) == (1, "Capability >= 8", {})
    assert only_group(job_row("RequireGPUs = Capability >= 8;"))["gpu_requirements"] is None


def test_a_list_that_requirements_refers_to_is_part_of_the_group():
    found = only_group(job_row('Sites = {"A", "B"}; Requirements = member(TARGET.GLIDEIN_Site, MY.Sites);'))
    assert found["attributes"] == {"Sites": ["A", "B"]}


def test_attributes_that_are_expressions_are_evaluated_in_the_job():
    found = only_group(job_row("Need = Base * 2; Base = 300; Requirements = TARGET.Scratch > MY.Need;"))
    assert found["attributes"]["Need"] == 600


def test_unreadable_jobs_of_the_same_reason_are_shown_in_one_line():
    rows = [job_row("RequestCpus = error;", JobCount=count, JobIds=f"{count}.0") for count in (2, 3)]
    assert jobs.demand_groups(rows)[1] == [
        {"count": 5, "first_job": "2.0", "attribute": "RequestCpus", "error": "RequestCpus is error"}
    ]


@pytest.mark.parametrize("broken", ["WantX ==", "((", "a b", ""])
def test_an_invalid_expression_is_refused(broken):
    with pytest.raises(ValueError, match="not a ClassAd expression"):
        jobs.references(broken)


@given(
    memory=st.one_of(st.integers(-5, 10**9), st.floats(0, 1e9, allow_nan=False)),
    step=st.integers(1, 5000),
)
def test_rounding_is_up_and_by_less_than_a_step(memory, step):
    rounded = jobs.round_up(memory, step)
    assert rounded % step == 0
    assert rounded >= max(memory, step)
    assert rounded - step < max(memory, 1)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4000), st.integers(1, 500)), max_size=30))
def test_no_job_is_lost_or_counted_twice(sizes):
    rows = [job_row(RequestCpus=cpus, RequestMemory=memory, JobCount=count) for cpus, memory, count in sizes]
    groups, unreadable = jobs.demand_groups(rows)
    assert unreadable == []
    assert sum(found["count"] for found in groups) == sum(count for _cpus, _memory, count in sizes)
    assert len({found["id"] for found in groups}) == len(groups)


@pytest.mark.parametrize("name", ["RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs"])
def test_a_request_beyond_all_machines_is_shown_and_not_counted(name):
    groups, unreadable = jobs.demand_groups([job_row(f"{name} = 1.0e308;")])
    assert (groups, [row["attribute"] for row in unreadable]) == ([], [name])


def test_invalid_utf8_is_an_error_of_that_value_only():
    ad = classad2.ClassAd('[Odd = "\\377"; Good = 1]')
    assert jobs.evaluate(ad, "Odd") is classad2.Value.Error
    assert jobs.evaluate(ad, "Good") == 1


@pytest.mark.parametrize("name", ["Requirements", "RequireGPUs", "RequestDisk"])
def test_jobs_with_text_that_is_not_utf8_are_reported_and_affect_no_others(name):
    rows = [job_row(f'RequestGPUs = 1; {name} = "\\377";', JobCount=2), job_row(JobCount=3)]
    groups, unreadable = jobs.demand_groups(rows)
    assert [group["count"] for group in groups] == [3]
    assert [(row["count"], row["attribute"]) for row in unreadable] == [(2, name)]
    assert "UTF-8" in unreadable[0]["error"]


GPU_REQUIREMENTS = "Requirements = countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs; RequestGPUs = 1;"


@pytest.mark.parametrize(
    ("ad", "attributes", "expressions"),
    [
        # gpus_minimum_memory of condor_submit 23.9
        (GPU_REQUIREMENTS + "RequireGPUs = GlobalMemoryMb >= GPUsMinMemory; GPUsMinMemory = 4096;",
         {"GPUsMinMemory": 4096}, {}),
        ("Requirements = TARGET.Foo >= MY.Want; Want = Other + 1; Other = Third; Third = 4; Unused = 5;",
         {"Other": 4, "Third": 4, "Want": 5}, {}),
        ("Requirements = (Memory * 1024) >= ImageSize; ImageSize = 45;", {"ImageSize": 45}, {}),
        ("Requirements = (Memory * 1024) >= ImageSize;", {}, {}),
        ("Requirements = TARGET.Memory >= RequestMemory; RequestMemory = MemoryUsage; MemoryUsage = 300;", {}, {}),
        ("Requirements = RequestGPUs is undefined; RequestGPUs = 0;", {"RequestGPUs": 0}, {}),
        ("Requirements = RequestGPUs is undefined;", {}, {}),
        ('Requirements = TARGET.Users == Owner; Owner = "alice";', {"Owner": "alice"}, {}),
        ("Requirements = TargetTime > OriginalTime; OriginalTime = 3600;"
         "TargetTime = ifThenElse(isUndefined(TARGET.PYGLIDEIN_TIME_TO_LIVE), OriginalTime,"
         "TARGET.PYGLIDEIN_TIME_TO_LIVE);",
         {"OriginalTime": 3600},
         {"TargetTime": "ifThenElse(isUndefined(TARGET.PYGLIDEIN_TIME_TO_LIVE),OriginalTime,"
                        "TARGET.PYGLIDEIN_TIME_TO_LIVE)"}),
        ("Requirements = Waited > 5; Waited = time() - QDate; QDate = 7;", {"QDate": 7}, {"Waited": "time() - QDate"}),
        ("Requirements = Fits; Fits = Microarch == Want; Want = 3;", {"Want": 3}, {"Fits": "Microarch == Want"}),
        ('ConcurrencyLimits = strcat("swx ", TARGET.NETWORK);', {},
         {"ConcurrencyLimits": 'strcat("swx ",TARGET.NETWORK)'}),
    ],
    ids=["gpus", "my", "measured", "not measured yet", "request", "no gpus", "gpus unstated", "owner", "machine",
         "time", "machine, no scope", "limit"],
)  # fmt: skip
def test_a_group_has_all_that_its_conditions_reach(ad, attributes, expressions):
    found = only_group(job_row(ad))
    assert (found["attributes"], found["expressions"]) == (attributes, expressions)


@pytest.mark.parametrize(
    ("ad", "alone", "by_machine"),
    [
        ("RequestCpus = TARGET.TotalSlotCpus;", {"cpus": 1}, ["RequestCpus"]),
        ("RequestMemory = Share * TARGET.TotalSlotMemory; Share = 2;", {"memory_mb": 1}, ["RequestMemory"]),
        # IceProd's and CMS's; a name that the job does not have is the machine's.
        ("RequestCpus = (!isUndefined(Cpus)) ? RequestResizedCpus : JobCpus; JobCpus = 4;"
         "RequestResizedCpus = (Cpus>MaxCores) ? MaxCores : Cpus; MaxCores = 8;",
         {"cpus": 4}, ["RequestCpus", "RequestResizedCpus"]),
        ("RequestMemory = quantize(TARGET.Memory / 2, {128});", {"memory_mb": 1}, ["RequestMemory"]),
        ("Longest = TARGET.GLIDEIN_Max_Walltime / 2;", {"max_runtime_s": None}, ["Longest"]),
        ("Longest = ifThenElse(isUndefined(GLIDEIN_ToDie), 3600, GLIDEIN_ToDie);", {"max_runtime_s": None},
         ["Longest"]),
        ("RequestGPUs = ifThenElse(TARGET.TotalGPUs > 0, 1, 0); RequireGPUs = Capability >= 8;",
         {"gpus": 0, "gpu_requirements": "Capability >= 8"}, ["RequestGPUs"]),
        # Only jobs have these names.
        ("RequestMemory = ifthenelse(MemoryUsage =!= undefined,MemoryUsage,(ImageSize + 1023) / 1024);"
         "ImageSize = 4096000;", {"memory_mb": 4096}, []),
        ("RequestMemory = ifThenElse(LastHoldReasonCode =?= 34, 8000, 4000);", {"memory_mb": 4000}, []),
    ],
)  # fmt: skip
def test_requests_and_run_times_that_a_machine_decides_are_expressions(ad, alone, by_machine):
    found = only_group(job_row(ad), runtime_attributes=["Longest"])
    assert {name: found[name] for name in alone} == alone
    assert sorted(found["expressions"]) == by_machine
    assert found["runtime_attributes"] == [name for name in by_machine if name == "Longest"]


def test_a_groups_ad_that_has_a_job_id_satisfies_the_constraint():
    """Test the ad of a group whose Requirements refer to ProcId; with 23.9, such jobs were in no group."""
    group_ad = classad2.ClassAd({"RequestCpus": 1, "ProcId": 3, "JobCount": 1, "JobIds": "6.3", "Id": 2})
    assert classad2.ExprTree(jobs.constraint("")).eval(group_ad) is True


@pytest.mark.parametrize(("seconds", "counts"), [(600, False), (-5, True)])
def test_a_job_in_its_cool_down_is_not_demand(seconds, counts):
    assert selects(jobs.constraint(""), JobCoolDownExpiration=int(time.time()) + seconds) is counts
