# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of Grid Engine, from recorded output of Son of Grid Engine 8.1.9."""

import os

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import Reader
from ansible_collections.glidein.ops.plugins.module_utils.batch.gridengine import facts as sge
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import (
    RecordedSite,
    both,
    refused,
    replaced,
    unchanged,
)

SGE = RecordedSite(sge, "gridengine_8.1.9_discovery.txt")


def test_version_and_limits():
    facts, gaps = SGE.read()
    assert gaps == []
    assert facts["version"] == "8.1.9"
    assert facts["limits"]["max_array"] == 75000  # max_aj_tasks
    assert facts["limits"]["max_queued"] is None  # max_u_jobs 0
    assert facts["limits"]["max_running"] is None  # maxujobs 0
    assert facts["limits"]["grace_s"] == 60  # notify of the queues
    assert (facts["gpu_request"], facts["memory_request"]) == ("gpu", None)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("SGE 8.1.9\nusage: qconf", "8.1.9"),
        ("UGE 8.6.18\nusage", "8.6.18"),
        ("GE 6.2u5\nusage", "6.2u5"),
        ("OGS/GE 2011.11p1\n", "2011.11p1"),
    ],
)
def test_versions(text, version):
    assert sge.parse_version(text) == version


HARD_ON_ONE_HOST = replaced(r"168:00:00,\[node03=24:00:00\]", "168:00:00,[node03=INFINITY]", "-sq")
NO_SOFT_LIMIT = replaced("167:30:00", "INFINITY", "-sq")
PHYSICIST = replaced("glidein", "physics", "id")
CHEMISTS = replaced("acl NONE\nxacl", "acl chemists\nxacl", "-sprj")
PARALLEL = r"(qname +cpu.q\n(?:.*\n){9}qtype +).*"
NOT_IN_LIST = "user_lists=physicists: glidein is in none of them"
OF_LONG = [(2, 0, 16, 524288, None, 4, None, []), (1, 0, 32, 524288, None, 4, None, [])]
OF_LONG += [(1, 1, 4, 24105, None, 2, "a100", [])]
OF_CPU = (1, 1, 32, 24105, None, 2, "a100", [])
# (queue, change, {key: value})
QUEUES = [
    # The smaller of the hard and the soft limit: h_rt 168:00:00,[node03=24:00:00], s_rt 167:30:00
    ("long.q", unchanged, {"walltime_s": (167 * 60 + 30) * 60}),
    ("long.q", NO_SOFT_LIMIT, {"walltime_s": 168 * 3600, "source walltime_s": "qconf -sq long.q: h_rt=168:00:00"}),
    # Without a limit on one host, it is not limited.
    ("long.q", both(HARD_ON_ONE_HOST, NO_SOFT_LIMIT), {"walltime_s": None}),
    ("long.q", unchanged, {"max_memory_per_cpu_mb": 8192}),  # h_vmem
    ("cpu.q", unchanged, {"max_memory_per_cpu_mb": None, "problems": [], "accounts": None}),
    # GPUs are those of the host, not the free ones, and may be listed.
    ("long.q", unchanged, {"nodes": OF_LONG}),
    ("long.q", replaced("gpu=4", "gpu=4(0 1 2 3)", "-se"), {"nodes": OF_LONG}),
    ("cpu.q", replaced(r"(name='gpu' dominance='hc'>)[0-9.]+", r"\g<1>0.000000", "qhost"), {"nodes": [OF_CPU]}),
    ("cpu.q", refused("-se", "sge"), {"nodes": [(*OF_CPU[:5], None, *OF_CPU[6:])]}),
    # Environments that allot all slots on one host. mpi: $fill_up; smp: $pe_slots; six: 6, in no queue's list
    ("long.q", unchanged, {"parallel_environments": ["smp"]}),
    (
        "long.q",
        replaced(r"pe_name +smp\n(.*\n)user_lists +NONE", r"pe_name smp\n\1user_lists chemists", "-sp"),
        {"parallel_environments": []},
    ),
    ("inter.q", unchanged, {"problems": ["qtype=INTERACTIVE: it takes no batch jobs"]}),
    (
        "closed.q",
        unchanged,
        {"problems": ["state d: it starts no jobs on any host (d is disabled, u unreachable, E error)"]},
    ),
    # A queue of parallel jobs only needs a parallel environment.
    ("cpu.q", replaced(PARALLEL, r"\1NONE", "-sq"), {"problems": []}),
    (
        "cpu.q",
        replaced(PARALLEL + r"\n(.*\n)pe_list .*", r"\1NONE\n\2pe_list NONE", "-sq"),
        {"problems": ["qtype=NONE: it takes no batch jobs"]},
    ),
    # qmaster: "has no permission for cluster queue": physics is not the first group of this user
    ("long.q", unchanged, {"problems": [NOT_IN_LIST]}),
    ("long.q", replaced("@physics,alice", "@physics,glidein", "-su"), {"problems": []}),
    ("long.q", PHYSICIST, {"problems": []}),
    ("long.q", refused("-su"), {"problems": []}),
    # Lists of the whole cluster.
    (
        "cpu.q",
        replaced("user_lists +none\nx", "user_lists chemists\nx", "-sconf"),
        {"problems": ["user_lists=chemists: glidein is in none of them"]},
    ),
    # Projects are accounts.
    ("sub.q", unchanged, {"accounts": ["physics"]}),
    (
        "sub.q",
        CHEMISTS,
        {"accounts": [], "problems": ["projects=physics: glidein has access to none of them"]},
    ),
    ("cpu.q", replaced("enforce_project +false", "enforce_project true", "-sconf"), {"accounts": ["physics"]}),
]


@pytest.mark.parametrize("name, change, expected", QUEUES, ids=[f"{case[0]}-{min(case[2])}" for case in QUEUES])
def test_queues(name, change, expected):
    found = SGE.known(name, expected, change)
    if "source walltime_s" in found:
        found["source walltime_s"] = found["source walltime_s"][: len(expected["source walltime_s"])]
    assert found == expected


def test_limits_and_accounts_of_the_site():
    assert SGE.facts(replaced("max_u_jobs  +0", "max_u_jobs 300", "-sconf"))["limits"]["max_queued"] == 300
    assert SGE.facts(replaced("maxujobs  +0", "maxujobs 25", "-ssconf"))["limits"]["max_running"] == 25
    assert [(account["name"], account["problem"]) for account in SGE.facts()["accounts"]] == [("physics", None)]
    assert SGE.facts(CHEMISTS)["accounts"][0]["problem"] == "acl=chemists: glidein is in none of them"
    assert SGE.queue("closed.q", PHYSICIST)["problems"][0] == "xuser_lists=physicists: glidein is in physicists"


def test_gpus_of_a_host_that_could_not_be_read_are_a_gap():
    assert SGE.gaps(refused("-se", "sge")) == ["GPUs of nodes"]


@pytest.mark.parametrize(
    ("name", "consumable", "memory"),
    [("h_vmem", "YES", "h_vmem"), ("h_vmem", "JOB", "h_vmem:job"), ("mem_free", "YES", "mem_free")],
)
def test_memory_that_is_counted_is_enforced(name, consumable, memory):
    facts = SGE.facts(replaced(rf"(?m)^({name} .* YES +)NO ", rf"\g<1>{consumable} ", "-sc"))
    assert (facts["limits"]["memory_enforced"], facts["memory_request"]) == (True, memory)


def test_memory_that_is_not_counted_is_not_enforced():
    assert SGE.facts()["limits"]["memory_enforced"] is False
    assert SGE.facts(refused("-sc"))["limits"]["memory_enforced"] is None


def test_a_field_that_continues_after_a_backslash():
    text = SGE.output("qconf", "-se", "node01")
    assert "\\\n" in text
    assert sge.parse_object(text, "hostname")["complex_values"].endswith("num_proc=64, mem_total=512G")


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (sge.parse_queues, "h_rt 1:00:00\n"),
        (sge.parse_queues, "qname a\nh_rt soon\n"),
        (sge.parse_names, "no access here/\n"),
        (sge.parse_resources, "gpu gpu INT\n"),
        (sge.parse_hosts, "<qhost"),
        (sge.parse_hosts, "<!DOCTYPE a><qhost/>"),
        (sge.parse_hosts, "<qhost><host name='a'><queue name='q'/></host></qhost>"),
        (sge.parse_configuration, "#global:\nexecd_spool_dir /x\nmax_aj_tasks many\n"),
        (sge.parse_version, "error: commlib error\n"),
        (sge.parse_capacity(["gpu"]), "hostname a\ncomplex_values gpu=some\n"),
    ],
)
def test_invalid_output_is_refused(parse, text):
    with pytest.raises(OutputError):
        parse(text)


def test_a_missing_kind_of_object_is_not_a_gap():
    # qconf exits with 1 and prints this (recorded).
    script = 'case "$2" in -sprjl) echo "no project list defined" >&2; exit 1;; esac; exit 3'
    commands = dict.fromkeys(("qconf", "qhost", "id"), ["/bin/sh", "-c", script, "sh", "qconf"])
    reader = Reader(dict(os.environ), commands, 120)
    assert sge.read(reader, "glidein")["accounts"] == []
    assert "projects" not in [gap["what"] for gap in reader.gaps]
    assert "queues" in [gap["what"] for gap in reader.gaps]
