# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import (
    COMPLETING,
    QUEUED,
    RUNNING,
    SICK,
    array_sizes,
)
from ansible_collections.glidein.ops.plugins.module_utils.batch.pbspro.commands import STATES
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, InputError, OutputError
from ansible_collections.glidein.ops.tests.unit.support import fake_pbspro
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from ansible_collections.glidein.ops.tests.unit.support.growth import SCALE, assert_linear
from hypothesis import given
from hypothesis import strategies as st

RECORDED = Path(__file__).resolve().parent / "recorded"
RUNNING_JOB = (RECORDED / "openpbs_23.06.06_qstat_running.json").read_text()
CUT = (RECORDED / "openpbs_23.06.06_qstat_array_cut.json").read_text()
# The complete records of a recorded array of three: the array, and task 1, which is running.
_PARENT_AND_TASK = json.loads(CUT[: CUT.index(',\n\t\t"4[2].pbshost"')] + "}}")
NAME = "g5bf7a-7eb8c79c"
SUBMITTED = 1795211682  # date -u -d 'Fri Nov 20 21:54:42 2026' +%s

pbspro = make_scheduler("pbspro")


def document(*jobs):
    return json.dumps({"timestamp": 1, "pbs_version": "23.06.06", "pbs_server": "pbshost", "Jobs": dict(jobs)})


def job(job_id="5.pbshost", letter="Q", **changes):
    attributes = dict(RECORDED_TASK, Job_Name=NAME, job_state=letter, comment="", Hold_Types="n", **changes)
    return job_id, {key: value for key, value in attributes.items() if value is not None}


RECORDED_TASK = _PARENT_AND_TASK["Jobs"]["4[1].pbshost"]
RECORDED_ARRAY = _PARENT_AND_TASK["Jobs"]["4[].pbshost"]


def parsed(*jobs):
    return pbspro.parse_list(document(*jobs), "pbsuser")


def one(*arguments, **changes):
    return parsed(job(*arguments, **changes))[0]


def test_a_recorded_job_is_read():
    assert [tuple(found)[:8] for found in pbspro.parse_list(RUNNING_JOB, "pbsuser")] == [
        ("0.pbshost", "0.pbshost", "demo", RUNNING, False, "", 1795211616, 1795211616)
    ]


def test_the_tasks_of_a_recorded_array_are_counted_and_the_array_is_not():
    # For a waiting task, the server shows the array's attributes.
    waiting = dict(RECORDED_ARRAY, job_state="Q", array_id="4[].pbshost", array_index=3)
    found = parsed(("4[].pbshost", RECORDED_ARRAY), ("4[1].pbshost", RECORDED_TASK), ("4[3].pbshost", waiting))
    assert [tuple(job)[:8] for job in found] == [
        ("4[1].pbshost", "4[].pbshost", "arr", RUNNING, False, "", SUBMITTED, SUBMITTED),
        # The array's stime is the start of its first task.
        ("4[3].pbshost", "4[].pbshost", "arr", QUEUED, True, "", SUBMITTED, None),
    ]


def test_a_document_that_is_cut_off_is_an_error():
    with pytest.raises(OutputError, match="cannot read qstat's output"):
        pbspro.parse_list(CUT, "pbsuser")


def test_a_document_without_jobs_may_end_without_a_line_break():
    # As 23.06.06 prints it if the server has no jobs.
    empty = '{\n    "timestamp":1795369747,\n    "pbs_version":"23.06.06",\n    "pbs_server":"pbs"\n}'
    assert pbspro.parse_list(pbspro.complete_output(empty, ["qstat"]), "pbsuser") == []
    with pytest.raises(OutputError, match="was truncated"):
        pbspro.complete_output(empty[:-4], ["qstat"])


def test_an_array_without_its_tasks_is_an_error():
    with pytest.raises(OutputError, match="an array job without its tasks"):
        parsed(("4[].pbshost", dict(RECORDED_ARRAY, Job_Name=NAME)))


def test_an_empty_queue_is_recognised_by_the_exit_status():
    # The output is the same for an empty queue and for an unreachable server, but then the exit status is 255.
    down = (RECORDED / "openpbs_23.06.06_qstat_down.json").read_text()
    assert pbspro.parse_list(down, "pbsuser") == []
    stderr = (RECORDED / "openpbs_23.06.06_qstat_down.stderr").read_text()
    assert not pbspro.means_no_jobs(255, down, stderr)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "null",
        "pbshost:\nJob ID  Username\n",
        '{"pbs_version": "23", "Jobs": []}',
        '{"pbs_version": "23", "Jobs": {"5.pbshost": 1}}',
        document(job(Job_Owner=None)),
        document(job(ctime=None)),
        document(job(ctime="yesterday")),
        document(job(ctime="Fri Now 20 21:54:42 2026")),
        document(job(ctime="Fri Nov 20 25:54:42 2026")),
        document(job(letter="R", stime="-")),
        document(job(letter="")),
        document(job("x.y z")),
        document(job("5[1-3].pbshost")),
        RUNNING_JOB + RUNNING_JOB,
    ],
)
def test_unparsable_output_is_an_error(text):
    with pytest.raises(OutputError, match="pbspro: cannot read "):
        pbspro.parse_list(text, "pbsuser")


def test_an_unknown_state_of_another_users_job_does_not_matter():
    assert parsed(job(letter="Z", Job_Owner="other@pbshost")) == []


@pytest.mark.parametrize(
    "owner", ["pbsuser2@pbshost", "xpbsuser@pbshost", "pbsuser", "other@pbsuser", "PBSUSER@pbshost"]
)
def test_only_jobs_of_exactly_this_user_are_counted(owner):
    assert parsed(job(Job_Owner=owner)) == []


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
        ("U", SICK, False),
    ],
)
def test_states_are_mapped(letter, common, cancellable):
    found = one(letter=letter)
    assert (found.state, found.cancellable, found.started is None) == (common, cancellable, cancellable)


@pytest.mark.parametrize("letter", sorted(letter for letter, common in STATES.items() if common is None))
def test_a_job_that_has_ended_is_not_in_the_queue(letter):
    assert parsed(job(letter=letter)) == []


def test_a_glidein_that_can_never_start_is_sick_with_its_reason():
    # Recorded.
    comment = "Can Never Run: Insufficient amount of resource: mem (R: 1tb A: 24105mb T: 24105mb)"
    attributes = job()[1]
    found = parsed(("12.pbshost", dict(attributes, comment=comment)))[0]
    assert (found.state, found.reason, found.cancellable) == (SICK, comment, True)


def test_the_tasks_of_an_array_that_is_held_are_held():
    held = dict(RECORDED_ARRAY, job_state="H", Hold_Types="u", comment="")
    found = parsed(("4[].pbshost", held), ("4[2].pbshost", dict(held, job_state="Q")))[0]
    assert (found.state, found.reason) == (SICK, "Hold_Types = u")


def test_a_suspended_glidein_has_that_reason():
    assert one(letter="S").reason == "job_state = S"


# Up to PBS 20, qstat does not escape quotes and backslashes in values, and indents with blanks.
OLD = """\
{
    "timestamp":1795211619,
    "pbs_version":"19.1.3",
    "pbs_server":"pbshost",
    "Jobs":{
        "8.pbshost":{
            "Job_Name":"x",
            "Job_Owner":"other@pbshost",
            "job_state":"R",
            "ctime":"Fri Nov 20 21:54:42 2026",
            "Variable_List":{
                "A":"two "words" {",
                "job_state":"Q",
                "B":"C:\\dir",
                "N":nan
            },
            "Submit_arguments":"-v A="two words" \\x",
            "Submit_Host":"pbshost"
        },
        "9.pbshost":{
            "Job_Name":"g5bf7a-7eb8c79c",
            "Job_Owner":"pbsuser@pbshost",
            "job_state":"Q",
            "ctime":"Fri Nov 20 21:54:42 2026",
            "comment":"Not Running: "fast" is full",
            "Submit_Host":"pbshost"
        }
    }
}
"""


def test_another_users_unusual_variable_does_not_break_the_list():
    assert [tuple(found)[:8] for found in pbspro.parse_list(OLD, "pbsuser")] == [
        ("9.pbshost", "9.pbshost", "g5bf7a-7eb8c79c", QUEUED, True, 'Not Running: "fast" is full', SUBMITTED, None)
    ]
    assert [found.state for found in pbspro.parse_list(OLD, "other")] == [RUNNING]


@pytest.mark.parametrize("line", range(len(OLD.splitlines()) - 1))
def test_such_a_list_that_is_cut_off_is_an_error_too(line):
    with pytest.raises(OutputError):
        pbspro.parse_list("\n".join(OLD.splitlines()[: line + 1]), "pbsuser")


@given(st.text(st.characters(min_codepoint=32, blacklist_categories=("Cs",)), max_size=30), st.booleans())
def test_no_value_of_another_users_job_adds_a_job(value, escaped):
    printed = json.dumps(value) if escaped else '"' + value + '"'
    text = OLD.replace('"two "words" {"', printed)
    assert [found.id for found in pbspro.parse_list(text, "pbsuser")] == ["9.pbshost"]


def test_the_tasks_of_an_array_are_rerunnable_and_plain_jobs_are_not():
    assert pbspro.submit_argv("/home/a b/s.sh", "g", 500) == ["qsub", "-r", "y", "-J", "1-500", "/home/a b/s.sh"]
    assert pbspro.submit_argv("/s", "g", None) == ["qsub", "/s"]


def test_there_are_no_arrays_unless_the_operator_allows_them():
    assert array_sizes(3, None, pbspro.smallest_array) == [None, None, None]
    allowed = make_scheduler("pbspro", {"rerunnable_arrays": True})
    assert array_sizes(3, None, allowed.smallest_array) == [3]
    assert array_sizes(3, 2, allowed.smallest_array) == [2, None]


def test_the_listing_requests_every_task():
    assert pbspro.list_argv("me") == ["qstat", "-t", "-f", "-F", "json"]


@pytest.mark.parametrize("running", [False, True])
def test_cancelling_names_the_tasks(running):
    assert pbspro.cancel_argv("me", ["5[1].pbshost", "6.pbshost"], running) == ["qdel", "5[1].pbshost", "6.pbshost"]


# As OpenPBS 23.06.06 prints it.
@pytest.mark.parametrize(
    "stderr, ended",
    [
        ("qdel: Unknown Job Id 999.pbshost\n", True),
        ("qdel: Job has finished 23.pbshost\n", True),
        ("qdel: Unknown Job Id 1.pbshost\nqdel: Job has finished 2[3].pbshost\n", True),
        ("qdel: Unknown Job Id 1.pbshost\nqdel: Unauthorized Request  2.pbshost\n", False),
        ("Connection refused\nCouldn't connect to cluster: pbshost\n", False),
        ("", False),
    ],
)
def test_only_removed_jobs_may_fail_to_be_cancelled(stderr, ended):
    assert pbspro.had_ended(CommandError("x", ["qdel"], 153, "", stderr)) is ended


def requests(**changes):
    entry = site({"main": raw_entry(memory_overhead_mb=0, **changes)})["entries"]["main"]
    return pbspro.requests(entry, entry["shapes"]["core"])


def test_a_site_sets_how_resources_are_requested():
    whole = shape(cpus=8, memory_mb=9999, gpus=2, gpu_type="a100", whole_node=True)
    assert requests(shapes={"core": whole}) == [
        "select=1:ncpus=8:mem=9999mb:ngpus=2:gpu_type=a100",
        "place=pack:excl",
    ]
    words = {
        "memory": "vmem",
        "disk": "scratch_local",
        "gpus": "ngpus_v",
        "gpu_type": "model",
        "whole_node": "exclhost",
    }
    assert requests(shapes={"core": whole}, resources=words, constraint="ib=edr:avx512") == [
        "select=1:ncpus=8:vmem=9999mb:scratch_local=10000mb:ngpus_v=2:model=a100:ib=edr:avx512=True",
        "place=pack:exclhost",
    ]
    nothing = dict.fromkeys(words, "none")
    assert requests(shapes={"core": whole}, resources=nothing) == ["select=1:ncpus=8", "place=pack"]


@pytest.mark.parametrize("resources", [{"memory": "pmem"}, {"disk": "a:b"}, {"gpus": "a=1"}, {"gpu_type": "x,y"}])
def test_invalid_words_are_refused(resources):
    with pytest.raises(InputError, match="glidein_entries.main.resources"):
        make_scheduler("pbspro", entries=site({"main": raw_entry(resources=resources)})["entries"])


def test_the_cost_of_reading_a_list_with_unescaped_quotes_grows_in_proportion_to_its_length():
    small, large = (
        fake_pbspro.big_queue(n * 100, n * 10).replace('"/var/mail/pbsuser"', '"say "x""') for n in (1, SCALE)
    )
    assert len(assert_linear(lambda text: pbspro.parse_list(text, "me"), small, large)) == SCALE * 10


def test_a_notice_before_a_list_with_unescaped_quotes_is_ignored():
    printed = "qstat: moved to {x}\n" + OLD + "Bye\n"
    assert [found.id for found in pbspro.parse_list(printed, "pbsuser")] == ["9.pbshost"]
    with pytest.raises(OutputError, match="cannot read qstat's output"):
        pbspro.parse_list(OLD + OLD, "pbsuser")
