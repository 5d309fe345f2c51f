# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that Requirements, RequireGPUs and accept_requirements are evaluated as HTCondor evaluates them."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import classad, make_plan
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import (
    Matcher,
    conditions_of,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import (
    NOW,
    demand,
    group,
    planned_site,
    queue,
    raw_entry,
    shape,
    site,
    slots,
    supplied,
    supply,
)

pytestmark = pytest.mark.skipif(classad.classad2 is None, reason="needs the Python library htcondor")

# What condor_submit writes into Requirements.
CONDITIONS = [
    *('TARGET.Arch == "X86_64"', 'TARGET.OpSys == "LINUX"', "TARGET.Disk >= RequestDisk"),
    *("TARGET.Memory >= RequestMemory", "TARGET.HasFileTransfer"),
]
DEFAULT = " && ".join(f"({condition})" for condition in CONDITIONS)


def planned(jobs, entries=None, known=(), **more):
    one = planned_site(site(entries or {"main": raw_entry()}))
    return make_plan(demand(*jobs), supply(*known), [one], NOW, 900, **more)


def why(requirements, attributes=None, machine=None, sample=None, expressions=None, **more):
    """Return the reason why a job with these Requirements is not served, or None."""
    known = [supplied(sample=sample)] if sample else []
    entries = {"main": raw_entry(attributes=machine or {}, **more)}
    jobs = [group(requirements=requirements, attributes=attributes or {}, expressions=expressions or {})]
    reasons = [row["reason"] for row in planned(jobs, entries, known)["unserved"]]
    return reasons[0].replace("no shape fits: lab/main/core: ", "") if reasons else None


# Conditions of an expression.


@pytest.mark.parametrize(
    "expression, conditions",
    [
        (DEFAULT, CONDITIONS),
        ("((A && B) && (C || D && E))", ["A", "B", "C || D && E"]),
        ('A == "x && \\"y\\" || z" && B', ['A == "x && \\"y\\" || z"', "B"]),
        *((expression, [expression]) for expression in ("A || B && C", "A ? B : C && D", "A ?: B && C")),
    ],
)
def test_only_a_conjunction_outside_of_strings_and_other_operators_is_taken_apart(expression, conditions):
    assert [condition.text for condition in conditions_of(expression)] == conditions


def test_references_are_distinguished_by_scope():
    condition = conditions_of('MY.A + TARGET.B + C > split("D")[0] || true')[0]
    assert (condition.my, condition.target, condition.bare) == ({"a"}, {"b"}, {"c"})
    assert not condition.opaque


@pytest.mark.parametrize("expression", ['eval("Arch") == "X"', "[a = 1; b = a].b == Arch"])
def test_hidden_references_in_the_text_are_detected(expression):
    assert conditions_of(expression)[0].opaque


# HTCondor's rules.


@pytest.mark.parametrize(
    "expression, result",
    [
        ("TARGET.Memory >= RequestMemory", True),
        ('OpSysAndVer == "RHEL9"', True),  # missing in the job: looked up in the machine
        ('WantOS == "RHEL9"', True),  # in the job
        ("Cpus == 1", True),  # in both: the job's value
        ("TARGET.Cpus == 8", True),
        ("MY.OpSysAndVer is undefined", True),  # MY. excludes the machine
        ('MY.OpSysAndVer is undefined && OpSysAndVer == "RHEL9"', True),
        ('(MY.OpSysAndVer is undefined) == (OpSysAndVer == "RHEL9")', True),
        ("HasNothing", False),
        ("HasNothing =?= undefined", True),
        ("!HasNothing", False),
        ("HasNothing || TARGET.Cpus == 8", True),
        ("TARGET.Cpus", True),  # a nonzero number
        ("TARGET.Cpus - 8", False),
        ('TARGET.OpSysAndVer == "rhel9"', True),  # == on strings ignores case
        ('TARGET.OpSysAndVer =?= "rhel9"', False),
        ("TARGET.OpSysAndVer > 3", False),  # an error
        ('stringListIMember(TARGET.OpSysAndVer, "rhel8, rhel9")', True),
        ('eval("OpSysAndVer") == "RHEL9"', True),
        ('regexp("^RHEL[89]$", OpSysAndVer)', True),
        ("'OpSysAndVer' == WantOS", True),
        ("'odd name' == 3", True),  # not an identifier, and only in the machine
        ("TARGET.'odd name' == 3", True),
        ("'it\\'s' == 4", True),
        ("'error' == 5", True),  # a reserved word
        ("MY.'odd name' is undefined && 'odd name' == 3", True),
    ],
)
def test_an_expression_is_evaluated_as_by_the_negotiator(expression, result):
    job = {"requestmemory": 1000, "wantos": "RHEL9", "cpus": 1}
    machine = {"memory": 2000, "opsysandver": "RHEL9", "cpus": 8, "odd name": 3, "it's": 4, "error": 5}
    matcher = Matcher()
    assert all(matcher.holds(one, job, machine) for one in matcher.conditions(expression)) is result


SAMPLE = {"Arch": "X86_64"}
NEEDED = {"A": "TARGET.Has_Y && WantZ", "WantZ": "MY.WantB"}
# Requirements, what is known; why such a job is not served, None if it is, "" for any reason.
MACHINES = [
    # Of every machine.
    (DEFAULT, {}, None),
    ('TARGET.TotalCpus >= 1 && TARGET.HasReconnect && GLIDEIN_Site == "lab"', {}, None),
    # Of earlier glideins, unless they are sizes; overridden by the entry.
    ("HAS_CVMFS", {"sample": {"HAS_CVMFS": True, "Cpus": 64}}, None),
    ("TARGET.Cpus > 1", {"sample": {"HAS_CVMFS": True, "Cpus": 64}}, ""),
    # Of the node, not of the glidein.
    ("DetectedCpus > 8 && TARGET.DetectedMemory > 9000", {"sample": {"DetectedCpus": 9, "DetectedMemory": 9001}}, None),
    ("HAS_CVMFS", {"sample": {"HAS_CVMFS": True}, "machine": {"HAS_CVMFS": False}}, ""),
    ('Arch == "aarch64"', {"machine": {"Arch": "aarch64"}}, None),
    ("TARGET.HAS_CVMFS", {"sample": SAMPLE},
     "Requirements want TARGET.HAS_CVMFS, and HAS_CVMFS is not known of its machines"),
    ("A && B || Has_X", {"sample": SAMPLE, "expressions": NEEDED},
     "Requirements want A && B || Has_X, and B, Has_X, has_y are not known of its machines, "
     "and wantb is not known of these jobs"),
    ('OpSysAndVer == "RHEL9"', {"machine": {"OpSysAndVer": "RHEL8"}},
     "Requirements want OpSysAndVer == \"RHEL9\"; there opsysandver is 'RHEL8'"),
    ("TARGET.'Odd \\'name'", {"sample": SAMPLE},
     "Requirements want TARGET.'Odd \\'name', and Odd 'name is not known of its machines"),
    # Of jobs.
    ("NumJobStarts > 3 && TARGET.Arch =?= LastRemotePool", {},
     "Requirements want NumJobStarts > 3, and NumJobStarts is not known of these jobs"),
    ("MY.WantX", {}, "Requirements want MY.WantX, and WantX is not known of these jobs"),
    ("Huge > 1", {"attributes": {"Huge": 10**30}}, ""),
    # The time is that of the plan, and the glidein starts now. A walltime of two hours leaves 7080 s.
    ("TARGET.GLIDEIN_ToDie - time() >= 7080", {}, None),
    ("TARGET.GLIDEIN_ToDie - CurrentTime > 7080", {}, ""),
    (f"time() == {NOW} && CurrentTime == {NOW}", {}, None),
    ("time() > 1 && time() < 5", {}, "Requirements want time() < 5"),
    (f"TARGET.MyCurrentTime == {NOW} && TARGET.DaemonStartTime == {NOW}", {}, None),
    ("TARGET.EnteredCurrentState == time() && TARGET.JobStarts == 0", {}, None),
    # 2026-11-20 21:48 UTC, a Friday
    ("TARGET.ClockDay == 5 && TARGET.ClockMin == 21 * 60 + 48", {}, None),
    # The last ten minutes of the walltime are for jobs to end, whatever an earlier glidein has shown.
    ("TARGET.PYGLIDEIN_TIME_TO_LIVE >= 6600", {"sample": {"PYGLIDEIN_TIME_TO_LIVE": 40}}, None),
    ("PYGLIDEIN_TIME_TO_LIVE > 6600", {"sample": {"PYGLIDEIN_TIME_TO_LIVE": 40}}, ""),
    # Text that no ad can hold.
    ("TARGET.Odd isnt undefined", {"machine": {"Odd": "\udc80"}}, ""),
    ("TARGET.Odd isnt undefined", {"sample": {"Odd": "\udc80"}}, ""),
    ("TARGET.Arch isnt undefined", {"machine": {"Odd": "\udc80"}}, None),
]  # fmt: skip


@pytest.mark.parametrize("requirements, known, reason", MACHINES)
def test_requirements_are_evaluated_for_the_expected_machine(requirements, known, reason):
    found = why(requirements, **known)
    assert found == reason or (found and reason == "")


@pytest.mark.parametrize(
    "requirements",
    [
        "TARGET.Machine =!= LastRemoteHost",
        "TARGET.Machine =!= MachineAttrMachine1",
        "TARGET.Name =!= LastRemoteHost",
        'TARGET.Machine != "badnode"',
        'Machine != "badnode"',
        'TARGET.UtsnameNodename =!= "badnode"',
        '!stringListMember(TARGET.Machine, "bad1,bad2")',
        '!regexp("^bad", TARGET.Machine)',
        '(TARGET.Machine == "badnode") =!= true',
        'TARGET.GLIDEIN_BatchId =!= "17"',
        "TARGET.SlotID == 1",
        'regexp("^slot1@glidein_", TARGET.Name)',
    ],
)
@pytest.mark.parametrize("last", ["slot1_1@glidein_7_x@node5", None])
def test_a_job_that_excludes_a_node_fits_a_future_glidein(requirements, last):
    # The name in the collector is only one of many.
    sample = {"Machine": "badnode", "Name": "slot1@glidein_17_x@badnode", "SlotID": 1}
    attributes = {"LastRemoteHost": last} if last else {}
    assert why(requirements, attributes) is None
    assert why(requirements, attributes, sample=sample) is None


def test_the_unknown_name_of_a_node_may_stand_for_a_regular_expression():
    assert why("!regexp(TARGET.Machine, LastRemoteHost)", {"LastRemoteHost": "slot1_1@node5"}) is None


BEFOREHAND = ", and the name of a glidein's node is not known beforehand"


@pytest.mark.parametrize(
    "requirements, names",
    [
        ('TARGET.Machine == "node5"', "Machine"),
        ('regexp("slurm", Machine)', "Machine"),
        ('stringListMember(TARGET.Machine, "node5,node6")', "Machine"),
        ("TARGET.Machine =?= LastRemoteHost", "Machine"),
        ('TARGET.Machine == "a" || TARGET.Name == "slot1@a"', "Machine, Name"),
    ],
)
def test_a_job_that_requires_one_node_is_unserved_with_a_reason(requirements, names):
    told = f"Requirements want {requirements}{BEFOREHAND} ({names})"
    unset = ", and LastRemoteHost is not known of these jobs" if "LastRemoteHost" in requirements else ""
    assert why(requirements) == told + unset
    assert why(requirements, {"LastRemoteHost": "slot1@x"}) == told


# As condor_submit 23.9 writes it for deferral_time and for cron_hour.
DEFERRED = (
    "TARGET.HasJobDeferral && (((time() + ScheddInterval) >= (DeferralTime - DeferralPrepTime)) && "
    "(time() < (DeferralTime + DeferralWindow)))"
)


@pytest.mark.parametrize(
    "in_s, reason",
    [
        (300 + 60, None),
        (3600, "deferred jobs: not before 22:42 UTC, as their DeferralTime is 22:48 UTC"),
        (9000, "deferred jobs: not before 2026-11-21 00:12 UTC, as their DeferralTime is 2026-11-21 00:18 UTC"),
        (-600, "deferred jobs: their DeferralTime, 21:38 UTC, and their DeferralWindow of 120 s are over"),
    ],
)
def test_deferred_jobs_are_unserved_with_their_start_time(in_s, reason):
    times = {"DeferralTime": NOW + in_s, "DeferralPrepTime": 300, "DeferralWindow": 120, "ScheddInterval": 60}
    assert why(DEFERRED, times) == reason


@pytest.mark.parametrize("requirements", ["TARGET.Memory >=", "(", "a; b", "] = [", "(" * 5000 + "a" + ")" * 5000])
def test_requirements_that_cannot_be_read_are_counted_and_not_served(requirements):
    result = planned([group("bad", 3, requirements=requirements), group("good", 1)])
    assert [(row["group"], row["count"]) for row in result["unserved"]] == [("bad", 3)]
    assert "Requirements cannot be read: " in result["unserved"][0]["reason"]
    assert result["plan"][0].serves == {"good": 1}


@pytest.mark.parametrize("value", ["\udc80", "a\0b", ["x", {"y": "\udc80"}], {"\udc80": 1}])
def test_text_that_no_ad_can_hold_is_an_error_of_that_group_only(value):
    jobs = [group("bad", 3, requirements="WantX != TARGET.X", attributes={"WantX": value}), group("good", 1)]
    result = planned(jobs, explain="bad")
    assert [(row["group"], row["count"]) for row in result["unserved"]] == [("bad", 3)]
    assert "their attribute 'wantx'" in result["unserved"][0]["reason"]
    assert "not UTF-8" in result["unserved"][0]["reason"]
    assert "not UTF-8" in result["explanation"][0]["reason"]
    assert result["plan"][0].serves == {"good": 1}


GPUS = {"GPUs_DeviceName": "Tesla T4"}
STATED = {"GPUs_GlobalMemoryMb": 16160, "GPUs_Capability": 8.6, "GPUs_MaxSupportedVersion": 12040}
MINIMA = "Capability >= GPUsMinCapability && MaxSupportedVersion >= GPUsMinRuntime"


# The job's own attributes, as condor_submit writes them for gpus_minimum_memory and the like, are not the machine's.
@pytest.mark.parametrize(
    "required, attributes, stated, reason",
    [
        ("Capability >= 7.5", {}, {"GPUs_Capability": 8.0}, None),
        ("Capability >= 7.5", {}, {"GPUs_Capability": 7.0}, "RequireGPUs wants Capability >= 7.5"),
        ("Capability >= 7.5", {}, {}, "Capability is not known of its GPUs: state GPUs_Capability in the entry's "
         "attributes"),
        ("GlobalMemoryMb >= GPUsMinMemory && Capability >= 7.5", {"GPUsMinMemory": 4000}, {},
         "and Capability, GlobalMemoryMb are not known of its GPUs: state GPUs_Capability and GPUs_GlobalMemoryMb in "
         "the entry's attributes"),
        ("GlobalMemoryMb >= GPUsMinMemory", {"GPUsMinMemory": 4096}, STATED, None),
        ("GlobalMemoryMb >= GPUsMinMemory", {"GPUsMinMemory": 20000}, STATED, "GlobalMemoryMb >= GPUsMinMemory"),
        (MINIMA, {"GPUsMinCapability": 7.5, "GPUsMinRuntime": 12010}, STATED, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("requirements", ["countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs", None])
def test_gpu_properties_are_evaluated(required, attributes, stated, reason, requirements):
    entry = raw_entry(shapes={"gpu": shape(gpus=1)}, attributes=stated)
    jobs = [group(gpus=1, gpu_requirements=required, requirements=requirements, attributes=attributes)]
    unserved = planned(jobs, {"main": entry}, [supplied(shape_name="gpu", sample=GPUS)])["unserved"]
    assert [row["reason"].endswith(reason) for row in unserved] == ([True] if reason else [])


def test_free_slots_of_unknown_sites_are_matched_with_their_sample():
    jobs = [group(count=1, requirements="HAS_CVMFS")]

    def unserved(has):
        gone = supplied(free=slots(1), site_name="gone", sample={"HAS_CVMFS": has})
        return planned(jobs, known=[gone, supplied(sample={"Arch": "X86_64"})])["unserved"]

    assert unserved(True) == []
    assert len(unserved(False)) == 1


@pytest.mark.parametrize(
    "sample, present",
    [({"Memory": 4000}, 0), ({"Memory": 4002}, 2), ({"Arch": "X86_64"}, 2), (None, 2)],
)
def test_a_request_is_evaluated_beside_machines_of_no_entry_if_their_ad_is_known(sample, present):
    known = supply(supplied(free=slots(2), site_name="gone", sample=sample), others_free=slots(2))
    jobs = [group("a", 2, expressions={"RequestMemory": "TARGET.Memory / 2"}, memory_mb=1)]
    plan = make_plan(demand(*jobs), known, [planned_site(site())], NOW, 900)["plan"]
    assert [item.present for item in plan] == [present]


# An expression of the site.


def test_a_site_can_be_limited_to_groups_of_users():
    entries = {"main": raw_entry(accept_requirements='TARGET.ProjectName == "icecube"')}
    jobs = [
        group("ours", 2, attributes={"ProjectName": "IceCube"}),
        group("theirs", 3),
        group("none", 1, attributes={}),
    ]
    result = planned(jobs, entries)
    assert result["plan"][0].serves == {"ours": 2}
    assert (
        'accept_requirements wants TARGET.ProjectName == "icecube", and ProjectName is not known of these jobs'
        in result["unserved"][0]["reason"]
    )


@pytest.mark.parametrize(
    "told, said",
    [
        (["projectname"], "ProjectName is not known of these jobs"),
        ([], "it does so from its next reading on if a cycle with a token has requested it, or with ProjectName in "
         "pool.attributes of demand_server_settings"),
    ],
)  # fmt: skip
def test_the_reason_names_the_setting_for_an_attribute_missing_in_the_demand(told, said):
    entries = {"main": raw_entry(accept_requirements='TARGET.ProjectName == "icecube"')}
    read = demand(group("g", 3), attributes=told)
    result = make_plan(read, supply(), [planned_site(site(entries))], NOW, 900)
    assert result["unserved"][0]["reason"].endswith(said)


def test_jobs_that_others_lease_hide_no_job_of_another_user():
    entries = {"main": raw_entry(accept_requirements='stringListMember(Owner, "bob,carol")')}
    jobs = [group(user, 3, attributes={"Owner": user}, leased=5 * (user == "alice")) for user in ("alice", "bob")]
    assert planned(jobs, entries)["plan"][0].serves == {"bob": 3}


def test_jobs_whose_requirements_are_hidden_change_nothing():
    hidden = group(count=5)
    del hidden["requirements"]
    sites = [planned_site(site(), queue({("main", "core"): {"queued": 3, "running": 1}}))]
    result = make_plan(demand(hidden, group("b", 2)), supply(), sites, NOW, 900)
    assert (result["plan"][0].present, result["lease_requests"]) == (4, {})
    assert result["plan"][0].reason.startswith(
        "the demand lacks the jobs' Requirements, because no site has a valid token"
    )
    assert result["plan"][0].reason.endswith("check glidein_demand_token of the sites: nothing is changed")
    assert [row["count"] for row in result["unserved"]] == [5, 2]


# What the conditions of jobs reach.

GLIDEIN_TIME = "ifThenElse(isUndefined(TARGET.PYGLIDEIN_TIME_TO_LIVE), OriginalTime, TARGET.PYGLIDEIN_TIME_TO_LIVE)"


@pytest.mark.parametrize(
    "requirements, attributes, expressions, fits",
    [
        ("TargetTime > OriginalTime", {"OriginalTime": 3600}, {"TargetTime": GLIDEIN_TIME}, True),
        ("MY.TargetTime > OriginalTime", {"OriginalTime": 7200}, {"TargetTime": GLIDEIN_TIME}, False),
        ("A", {"D": 8}, {"A": "MY.B + 1 > 8", "B": "C", "C": "D * TARGET.Cpus"}, True),
        ("A", {}, {"A": 'MY.Arch is undefined && Arch == "X86_64"'}, True),
        ("Waited >= 600", {"QDate": NOW - 600}, {"Waited": "time() - QDate"}, True),
        ("Waited > 600", {"QDate": NOW - 600}, {"Waited": "CurrentTime - QDate"}, False),
        ("A", {}, {"A": "B", "B": "A"}, False),
        ("member(TARGET.Arch, Wanted)", {"First": "X86_64"}, {"Wanted": '{ First, "B" }'}, True),
        ("member(TARGET.Arch, Wanted)", {}, {"Wanted": 'split("A X86_64")'}, True),
        ("member(TARGET.Arch, Wanted)", {}, {"Wanted": 'split("A B")'}, False),
        ("(Memory * 1024) >= ImageSize", {"ImageSize": 45}, {}, True),
        ("ImageSize is undefined && DiskUsage is undefined && MemoryUsage is undefined", {}, {}, True),
        ("ResidentSetSize is undefined && TransferInputSizeMB is undefined", {}, {}, True),
        ("RequestGPUs is undefined", {}, {}, True),
        ("RequestGPUs is undefined", {"RequestGPUs": 0}, {}, False),
        ("RequestGPUs =?= 0", {"RequestGPUs": 0}, {}, True),
    ],
)
def test_a_condition_sees_the_real_job_ad(requirements, attributes, expressions, fits):
    jobs = [group(requirements=requirements, attributes=attributes, expressions=expressions)]
    sample = {"Arch": "X86_64", "HasFileTransfer": True}
    assert (planned(jobs, known=[supplied(sample=sample)])["unserved"] == []) is fits


# What no source knows.

NODE = {"node": shape(cpus=4, memory_mb=8000)}
SHAPES = {"core": shape(), **NODE}
VERSION = 'versionGE(split(TARGET.CondorVersion)[1], "8.9.7")'


def plan_of(jobs, queued=(), known=(), entries=None):
    entries = entries or {"a": raw_entry(shapes=SHAPES), "b": raw_entry(shapes=SHAPES)}
    reading = queue({(name, "core"): {"queued": number} for name, number in dict(queued).items()})
    result = make_plan(demand(*jobs), supply(*known), [planned_site(site(entries), reading)], NOW, 900, explain="a")
    present = {}
    for item in result["plan"]:
        present[item.entry] = present.get(item.entry, 0) + item.present
    return present, result


@pytest.mark.parametrize("requirements", ["TARGET.HAS_CVMFS", "HAS_CVMFS =?= true", VERSION])
def test_one_glidein_of_each_entry_finds_out_what_no_source_knows(requirements):
    jobs = [group("a", 9, requirements=requirements)]
    present, result = plan_of(jobs)
    assert present == {"a": 1, "b": 1}
    name = "CondorVersion" if "Condor" in requirements else "HAS_CVMFS"
    assert result["unserved"][0]["reason"] == (
        f"the first glidein of an entry shows whether these jobs fit: {name} is not known of its machines yet"
    )
    assert result["explanation"][0]["reason"].startswith(f"may fit: the first glidein of the entry shows {name}")
    assert result["explanation"][0]["fits"]
    # The next plan leaves them in the queue, and orders no other.
    assert plan_of(jobs, {"a": 1, "b": 1})[0] == {"a": 1, "b": 1}


def test_a_glidein_that_is_present_finds_it_out():
    jobs = [group("a", 9, requirements="HAS_CVMFS"), group("b", 1, cpus=4)]
    present, result = plan_of(jobs)
    # One for the group b, whose other cores are taken; none in addition.
    assert present == {"a": 1, "b": 1}
    assert plan_of(jobs, known=[supplied("a", registered=1), supplied("b", registered=1)])[0] == {"a": 1, "b": 0}


def test_what_an_earlier_glidein_has_shown_decides():
    jobs = [group("a", 9, requirements="HAS_CVMFS")]
    known = [supplied("a", sample={"HAS_CVMFS": True}), supplied("b", sample={"Arch": "X86_64"})]
    present, result = plan_of(jobs, known=known)
    assert (present["b"], result["unserved"]) == (0, [])
    assert present["a"] == 9


def test_the_gpus_of_an_entry_are_unknown_while_only_glideins_without_gpus_have_registered():
    entries = {"a": raw_entry(shapes={"core": shape(), "gpu": shape(gpus=1)})}
    jobs = [group("a", 3, gpus=1, gpu_requirements="Capability >= 7.5")]
    assert plan_of(jobs, known=[supplied("a", sample={"Arch": "X86_64"})], entries=entries)[0] == {"a": 1}
    # Glideins without GPUs do not show them, whether they have registered or are in the queue.
    assert plan_of(jobs, known=[supplied("a", registered=1, sample={"Arch": "X86_64"})], entries=entries)[0] == {"a": 1}
    assert plan_of([*jobs, group("b", 2)], {"a": 2}, entries=entries)[0] == {"a": 3}
    gpu = supplied("a", "gpu", registered=1)
    assert plan_of(jobs, known=[supplied("a", sample={"Arch": "X86_64"}), gpu], entries=entries)[0] == {"a": 0}
    known = [supplied("a", sample={"GPUs_Capability": 7.0})]
    assert plan_of(jobs, known=known, entries=entries)[0] == {"a": 0}


def test_a_condition_that_fails_for_another_reason_orders_nothing():
    assert plan_of([group("a", 9, requirements='HAS_CVMFS && TARGET.Arch == "ppc64le"')])[0] == {"a": 0, "b": 0}


# Requests, run times and limits that the machine decides.


@pytest.mark.parametrize(
    "expressions, shapes, present",
    [
        # A job for each whole glidein.
        ({"RequestCpus": "TARGET.TotalSlotCpus", "RequestMemory": "TARGET.TotalSlotMemory"}, NODE, 6),
        ({"RequestMemory": "TARGET.Cpus * 2000"}, NODE, 6),
        ({"RequestMemory": "TARGET.Cpus * 500"}, NODE, 2),
        ({"RequestMemory": "TARGET.Cpus * 3000"}, NODE, 0),
        # IceProd's: a name that the job does not have is the machine's.
        ({"RequestCpus": "(!isUndefined(Cpus)) ? Resized : 1", "Resized": "(Cpus>3) ? 3 : Cpus"}, NODE, 6),
        ({"RequestCpus": "TARGET.NoSuchName"}, NODE, 0),
        # Glideins with GPUs do not have the required capability, others need none.
        ({"RequestGPUs": "ifThenElse(TARGET.GPUs > 0, 1, 0)"}, {"gpu": shape(gpus=2)}, 0),
        ({"RequestGPUs": "ifThenElse(isUndefined(TARGET.GPUs), 0, 1)"}, {"core": shape()}, 6),
        ({"Longest": "TARGET.GLIDEIN_Max_Walltime / 2"}, {"core": shape()}, 6),
        ({"Longest": "TARGET.GLIDEIN_Max_Walltime * 2"}, {"core": shape()}, 0),
    ],
)
def test_a_request_or_run_time_is_evaluated_beside_the_machine(expressions, shapes, present):
    more = {"gpu_requirements": "Capability >= 8"} if "RequestGPUs" in expressions else {}
    jobs = [group("a", 6, expressions=expressions, runtime_attributes=["Longest"], requirements=DEFAULT, **more)]
    known = [supplied("a", sample={"Arch": "X86_64", "GPUs_Capability": 7.5})]
    assert plan_of(jobs, known=known, entries={"a": raw_entry(shapes=shapes)})[0] == {"a": present}


NETWORKS = {
    "a": raw_entry(attributes={"NETWORK": "net_a"}),
    "b": raw_entry(attributes={"NETWORK": "net_b"}, limits={"queued": 2}),
}


@pytest.mark.parametrize(
    "maxima, used, present, reason",
    [
        ({"net_a": 1, "net_b": 0}, {}, {"a": 1, "b": 0},
         "concurrency limit net_a: 1, 0 in use; concurrency limit net_b: 0, 0 in use"),
        ({"net_a": 1}, {}, {"a": 1, "b": 2},
         "concurrency limit net_a: 1, 0 in use; no more glideins where these jobs fit: lab/b limit queued 2 reached"),
        ({"net_a": 2}, {}, {"a": 2, "b": 2}, None),
        ({"net_a": 5, "net_b": 1}, {"net_a": 3, "net_b": 1}, {"a": 2, "b": 0},
         "concurrency limit net_a: 5, 3 in use; concurrency limit net_b: 1, 1 in use"),
        ({"": 2}, {}, {"a": 1, "b": 0}, "concurrency limit swx: 2, 0 in use"),
        ({"swx": 6}, {}, {"a": 3, "b": 0}, "concurrency limit swx: 6, 0 in use"),
        ({}, {}, {"a": 4, "b": 0}, None),
    ],
)  # fmt: skip
def test_a_concurrency_limit_that_depends_on_the_machine_holds_back_glideins(maxima, used, present, reason):
    # ":2" names no limit, and is ignored.
    jobs = [group("a", 4, expressions={"ConcurrencyLimits": 'strcat(":2, swx:2 ", TARGET.NETWORK)'})]
    one = planned_site(site(NETWORKS))
    read = demand(*jobs, concurrency_limits={"maxima": maxima, "used": used})
    result = make_plan(read, supply(), [one], NOW, 900, explain="a")
    assert {item.entry: item.present for item in result["plan"]} == present
    assert [row["reason"] for row in result["unserved"]] == ([reason] if reason else [])
    assert ("concurrency limit" in result["explanation"][0]["reason"]) == bool(reason)


@pytest.mark.parametrize(
    "installed, sample, present",
    [
        (["23.9.6 EL9"], None, 9),
        (["8.9.6 EL9"], None, 0),
        (["23.9.6 EL8"], None, 0),
        (["23.9.6 EL9", "8.9.6 EL9"], None, 1),
        (["23.9.6 EL9", "23.9.6 EL8"], None, 1),
        ([], None, 1),
        # The tarball was renewed after the glidein of the sample had started.
        (["23.9.6 EL9"], {"CondorVersion": "$CondorVersion: 8.8.1 2019-01-01 $"}, 9),
        (["23.9.6 EL9"], {"CondorVersion": "$CondorVersion: 23.9.6 2026-07-12 PackageID: 1 $"}, 9),
    ],
)
def test_version_and_platform_of_htcondor_are_those_of_the_tarball(installed, sample, present):
    reading = dict(queue(), htcondor=[build.split() for build in installed])
    known = [supplied(sample=sample)] if sample else []
    # VERSION is what condor_submit adds for checkpoint_exit_code.
    jobs = [group("a", 9, requirements=f'{DEFAULT} && {VERSION} && TARGET.CondorPlatform == "$CondorPlatform: EL9 $"')]
    result = make_plan(demand(*jobs), supply(*known), [planned_site(site(), reading)], NOW, 900)
    assert [item.present for item in result["plan"]] == [present]


OLD = {"CondorVersion": "$CondorVersion: 23.9.6 2026-07-12 $", "HasFileTransfer": True}
CURL = "http,https,ftp,file,dav,davs"


@pytest.mark.parametrize(
    "installed, sample, registered, present",
    [
        # The glidein of the sample had another tarball; another one shows what the tarball of today has.
        (["25.0.1 EL9"], OLD, 0, 1),
        (["25.0.1 EL9"], OLD, 1, 0),
        # The plug-in is missing in the tarball of today, or does not work on the site's nodes.
        (["23.9.6 EL9"], OLD, 0, 0),
        (["25.0.1 EL9", "23.9.6 EL8"], OLD, 0, 0),
        ([], OLD, 0, 0),
        # An upgrade of HTCondor does not lose the plug-in.
        (["25.0.1 EL9"], dict(OLD, HasFileTransferPluginMethods=CURL), 0, 9),
        (["23.9.6 EL9"], dict(OLD, HasFileTransferPluginMethods=CURL), 0, 9),
    ],
)
def test_a_glidein_of_an_older_tarball_does_not_show_that_a_new_one_lacks_plug_ins(
    installed, sample, registered, present
):
    counts = {("main", "core"): {"running": registered}}
    reading = dict(queue(counts), htcondor=[build.split() for build in installed])
    # condor_submit adds it for URLs in transfer_input_files.
    requirements = f'{DEFAULT} && stringListIMember("https", TARGET.HasFileTransferPluginMethods)'
    known = [supplied(sample=sample, registered=registered)]
    jobs = [group("a", 9, requirements=requirements)]
    result = make_plan(demand(*jobs), supply(*known), [planned_site(site(), reading)], NOW, 900)
    assert [item.present - item.running for item in result["plan"]] == [present]
    reason = str(result["unserved"])
    assert ("the first glidein of an entry shows whether" in reason) == (present == 1 or bool(registered))


@pytest.mark.parametrize(
    "expressions",
    [{"ConcurrencyLimits": "TARGET.NETWORK"}, {"RequestMemory": "TARGET.Share * 1000"}, {"Longest": "TARGET.Share"}],
)
def test_one_glidein_finds_out_a_request_run_time_or_limit(expressions):
    jobs = [group("a", 5, expressions=expressions, runtime_attributes=["Longest"])]
    present, result = plan_of(jobs)
    assert present == {"a": 1, "b": 1}
    assert "the first glidein of the entry shows" in result["explanation"][0]["reason"]
    sample = {"NETWORK": "x", "Share": 1}
    assert sum(plan_of(jobs, known=[supplied("a", sample=sample), supplied("b", sample=sample)])[0].values()) == 5
