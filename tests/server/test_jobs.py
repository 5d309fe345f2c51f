# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the conversion of the schedd's grouped ads and job factories (real ClassAds) into demand groups."""

import time

import classad2
import pytest
from glidein_demand.pool import jobs
from hypothesis import given
from hypothesis import strategies as st

from conftest import factory, job_row

REQUESTS = ["RequestCpus", "RequestMemory", "RequestDisk"]
RUNTIMES = ("AllowedExecuteDuration", "AllowedJobDuration", "Longest")


def only_group(row, attributes=()):
    (found,), unreadable = jobs.demand_groups([row], attributes, RUNTIMES)
    assert unreadable == []
    return found


def selects(constraint, **values):
    """Return whether a real ad satisfies the constraint, as the schedd evaluates it."""
    ad = classad2.ClassAd({"ProcId": 0, "ClusterId": 7, "JobStatus": 1, "JobUniverse": 5, "Owner": "alice", **values})
    return classad2.ExprTree(constraint).eval(ad) is True


# --- requests ---

RETRIED = "RequestMemory = ifThenElse(MemoryUsage =!= undefined, MemoryUsage * 3 / 2, 4000);"


@pytest.mark.parametrize(
    ("ad", "expected"),
    [
        # RequestDisk is in KiB, disk_mb in MiB.
        ("RequestDisk = 1024000;", {"disk_mb": 1000}),
        ("RequestDisk = 1024001;", {"disk_mb": 1001}),
        ("RequestDisk = 1;", {"disk_mb": 1}),
        # A request that the user stated is not rounded to HTCondor's steps.
        ("RequestMemory = 4000;", {"memory_mb": 4000}),
        ("RequestMemory = 1024.5;", {"memory_mb": 1025}),
        ("RequestMemory = 2000 * 2;", {"memory_mb": 4000}),
        ("RequestMemory = 0;", {"memory_mb": 1}),
        # A request that depends on measured usage is, once that is measured.
        (RETRIED, {"memory_mb": 4000}),
        (f"{RETRIED} MemoryUsage = 3000;", {"memory_mb": 4608}),
        # HTCondor's default expressions.
        ("RequestMemory = ifThenElse(MemoryUsage =!= undefined, MemoryUsage, (ImageSize + 1023) / 1024);"
         "ImageSize = 300000; RequestDisk = DiskUsage; DiskUsage = 50;", {"memory_mb": 384, "disk_mb": 1024}),
        ("RequestGPUs = undefined;", {"gpus": 0}),
        ("RequireGPUs = Capability >= 8;", {"gpu_requirements": None}),
        ("RequestGPUs = 1; RequireGPUs = Capability >= 8;", {"gpus": 1, "gpu_requirements": "Capability >= 8"}),
        ("", {"requirements": None, "max_runtime_s": None}),
        ("Requirements = true;", {"requirements": None}),
        ("Requirements = false;", {"requirements": "false"}),
        ("Requirements = undefined;", {"requirements": "undefined"}),  # they match nothing
        # The shortest stated run time counts.
        ("AllowedJobDuration = 7200; AllowedExecuteDuration = 3600.2;", {"max_runtime_s": 3601}),
    ],
)  # fmt: skip
def test_values_are_evaluated_and_rounded_up(ad, expected):
    found = only_group(job_row(ad))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("ids", "first"), [("1234.0 ... 1236.5", "1234.0"), ("7.3", "7.3"), ("7.3, 8.0", "7.3"), ("", None)]
)
def test_first_job_is_the_first_of_job_ids(ids, first):
    assert only_group(job_row(JobIds=ids))["first_job"] == first


@given(memory=st.one_of(st.integers(-5, 10**9), st.floats(0, 1e9, allow_nan=False)), step=st.integers(1, 5000))
def test_rounding_is_up_and_by_less_than_a_step(memory, step):
    rounded = jobs.round_up(memory, step)
    assert rounded % step == 0
    assert rounded >= max(memory, step)
    assert rounded - step < max(memory, 1)


def test_jobs_of_the_same_requests_are_one_group_whatever_their_measured_usage():
    """Assert that DiskUsage, which differs from job to job, does not give every job a group of its own."""
    measured = [f"RequestDisk = DiskUsage; DiskUsage = {usage};" for usage in (10, 17, 500, 90000)]
    stated = [f"RequestMemory = {memory};" for memory in (3990, 4000, 4000)]
    groups, _unreadable = jobs.demand_groups([job_row(ad) for ad in measured + stated])
    assert sorted((found["memory_mb"], found["count"]) for found in groups) == [(2048, 4), (3990, 1), (4000, 2)]


def test_users_do_not_split_a_group_but_are_kept_for_the_limits():
    rows = [
        job_row(User=user, JobCount=2, JobIds=job) for user, job in (("a@p", "1.0"), ("b@p", "5.0"), ("a@p", "7.0"))
    ]
    groups, _unreadable = jobs.demand_groups(rows)
    assert [(found["count"], found["users"]) for found in groups] == [(4, {"a@p": 4}), (2, {"b@p": 2})]
    assert len({found["id"] for found in groups}) == 1


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 4000), st.integers(1, 500)), max_size=30))
def test_no_job_is_lost_or_counted_twice(sizes):
    rows = [job_row(RequestCpus=cpus, RequestMemory=memory, JobCount=count) for cpus, memory, count in sizes]
    groups, unreadable = jobs.demand_groups(rows)
    assert unreadable == []
    assert sum(found["count"] for found in groups) == sum(count for _cpus, _memory, count in sizes)
    assert len({found["id"] for found in groups}) == len(groups)


@pytest.mark.parametrize(
    ("ad", "attribute", "error"),
    [
        # No slot's WithinResourceLimits is true for an undefined request: such jobs never start.
        *((f"{name} = undefined;", name, f"{name} is undefined") for name in REQUESTS),
        *((f"{name} = NumHolds;", name, f"{name} is undefined") for name in REQUESTS),
        *((f"{name} = 1.0e308;", name, f"{name} is 1e+308") for name in (*REQUESTS, "RequestGPUs")),
        *((f"RequestMemory = {value};", "RequestMemory", "RequestMemory is ")
          for value in ('"many"', "error", '"a" + 1', "true", "{1, 2}")),
        *((f'RequestGPUs = 1; {name} = "\\377";', name, "UTF-8")
          for name in ("Requirements", "RequireGPUs", "RequestDisk")),
    ],
)  # fmt: skip
def test_jobs_without_a_usable_request_are_reported_and_affect_no_others(ad, attribute, error):
    rows = [job_row(ad, JobCount=7, JobIds="12.0 ... 12.6"), job_row(ad, JobCount=2, JobIds="13.0"), job_row()]
    groups, (row,) = jobs.demand_groups(rows)
    assert [found["count"] for found in groups] == [1]
    assert (row["count"], row["first_job"], row["attribute"]) == (9, "12.0", attribute)
    assert error in row["error"]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_missing_request_is_like_an_undefined_one(name):
    row = job_row()
    del row[name]
    groups, unreadable = jobs.demand_groups([row])
    assert (groups, [row["error"] for row in unreadable]) == ([], [f"{name} is undefined"])


def test_a_result_without_counts_is_an_error_not_a_zero():
    with pytest.raises(ValueError, match="JobCount"):
        jobs.demand_groups([classad2.ClassAd("[RequestCpus = 1]")])


def test_invalid_utf8_is_an_error_of_that_value_only():
    ad = classad2.ClassAd('[Odd = "\\377"; Good = 1]')
    assert jobs.evaluate(ad, "Odd") is classad2.Value.Error
    assert jobs.evaluate(ad, "Good") == 1


# --- attributes ---

GPU_REQUIREMENTS = "Requirements = countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs; RequestGPUs = 1;"


@pytest.mark.parametrize(
    ("ad", "attributes", "expressions"),
    [
        ('WantSite = "X"; Other = 1; Requirements = TARGET.GLIDEIN_Site == MY.WantSite && HasFoo;',
         {"WantSite": "X"}, {}),
        ('Sites = {"A", "B"}; Requirements = member(TARGET.GLIDEIN_Site, MY.Sites);', {"Sites": ["A", "B"]}, {}),
        (GPU_REQUIREMENTS + "RequireGPUs = Capability >= 8;", {}, {}),
        # gpus_minimum_memory of condor_submit 23.9
        (GPU_REQUIREMENTS + "RequireGPUs = GlobalMemoryMb >= GPUsMinMemory; GPUsMinMemory = 4096;",
         {"GPUsMinMemory": 4096}, {}),
        ("Requirements = TARGET.Foo >= MY.Want; Want = Other + 1; Other = Third; Third = 4; Unused = 5;",
         {"Other": 4, "Third": 4, "Want": 5}, {}),
        ("Requirements = (Memory * 1024) >= ImageSize; ImageSize = 45;", {"ImageSize": 45}, {}),
        ("Requirements = (Memory * 1024) >= ImageSize;", {}, {}),
        # The group has the values of requests.
        ("Requirements = TARGET.Memory >= RequestMemory; RequestMemory = MemoryUsage; MemoryUsage = 300;", {}, {}),
        ('RequestDisk = DiskUsage; DiskUsage = 5; WantArch = "X86_64";'
         "Requirements = TARGET.Disk >= RequestDisk && TARGET.Arch == WantArch;", {"WantArch": "X86_64"}, {}),
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
        ('Requirements = member(TARGET.GLIDEIN_Site, Sites); Sites = split("A B");', {"Sites": ["A", "B"]}, {}),
        # A list whose items are expressions.
        ('Requirements = member(TARGET.GLIDEIN_Site, Sites); Sites = {First, "B"}; First = "A";',
         {"First": "A"}, {"Sites": '{ First, "B" }'}),
        ('ConcurrencyLimits = strcat("swx ", TARGET.NETWORK);', {},
         {"ConcurrencyLimits": 'strcat("swx ",TARGET.NETWORK)'}),
    ],
    ids=["requirements", "list", "gpus", "gpu memory", "my", "measured", "not measured yet", "request", "requests",
         "no gpus", "gpus unstated", "owner", "machine", "time", "machine, no scope", "function", "items", "limit"],
)  # fmt: skip
def test_a_group_has_all_that_its_conditions_reach(ad, attributes, expressions):
    found = only_group(job_row(ad))
    assert (found["attributes"], found["expressions"]) == (attributes, expressions)


def test_configured_attributes_are_part_of_the_group_in_any_case():
    assert only_group(job_row('WantPool = "ice";'), ["wantpool", "absent"])["attributes"] == {"WantPool": "ice"}


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
    found = only_group(job_row(ad))
    assert {name: found[name] for name in alone} == alone
    assert sorted(found["expressions"]) == by_machine
    assert found["runtime_attributes"] == [name for name in by_machine if name == "Longest"]


# --- the query ---


def test_the_projection_has_every_attribute_of_the_constraint_once():
    names = jobs.projection("WantBridges == True && MY.jobprio > 2", ["WantBridges"], ["AllowedJobDuration"])
    lower = [name.lower() for name in names]
    assert {"wantbridges", "jobprio", "allowedjobduration", "user", "requestcpus"} <= set(lower)
    assert len(lower) == len(set(lower))


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        *((other, False) for other in (
            {"JobStatus": 2}, {"JobStatus": 5}, {"JobUniverse": 7}, {"JobUniverse": 9}, {"JobUniverse": 12},
            {"Managed": "External"}, {"IsNoopJob": True}, {"IsNoopJob": 1}, {"IsNoopJob": "x", "Managed": "External"},
            {"IsNoopJob": classad2.ExprTree("ProcId == 0")}, {"WantParallelScheduling": True},
            {"CurrentHosts": 1, "MaxHosts": 1}, {"CurrentHosts": 0, "MaxHosts": 0},
            {"JobCoolDownExpiration": int(time.time()) + 600},
        )),
        *((usual, True) for usual in (
            {}, {"Managed": "ScheddDone"}, {"IsNoopJob": False}, {"IsNoopJob": 0}, {"IsNoopJob": "x"},
            {"WantParallelScheduling": False}, {"CurrentHosts": 0, "MaxHosts": 1}, {"CurrentHosts": 0},
            {"JobCoolDownExpiration": int(time.time()) - 5},
        )),
    ],
)  # fmt: skip
def test_only_idle_jobs_that_the_schedd_offers_to_the_negotiator_count(values, counts):
    assert selects(jobs.constraint(""), **values) is counts


@pytest.mark.parametrize("values", [{"WantX": 1}, {"WantX": 1, "ProcId": 3}])
def test_a_groups_own_ad_satisfies_the_constraint_without_its_attributes(values):
    """Test a group's ad, which has only the grouped attributes: the schedd applies the constraint to it, too.

    If Requirements refer to ProcId, it has one; with 23.9, such jobs were in no group.
    """
    constraint = jobs.constraint("WantX == 1", ["alice"])
    group_ad = classad2.ClassAd({"RequestCpus": 1, "JobCount": 2, "JobIds": "7.0", "Id": 1, **values})
    assert classad2.ExprTree(constraint).eval(group_ad) is True


@pytest.mark.parametrize("extra", ["true || true", "WantX =?= 1 || true"])
def test_the_operators_constraint_cannot_widen_the_query(extra):
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


@pytest.mark.parametrize("broken", ["WantX ==", "((", "a b", ""])
def test_an_invalid_expression_is_refused(broken):
    with pytest.raises(ValueError, match="not a ClassAd expression"):
        jobs.references(broken)


# --- job factories ---


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ({}, True), ({"JobUniverse": 12}, False), ({"IsNoopJob": True}, False),
        ({"WantParallelScheduling": True}, False), ({"WantX": 2}, False), ({"Owner": "bob"}, False),
    ],
)  # fmt: skip
def test_factories_are_chosen_as_jobs_are(values, seen):
    ad = factory(**{"JobMaterializeDigestFile": "condor_submit.12.digest", "WantX": 1, "Owner": "alice", **values})
    assert (classad2.ExprTree(jobs.factory_constraint("WantX == 1", ["alice"])).eval(ad) is True) is seen


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, (95, 0)),
        ({"JobFactoryTotalProcs": -1}, (95, 0)),  # the schedd has not read the items yet: TotalSubmitProcs counts
        # Jobs that max_idle keeps out of the queue are no demand.
        *(({"JobMaterializeMaxIdle": max_idle, "JobsIdle": idle, "JobsHeld": held}, (room, 95 - room))
          for max_idle, idle, held, room in ((1, 1, 0, 0), (7, 1, 1, 5), (1, 3, 0, 0), (500, 0, 0, 95), (0, 0, 0, 0))),
        # max_materialize leaves the others to wait.
        ({"JobMaterializeLimit": 20}, (15, 80)),
        ({"JobMaterializeLimit": 3}, (0, 95)),
        # The factory will make no job: after an error, held, without items, removed, submitted on hold, complete.
        *(({"JobFactoryPaused": reason}, (0, 0)) for reason in (-1, 1, 2, 3)),
        ({"JobFactorySubmitOnHoldCode": 1}, (0, 0)),
        ({"JobMaterializeNextProcId": 100}, (0, 0)),
        ({"JobMaterializeNextProcId": "x"}, (0, 0)),
    ],
)  # fmt: skip
def test_the_jobs_that_a_factory_has_yet_to_make(values, expected):
    assert jobs.unmaterialized_jobs(factory(**values)) == expected


@given(st.integers(0, 200), st.integers(0, 200), st.integers(0, 200), st.integers(-1, 200))
def test_no_job_of_a_factory_is_counted_twice(total, made, present, limit):
    ad = factory(JobFactoryTotalProcs=total, TotalSubmitProcs=total, JobMaterializeNextProcId=made,
                 JobsPresent=present, JobMaterializeLimit=limit)  # fmt: skip
    startable, waiting = jobs.unmaterialized_jobs(ad)
    assert min(startable, waiting) >= 0
    assert startable + waiting == max(0, total - made)


def test_a_factory_becomes_a_group_like_that_of_its_jobs():
    unreadable = factory(RequestCpus="many")
    (group,), rows = jobs.factory_groups([factory(JobMaterializeLimit=20), unreadable], (), ())
    assert (group["cpus"], group["memory_mb"], group["first_job"]) == (2, 2000, "12.5")
    assert (group["count"], group["unmaterialized"], group["over_limit"]) == (15, 15, 80)
    assert group["users"] == {"alice@pool": 15}
    assert [(row["count"], row["attribute"]) for row in rows] == [(95, "RequestCpus")]
