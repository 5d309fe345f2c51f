# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import COMPLETING, QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, InputError, OutputError
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).resolve().parent / "recorded"
RUNNING_JOB = (RECORDED / "torque_6.1.3_qstat_running.xml").read_text()
START = 1795213091  # times of the recorded job

torque = make_scheduler("torque")


NAME = "g5bf7a-7eb8c79c"


def job(job_id="12.pbshost", letter="Q", **changes):
    """Return the recorded job with changes; None removes an attribute."""
    text = RUNNING_JOB[RUNNING_JOB.index("<Job>") : RUNNING_JOB.index("</Data>")]
    changes = dict({"Job_Id": job_id, "Job_Name": NAME, "job_state": letter, "comment": None}, **changes)
    for key, value in changes.items():
        before, opening, rest = text.partition(f"<{key}>")
        after = rest.partition(f"</{key}>")[2]
        assert opening, key
        text = before + ("" if value is None else f"<{key}>{value}</{key}>") + after
    return text


def printed(*jobs):
    return f'<?xml version="1.0"?>\n<Data>{"".join(jobs)}</Data>\n'


def parsed(*jobs):
    return torque.parse_list(printed(*jobs), "pbsuser")


def test_a_recorded_job_is_read():
    assert [tuple(found)[:8] for found in torque.parse_list(RUNNING_JOB, "pbsuser")] == [
        ("0.pbshost", "0.pbshost", "demo", RUNNING, False, "", START, START)
    ]


def test_a_task_belongs_to_its_array_and_has_its_name():
    # Task 2 of an array named arr was recorded as arr-2.
    found = parsed(job("12[2].pbshost", Job_Name="g5bf7a-7eb8c79c-2"), job("12.pbshost", Job_Name="arr-12"))
    assert [(one.id, one.submission, one.name) for one in found] == [
        ("12[2].pbshost", "12[].pbshost", "g5bf7a-7eb8c79c"),
        ("12.pbshost", "12.pbshost", "arr-12"),
    ]


def test_an_empty_queue_has_no_jobs():
    assert torque.parse_list('<?xml version="1.0"?>\n<Data></Data>\n', "pbsuser") == []


@pytest.mark.parametrize(
    "letter, common, cancellable",
    [
        ("Q", QUEUED, True),
        ("T", QUEUED, True),
        ("W", QUEUED, True),
        ("H", SICK, True),
        ("R", RUNNING, False),
        ("E", COMPLETING, False),
        ("S", SICK, False),
    ],
)
def test_states_are_mapped(letter, common, cancellable):
    found = parsed(job(letter=letter))[0]
    assert (found.state, found.cancellable, found.started) == (common, cancellable, None if cancellable else START)


def test_a_job_that_is_complete_is_not_in_the_queue():
    assert parsed(job(letter="C")) == []


@pytest.mark.parametrize("holds", ["a", "l", "al"])
def test_a_task_that_waits_for_the_others_of_its_array_is_queued(holds):
    assert parsed(job("12[7].pbshost", "H", Hold_Types=holds))[0].state == QUEUED


@pytest.mark.parametrize("holds", ["u", "o", "s", "us", "ul"])
def test_a_held_glidein_is_sick(holds):
    # qhold does not change the comment.
    found = parsed(job(letter="H", Hold_Types=holds, comment="Job started on Fri Nov 20 at 22:18"))[0]
    assert (found.state, found.reason) == (SICK, f"Hold_Types = {holds}")


@pytest.mark.parametrize(
    "value",
    ["a & b", "&#1;", "\x0eEOF", "&nbsp;", "a &amp; b", "a > b", "]]>", "\"'", "\x1b[0m", "\ufffe", "é", "&lt;Job&gt;"],
)
def test_unescaped_characters_of_torque_are_parsed(value):
    ours = job(comment=value)
    others = job("13.pbshost", Job_Owner="other@pbshost", Variable_List=value)
    assert [found.id for found in parsed(others, ours, others)] == ["12.pbshost"]


def test_a_comment_with_an_ampersand_stays_as_it_is():
    assert parsed(job(comment="a & b &amp; c"))[0].reason == "a & b & c"


@given(st.text(st.characters(blacklist_characters="<", blacklist_categories=("Cs",)), max_size=30))
def test_no_value_of_a_job_adds_or_hides_another(value):
    # Torque escapes "<" in its own way.
    others = job("13.pbshost", Job_Owner="other@pbshost", Variable_List=value)
    assert [found.id for found in parsed(others, job(Variable_List=value))] == ["12.pbshost"]


@pytest.mark.parametrize(
    "owner", ["pbsuser2@pbshost", "xpbsuser@pbshost", "pbsuser", "other@pbsuser", "PBSUSER@pbshost"]
)
def test_only_jobs_of_exactly_this_user_are_counted(owner):
    assert parsed(job(Job_Owner=owner)) == []


@pytest.mark.parametrize(
    "text",
    [
        "qstat: what?",
        "<Data>",
        "</Data><Data>",
        RUNNING_JOB.replace("</Data>", ""),
        RUNNING_JOB.replace("</Job>", ""),
        RUNNING_JOB + RUNNING_JOB,
        RUNNING_JOB.replace("<Data>", "<Data>x"),
        RUNNING_JOB.replace("<Data>", '<!DOCTYPE d [<!ENTITY e "x">]><Data>'),
        printed(job(Job_Owner=None)),
        printed(job(letter="")),
        printed(job(ctime=None)),
        printed(job(ctime="Fri Nov 20 22:18:11 2026")),
        printed(job(letter="R", start_time="-1")),
        printed(job("12-1.pbshost")),
        printed(job("12[].pbshost")),
        printed(job(Variable_List="<")),
    ],
)
def test_unparsable_output_is_an_error(text):
    with pytest.raises(OutputError, match="torque: cannot read "):
        torque.parse_list(text, "pbsuser")


def test_an_unreachable_server_is_not_an_empty_queue():
    stderr = (RECORDED / "torque_6.1.3_qstat_down.stderr").read_text()
    assert not torque.means_no_jobs(111, "", stderr)


def test_one_command_submits_any_number():
    assert torque.submit_argv("/home/a b/s.sh", "g", 500) == ["qsub", "-t", "1-500", "/home/a b/s.sh"]
    assert torque.submit_argv("/s", "g", None) == ["qsub", "/s"]
    assert torque.smallest_array == 1


def test_the_listing_requests_every_task_and_xml():
    assert torque.list_argv("me") == ["qstat", "-f", "-x", "-t"]


def test_running_glideins_are_cancelled_with_the_configured_grace_period():
    made = make_scheduler("torque", {"grace": 60})
    assert made.cancel_argv("me", ["5[1].s", "6.s"], False) == ["qdel", "5[1].s", "6.s"]
    assert made.cancel_argv("me", ["5[1].s", "6.s"], True) == ["qdel", "-W", "60", "5[1].s", "6.s"]


# As Torque 6.1.3 prints it.
@pytest.mark.parametrize(
    "stderr, ended",
    [
        ("qdel: nonexistent job id: 999\n", True),
        ("qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE 3.pbshost\n", True),
        ("qdel: nonexistent job id: 999\nqdel: Unauthorized Request  1.pbshost\n", False),
        ("qdel: cannot connect to server pbshost (errno=111) Connection refused\n", False),
        ("", False),
    ],
)
def test_only_removed_jobs_may_fail_to_be_cancelled(stderr, ended):
    assert torque.had_ended(CommandError("x", ["qdel"], 153, "", stderr)) is ended


def requests(**changes):
    entry = site({"main": raw_entry(**changes)})["entries"]["main"]
    return torque.requests(entry, entry["shapes"]["core"])


@pytest.mark.parametrize(
    "word, request_",
    [
        ("mem", ["mem=9999mb"]),
        ("vmem", ["vmem=9999mb"]),
        ("pmem", ["pmem=2500mb"]),
        ("pvmem", ["pvmem=2500mb"]),
        ("pmem+vmem", ["pmem=2500mb", "vmem=9999mb"]),
        ("mem+pvmem", ["mem=9999mb", "pvmem=2500mb"]),
        ("none", []),
    ],
)
def test_memory_is_requested_as_the_site_counts_it(word, request_):
    shapes = {"core": shape(cpus=4, memory_mb=9999)}
    assert requests(shapes=shapes, resources={"memory": word}) == ["nodes=1:ppn=4", *request_]


def test_a_site_sets_how_resources_are_requested():
    whole = {"core": shape(cpus=8, memory_mb=9999, gpus=2, gpu_type="a100", whole_node=True)}
    assert requests(shapes=whole, constraint="ib:fast", resources={"disk": "file"}, memory_overhead_mb=0) == [
        "nodes=1:ppn=8:ib:fast:a100:gpus=2",
        "mem=9999mb",
        "file=10000mb",
    ]
    nothing = dict.fromkeys(("memory", "disk", "gpus", "gpu_type"), "none")
    assert requests(shapes=whole, resources=nothing) == ["nodes=1:ppn=8"]


@pytest.mark.parametrize("word, there", [("n", True), ("none", False)])
def test_a_whole_node_is_requested_if_the_site_sets_how(word, there):
    entry = raw_entry(shapes={"core": shape(whole_node=True)}, resources={"whole_node": word})
    entry = site({"main": entry})["entries"]["main"]
    assert ("-n" in torque.directives(entry, entry["shapes"]["core"], "g", "/log")) is there


def test_the_output_of_pbs_itself_goes_to_a_file_of_each_job():
    entry = site()["entries"]["main"]
    lines = torque.directives(entry, entry["shapes"]["core"], "g1", "/a b")
    assert '-o "/a b/g1.${PBS_JOBID}.pbs.out"' in lines


@pytest.mark.parametrize(
    "resources",
    [
        {"memory": "ram"},
        {"memory": "pmem+none"},
        {"memory": "mem+mem"},
        {"disk": "a:b"},
        {"gpus": "ngpus"},
        {"gpu_type": "x"},
    ],
)
def test_invalid_words_are_refused(resources):
    with pytest.raises(InputError, match="glidein_entries.main.resources"):
        make_scheduler("torque", entries=site({"main": raw_entry(resources=resources)})["entries"])


def test_a_version_may_have_options_that_others_lack():
    entries = site({"main": raw_entry(directives=["-K 60"])})["entries"]
    assert make_scheduler("torque", {"grace": 60}, entries=entries).options["grace"] == 60
