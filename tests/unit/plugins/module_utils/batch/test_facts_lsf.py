# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of LSF, from recorded output of Volclava 2.2 and from IBM's documentation."""

import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf import facts as lsf
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import RecordedReader
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import RecordedSite, refused, replaced, unchanged

LSF = RecordedSite(lsf, "volclava_2.2_discovery.txt")
# Spectrum LSF 10.1: lsid, lshosts -gpu.
IBM = "IBM Spectrum LSF Standard 10.1.0.12, Jun 10 2021"
GPUS = """\
HOST_NAME   gpu_id       gpu_model   gpu_driver   gpu_factor      numa_id
lsf              0 TeslaV100_SXM2_32GB   450.51.06          7.0            0
                 1 TeslaV100_SXM2_32GB   450.51.06          7.0            1
node01           -               -            -            -            -
"""


@pytest.fixture
def product(tmp_path):
    """Return a function that returns the recorded cluster with another product's name. change: see RecordedReader."""

    def make(first_line):
        text = LSF.path.read_text().replace("volclava project 2.2, Nov 22 2026", first_line)
        if first_line.startswith("IBM"):
            text = re.sub(r"(?s)(\$ lshosts -gpu\n).*?\[rc=255\]", rf"\g<1>{GPUS}[rc=0]", text)
            text = text.replace("$ bparams -a\n", "$ bparams refused\n").replace("$ bparams -l\n", "$ bparams -a\n")
        path = tmp_path / "lsf.txt"
        path.write_text(text)
        return RecordedSite(lsf, path)

    return make


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("LSF_ENVDIR", "/opt/volclava/etc")


def test_the_directory_of_lsf_conf_is_that_of_the_login_shell():
    reader = RecordedReader(LSF.path)
    reader.environment = {"LSF_ENVDIR": "/sw/lsf/conf"}  # the module's own process has a different environment
    lsf.read(reader, "glidein")
    assert ["cat", "/sw/lsf/conf/lsf.conf"] in reader.asked


def test_version_cluster_and_limits():
    facts, gaps = LSF.read()
    assert gaps == []
    assert (facts["version"], facts["cluster"], facts["gpu_request"]) == ("2.2", "volclava", None)
    limits = facts["limits"]
    assert (limits["max_array"], limits["max_running"], limits["grace_s"]) == (1000, 40, 2 * 30)


@pytest.mark.parametrize(
    ("line", "product", "version"),
    [
        (IBM, "IBM Spectrum LSF Standard", "10.1.0.12"),
        ("Platform LSF 9.1.3.0, Jul 04 2014", "Platform LSF", "9.1.3.0"),
        ("OpenLava 4.0dev4, Nov 20 2026", "OpenLava", "4.0dev4"),  # recorded
        ("volclava project 2.2, Nov 22 2026", "volclava", "2.2"),  # recorded
    ],
)
def test_versions(line, product, version):
    found = lsf.parse_cluster(f"{line}\n\nMy cluster name is c1\nMy master name is vm\n")
    assert found == (product, version, "c1")


def of_batchonly(table):
    """Return a `change` of the table of limits of the queue batchonly."""
    return replaced(" RUNLIMIT                \n 90.0 min                \n", table, "-l")


LIMITS = " CPULIMIT            RUNLIMIT           TASKLIMIT\n 180.0 min of hostA  240.0 min of hostA 1 8\n"
SIZES = " FILELIMIT DATALIMIT MEMLIMIT\n  20000 K   20000 K    1.5 G\n"
# (queue, change, {key: value})
QUEUES = [
    # The maximum, not the default: RUNLIMIT = 24:0 168:0. UJOB_LIMIT; PROCLIMIT = 1 4 16. Glidein is in physicists.
    (
        "long",
        unchanged,
        {
            "default": False,
            "problems": [],
            "walltime_s": 168 * 3600,
            "source walltime_s": "bqueues -l: RUNLIMIT",
            "max_running": 5,
            "max_cpus_per_job": 16,
            "max_memory_per_job_mb": 825032704 // 1024,  # as Volclava prints it
        },
    ),
    ("batchonly", unchanged, {"default": False, "walltime_s": 90 * 60, "problems": []}),
    ("batchonly", of_batchonly(LIMITS), {"walltime_s": 240 * 60, "max_cpus_per_job": 8}),
    ("batchonly", of_batchonly(SIZES), {"max_memory_per_job_mb": 1536}),
    ("normal", unchanged, {"default": True, "walltime_s": None, "problems": []}),
    ("chem", unchanged, {"problems": ["USERS: glidein is not in it (bqueues -u glidein)"]}),
    ("inter", unchanged, {"problems": ["SCHEDULING POLICIES: ONLY_INTERACTIVE: it takes no batch jobs"]}),
    ("closed", unchanged, {"problems": ["STATUS=Closed:Active: it takes no jobs"]}),
    # An inactive queue is a problem unless its time window is closed.
    (
        "normal",
        replaced("Open:Active", "Open:Inact_Adm", "-l"),
        {"problems": ["STATUS=Open:Inact_Adm: it starts no jobs"]},
    ),
    ("normal", replaced("Open:Active", "Open:Inact_Win", "-l"), {"problems": []}),
    (
        "long",
        replaced("HOSTS:  farm/ lsf.2", "HOSTS:  gone", "-l"),
        {"problems": ["HOSTS: gone: none of them is in bhosts"]},
    ),
]


@pytest.mark.parametrize("name, change, expected", QUEUES, ids=[f"{case[0]}-{min(case[2])}" for case in QUEUES])
def test_queues(name, change, expected):
    assert LSF.known(name, expected, change) == expected


@pytest.mark.parametrize(
    ("hosts", "number"),
    [("all", 3), ("all ~node01", 2), ("farm/", 2), ("all ~farm/", 1), ("node01+1 others", 1), ("none", 0)],
)
def test_the_hosts_of_a_queue(hosts, number):
    change = replaced("HOSTS:  farm/ lsf.2", f"HOSTS:  {hosts}", "-l")
    assert sum(group["nodes"] for group in LSF.queue("long", change)["node_groups"]) == number


def test_nodes_of_a_queue():
    # HOSTS: farm/ lsf+2; HJOB_LIMIT = 4, PJOB_LIMIT = 2
    nodes = LSF.known("long", ["nodes"])["nodes"]
    assert nodes[0] == (1, 1, 2, 24105, None, 0, None, ["cs"])
    assert sum(group[0] for group in nodes) == 3
    assert sum(group["nodes"] for group in LSF.queue("chem")["node_groups"]) == 1  # HOSTS: lsf
    # Groups may contain each other.
    circle = replaced("farm .*", "farm  node01 more/\nmore  farm/ node02", "bmgroup")
    assert sum(group["nodes"] for group in LSF.queue("long", circle)["node_groups"]) == 3
    # A limit on the slots of a host limits its cores.
    slots = replaced("(lsf +ok +- +)2", r"\g<1>64", "bhosts")
    assert LSF.queue("long", slots)["node_groups"][0]["cpus"] == 4  # JL/H
    assert LSF.queue("normal", slots)["node_groups"][0]["cpus"] == 64
    # Without sizes of nodes, the slots are used.
    group = LSF.queue("chem", refused("lshosts"))["node_groups"][0]
    assert (group["cpus"], group["memory_mb"]) == (2, None)


@pytest.mark.parametrize(
    ("first_line", "setting", "unit"),
    [
        (IBM, "", "explicit"),
        ("Platform LSF 9.1.3.0, Jul 04 2014", "", "KB"),
        ("Platform LSF 9.1.3.0, Jul 04 2014", "LSF_UNIT_FOR_LIMITS=GB\n", "GB"),
        ("OpenLava 4.0dev4, Nov 20 2026", "", "KB"),
        ("volclava project 2.2, Nov 22 2026", "", "MB"),
        ("volclava project 2.2, Nov 22 2026", 'LSF_UNIT_FOR_LIMITS = "KB"\n', "KB"),
    ],
)
def test_the_unit_of_memory_limits(product, first_line, setting, unit):
    site = product(first_line)
    found = site.facts(lambda argv, output: setting + output if argv[0] == "cat" else output)
    assert found["limits"]["memory_unit"] == unit


def test_gpus_of_ibms_lsf(product):
    facts, gaps = product(IBM).read()
    assert gaps == []
    assert facts["gpu_request"] == "gpu"
    group = next(queue for queue in facts["queues"] if queue["name"] == "chem")["node_groups"][0]
    assert (group["gpus"], group["gpu_type"]) == (2, "TeslaV100_SXM2_32GB")


def test_each_product_gets_only_supported_options(product):
    volclava, ibm = LSF.commands(), product(IBM).commands()
    openlava = product("OpenLava 4.0dev4, Nov 20 2026").commands()
    assert {("bparams", "-l"), ("busers", "-w", "glidein")} < set(volclava)
    assert {("bparams", "-a"), ("busers", "-w", "glidein"), ("lshosts", "-gpu")} < set(ibm)
    assert {("bparams", "-l"), ("busers", "glidein")} < set(openlava)
    assert ("lshosts", "-gpu") not in volclava + openlava


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (lsf.parse_cluster, "LIM is down; try later\n"),
        (lsf.parse_queues, "LSF is down. Please wait ...\n"),
        (lsf.parse_queues, "QUEUE: normal\n  -- none\n"),
        (lsf.parse_queues, "QUEUE: q\nPRIO STATUS\n 1 Open:Active\n RUNLIMIT\n for ever\n"),
        (lsf.parse_queues, "QUEUE: q\nPRIO STATUS JL/P\n 1 Open:Active some\n"),
        (lsf.parse_slots, "lsf ok - 2\n"),
        (lsf.parse_slots, "HOST_NAME STATUS MAX\nlsf ok two\n"),
        (lsf.parse_sizes, "HOST_NAME type model cpuf ncpus maxmem\nlsf linux I5 100.0 2 lots\n"),
        (lsf.parse_user_limits("me"), "USER/GROUP JL/P MAX\nyou - 5\n"),
        (lsf.parse_parameters, "bparams: nothing\n"),
        (lsf.parse_gpus, "HOST_NAME gpu_id\n  orphan\n"),
    ],
)
def test_invalid_output_is_refused(parse, text):
    with pytest.raises(OutputError):
        parse(text)
