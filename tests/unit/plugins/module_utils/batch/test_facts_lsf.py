# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of LSF, from recorded output of Volclava 2.2 and from IBM's documentation."""

import re

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf import facts as lsf
from ansible_collections.glidein.ops.plugins.module_utils.batch.lsf import facts_output as lsf_output
from ansible_collections.glidein.ops.plugins.module_utils.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import RecordedReader
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import (
    RecordedSite,
    refused,
    replaced,
)

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
    assert (limits["max_array"], limits["max_running"], limits["grace_s"]) == (1000, 40, 30)


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
    found = lsf_output.parse_cluster(f"{line}\n\nMy cluster name is c1\nMy master name is vm\n")
    assert found == (product, version, "c1")


def test_the_maximum_not_the_default_is_the_walltime():
    queue = LSF.queue("long")  # RUNLIMIT = 24:0 168:0
    assert queue["walltime_s"] == 168 * 3600
    assert queue["sources"]["walltime_s"] == "bqueues -l: RUNLIMIT"
    assert LSF.queue("batchonly")["walltime_s"] == 90 * 60
    assert LSF.queue("normal")["walltime_s"] is None


def test_other_limits_of_a_queue():
    queue = LSF.queue("long")
    assert (queue["max_running"], queue["max_cpus_per_job"]) == (5, 16)  # UJOB_LIMIT, PROCLIMIT = 1 4 16
    assert queue["max_memory_per_job_mb"] == 825032704 // 1024  # as Volclava prints it


def test_a_table_of_several_limits():
    table = " CPULIMIT            RUNLIMIT           TASKLIMIT\n 180.0 min of hostA  240.0 min of hostA 1 8\n"
    change = replaced(" RUNLIMIT                \n 90.0 min                \n", table, "-l")
    queue = LSF.queue("batchonly", change)
    assert (queue["walltime_s"], queue["max_cpus_per_job"]) == (240 * 60, 8)


def test_a_table_of_sizes():
    table = " FILELIMIT DATALIMIT MEMLIMIT\n  20000 K   20000 K    1.5 G\n"
    change = replaced(" RUNLIMIT                \n 90.0 min                \n", table, "-l")
    assert LSF.queue("batchonly", change)["max_memory_per_job_mb"] == 1536


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("normal", []),
        ("long", []),  # glidein is in the group physicists
        ("chem", ["USERS: glidein is not in it (bqueues -u glidein)"]),
        ("inter", ["SCHEDULING POLICIES: ONLY_INTERACTIVE: it takes no batch jobs"]),
        ("closed", ["STATUS=Closed:Active: it takes no jobs"]),
        ("batchonly", []),
    ],
)
def test_queues_that_refuse_the_user(name, problems):
    assert LSF.queue(name)["problems"] == problems


def test_an_inactive_queue_is_a_problem_unless_its_time_window_is_closed():
    assert LSF.queue("normal", replaced("Open:Active", "Open:Inact_Adm", "-l"))["problems"]
    assert LSF.queue("normal", replaced("Open:Active", "Open:Inact_Win", "-l"))["problems"] == []


def test_the_default_queue():
    assert [queue["name"] for queue in LSF.facts()["queues"] if queue["default"]] == ["normal"]


def test_nodes_of_a_queue():
    # HOSTS: farm/ lsf+2; HJOB_LIMIT = 4, PJOB_LIMIT = 2
    groups = LSF.queue("long")["node_groups"]
    assert sum(group["nodes"] for group in groups) == 3
    assert groups[0] == {
        "nodes": 1,
        "usable_nodes": 1,
        "cpus": 2,
        "memory_mb": 24105,
        "disk_mb": None,
        "gpus": 0,
        "gpu_type": None,
        "features": ["cs"],
    }
    assert sum(group["nodes"] for group in LSF.queue("chem")["node_groups"]) == 1  # HOSTS: lsf


@pytest.mark.parametrize(
    ("hosts", "number"),
    [("all", 3), ("all ~node01", 2), ("farm/", 2), ("all ~farm/", 1), ("node01+1 others", 1), ("none", 0)],
)
def test_the_hosts_of_a_queue(hosts, number):
    change = replaced("HOSTS:  farm/ lsf.2", f"HOSTS:  {hosts}", "-l")
    assert sum(group["nodes"] for group in LSF.queue("long", change)["node_groups"]) == number


def test_a_queue_without_hosts_is_a_problem():
    change = replaced("HOSTS:  farm/ lsf.2", "HOSTS:  gone", "-l")
    assert LSF.queue("long", change)["problems"] == ["HOSTS: gone: none of them is in bhosts"]


def test_groups_that_contain_each_other_end():
    change = replaced("farm .*", "farm  node01 more/\nmore  farm/ node02", "bmgroup")
    assert sum(group["nodes"] for group in LSF.queue("long", change)["node_groups"]) == 3


def test_a_limit_on_the_slots_of_a_host_limits_its_cores():
    change = replaced("(lsf +ok +- +)2", r"\g<1>64", "bhosts")
    assert LSF.queue("long", change)["node_groups"][0]["cpus"] == 4  # JL/H
    assert LSF.queue("normal", change)["node_groups"][0]["cpus"] == 64


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


def test_without_node_sizes_the_slots_are_used():
    group = LSF.queue("chem", refused("lshosts"))["node_groups"][0]
    assert (group["cpus"], group["memory_mb"]) == (2, None)


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (lsf_output.parse_cluster, "LIM is down; try later\n"),
        (lsf_output.parse_queues, "LSF is down. Please wait ...\n"),
        (lsf_output.parse_queues, "QUEUE: normal\n  -- none\n"),
        (lsf_output.parse_queues, "QUEUE: q\nPRIO STATUS\n 1 Open:Active\n RUNLIMIT\n for ever\n"),
        (lsf_output.parse_queues, "QUEUE: q\nPRIO STATUS JL/P\n 1 Open:Active some\n"),
        (lsf_output.parse_slots, "lsf ok - 2\n"),
        (lsf_output.parse_slots, "HOST_NAME STATUS MAX\nlsf ok two\n"),
        (lsf_output.parse_sizes, "HOST_NAME type model cpuf ncpus maxmem\nlsf linux I5 100.0 2 lots\n"),
        (lsf_output.parse_user_limits("me"), "USER/GROUP JL/P MAX\nyou - 5\n"),
        (lsf_output.parse_parameters, "bparams: nothing\n"),
        (lsf_output.parse_gpus, "HOST_NAME gpu_id\n  orphan\n"),
    ],
)
def test_invalid_output_is_refused(parse, text):
    with pytest.raises(OutputError):
        parse(text)
