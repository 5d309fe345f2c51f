# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of facts of PBS Professional, from recorded output of OpenPBS 23.06.06."""

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbs import facts as pbs
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbspro import facts as pbspro
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.recorded_site import RecordedSite, refused, replaced, unchanged

PBS = RecordedSite(pbspro, "openpbs_23.06.06_discovery.txt")


def test_version_server_and_limits():
    facts, gaps = PBS.read()
    assert gaps == []
    assert (facts["version"], facts["cluster"]) == ("23.06.06", "pbs")
    assert facts["limits"]["max_array"] == 10000
    assert (facts["limits"]["max_queued"], facts["limits"]["max_running"]) == (1000, 100)
    assert facts["accounts"] == []
    assert facts["gpu_request"] == "ngpus"


ROUTED = "from_route_only=True: its jobs come through the route queue route"
CLOSED = ["enabled=False: it takes no jobs", "started=False: it starts no jobs"]
DESTINATIONS = "route_destinations=secret,closed@pbs,other@elsewhere"
OF_SERVER = replaced("(    server_state = )", r"    acl_user_enable = True\n    acl_users = alice\n\1", "-Bf")
OF_LONG, OF_PHYSICS = (1, 1, 32, 65536, None, 2, "a100", []), (1, 0, 128, 262144, None, 0, None, [])
# (queue, change, user, {key: value})
QUEUES = [
    (
        "gpuq",
        unchanged,
        None,
        {
            "problems": [],
            "walltime_s": 48 * 3600,
            "source walltime_s": "qstat -Qf: resources_max.walltime=48:00:00",
            "max_cpus_per_job": 128,
            "max_nodes_per_job": 2,
            "max_queued": 20,
            # The user's own limit replaces the generic one: max_run = [u:PBS_GENERIC=4] and, in another line,
            # [u:glidein=8].
            "max_running": 8,
            "nodes": [(2, 0, 64, 515199, None, 4, "a100", [])],
        },
    ),
    ("gpuq", unchanged, "alice", {"max_running": 4, "problems": []}),
    # The limit on all jobs holds for one user.
    ("gpuq", replaced("PBS_ALL=500", "PBS_ALL=15"), None, {"max_queued": 15}),
    (
        "workq",
        unchanged,
        None,
        {"walltime_s": 240 * 3600, "source walltime_s": "qstat -Bf: resources_max.walltime=240:00:00"},
    ),
    # OpenPBS accepted a job in physicsq, because it compares all groups of the user.
    ("physicsq", unchanged, None, {"max_memory_per_job_mb": 200 * 1024, "problems": []}),
    ("closed", unchanged, None, {"problems": CLOSED}),
    ("secret", unchanged, None, {"problems": ["acl_groups=chemistry: glidein is in none of them"]}),
    ("secret", refused("id"), None, {"problems": []}),
    ("short", unchanged, None, {"problems": [ROUTED]}),
    ("gpuq", unchanged, "bob", {"problems": ["acl_users=alice@pbs,glidein: bob is not in it"]}),
    # A list may name a user to refuse.
    (
        "gpuq",
        replaced("alice@pbs,glidein", "-glidein,+"),
        None,
        {"problems": ["acl_users=-glidein,+: glidein is not in it"]},
    ),
    ("gpuq", replaced("alice@pbs,glidein", "-bob,+"), None, {"problems": []}),
    ("workq", OF_SERVER, None, {"problems": ["acl_users=alice: glidein is not in it"]}),
    # A route queue has the nodes and the largest walltime of its destinations.
    (
        "route",
        unchanged,
        None,
        {
            "problems": [],
            "default": True,
            "walltime_s": 96 * 3600,
            "source walltime_s": "qstat -Qf: resources_max.walltime=96:00:00 of long",
        },
    ),
    (
        "route",
        replaced("route_destinations = short,long", DESTINATIONS.replace("=", " = ")),
        None,
        {"problems": [f"{DESTINATIONS}: none of them takes the user's jobs"]},
    ),
    (
        "gpuq",
        replaced("    resources_min.walltime = 00:10:00", "    resources_min.nodect = 4"),
        None,
        {"problems": ["resources_min.nodect=4: a glidein uses one node"]},
    ),
    (
        "long",
        replaced("default_chunk.Qlist = long", "default_chunk.Qlist = gone"),
        None,
        {"problems": [ROUTED, "nodes: it has none (pbsnodes -a)"]},
    ),
    ("gpuq", refused("pbsnodes"), None, {"walltime_s": 48 * 3600, "nodes": []}),
    # default_chunk.Qlist = long; the node pbs has Qlist = workq,short,long.
    ("long", unchanged, None, {"nodes": [OF_LONG]}),
    ("route", unchanged, None, {"nodes": [OF_LONG]}),
    ("physicsq", unchanged, None, {"nodes": [OF_PHYSICS]}),
    # workq has no Qlist, and has also the nodes of no queue.
    ("workq", unchanged, None, {"nodes": [OF_PHYSICS, OF_LONG]}),
    # The vnodes of a host are one node.
    (
        "gpuq",
        replaced("resources_available.host = gpu02", "resources_available.host = gpu01"),
        None,
        {"nodes": [(1, 0, 128, 1030398, None, 8, "a100", [])]},
    ),
    *(
        ("long", replaced("default_shared", sharing), None, {"whole_nodes": whole})
        for sharing, whole in (
            ("default_shared", False),
            ("ignore_excl", False),
            ("default_excl", True),
            ("default_exclhost", True),
            ("force_exclhost", True),
        )
    ),
]


@pytest.mark.parametrize("name, change, user, expected", QUEUES, ids=[f"{case[0]}-{min(case[3])}" for case in QUEUES])
def test_queues(name, change, user, expected):
    assert PBS.known(name, expected, change, user) == expected


def test_resources_with_names_as_values_are_features():
    change = replaced("(     resources_available.vnode = pbs\n)", r"\1     resources_available.ib = edr,hdr\n")
    assert PBS.queue("long", change)["node_groups"][0]["features"] == ["ib=edr", "ib=hdr"]


def test_resources_that_name_single_racks_are_not_features():
    vnodes = "".join(
        f"n{number}\n     state = free\n     resources_available.host = n{number}\n"
        f"     resources_available.ncpus = 8\n     resources_available.rack = r{number}\n\n"
        for number in range(20)
    )
    groups = PBS.queue("closed", lambda argv, output: vnodes if argv[0] == "pbsnodes" else output)["node_groups"]
    assert [(group["nodes"], group["features"]) for group in groups] == [(20, [])]


def test_the_notice_before_the_kill_is_known_if_all_usable_queues_set_it():
    assert PBS.facts()["limits"]["grace_s"] is None  # only the kill_delay of workq

    def change(argv, output):
        without = output.replace("    kill_delay = 60\n", "")
        return without.replace("queue_type = Execution\n", "queue_type = Execution\n    kill_delay = 45\n")

    assert PBS.facts(change)["limits"]["grace_s"] == 45


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("resources_max.walltime = 48:00:00", "resources_max.walltime = soon"),
        (r"max_run = \[u:glidein=8\]", "max_run = 8 or so"),
        ("resources_max.mem = 200gb", "resources_max.mem = much"),
    ],
)
def test_an_invalid_value_names_its_line(old, new):
    facts, gaps = PBS.read(replaced(old, new, "-Qf"))
    assert facts["queues"] == []
    assert new.split(" = ")[1] in gaps[0]["error"]


def test_words_of_notices_are_not_records():
    text = "Welcome\n\nQueue: workq\n    enabled = True\nthe end of maintenance\n\nGoodbye\n"
    assert [record.name for record in pbs.parse_records(text)] == ["workq"]


def test_output_without_a_record_is_refused():
    with pytest.raises(OutputError, match="segmentation fault"):
        pbs.parse_records("segmentation fault in qstat\n")
    with pytest.raises(OutputError, match="orphan"):
        pbs.parse_records("    orphan = 1\n")


def test_a_long_value_is_continued_after_a_tab():
    record = pbs.parse_records("Queue: q\n    acl_users = alice,b\n\tob,carol\n    enabled = True\n")[0]
    assert pbs.items(record, "acl_users") == ["alice", "bob", "carol"]
