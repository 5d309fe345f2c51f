# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import json

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support import fake_pbs
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import OURS
from ansible_collections.glidein.ops.tests.unit.support.growth import SCALE, assert_linear
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import RECORDED
from hypothesis import given
from hypothesis import strategies as st

RUNNING_JOB = (RECORDED / "openpbs_23.06.06_qstat_running.json").read_text()
CUT = (RECORDED / "openpbs_23.06.06_qstat_array_cut.json").read_text()
# The complete records of a recorded array of three: the array, and task 1, which is running.
_PARENT_AND_TASK = json.loads(CUT[: CUT.index(',\n\t\t"4[2].pbshost"')] + "}}")
SUBMITTED = 1795211682  # date -u -d 'Fri Nov 20 21:54:42 2026' +%s

pbspro = make_scheduler("pbspro")


def document(jobs):
    return json.dumps({"pbs_version": "23.06.06", "Jobs": dict(jobs)})


def job(job_id="5.pbshost", letter="Q", **changes):
    attributes = dict(RECORDED_TASK, Job_Name=OURS, job_state=letter, comment="", Hold_Types="n", **changes)
    return job_id, {key: value for key, value in attributes.items() if value is not None}


RECORDED_TASK = _PARENT_AND_TASK["Jobs"]["4[1].pbshost"]
RECORDED_ARRAY = _PARENT_AND_TASK["Jobs"]["4[].pbshost"]


def parsed(*jobs):
    return pbspro.parse_list(document(jobs), "pbsuser")


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


def test_a_document_without_jobs_may_end_without_a_line_break():
    # As 23.06.06 prints it if the server has no jobs.
    empty = '{\n    "timestamp":1795369747,\n    "pbs_version":"23.06.06",\n    "pbs_server":"pbs"\n}'
    assert pbspro.parse_list(pbspro.complete_output(empty, ["qstat"]), "pbsuser") == []
    with pytest.raises(OutputError, match="was truncated"):
        pbspro.complete_output(empty[:-4], ["qstat"])


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
        document([job(Job_Owner=None)]),
        document([job(ctime=None)]),
        document([job(ctime="yesterday")]),
        document([job(ctime="Fri Now 20 21:54:42 2026")]),
        document([job(ctime="Fri Nov 20 25:54:42 2026")]),
        document([job(letter="R", stime="-")]),
        document([job(letter="")]),
        document([job("x.y z")]),
        document([job("5[1-3].pbshost")]),
        RUNNING_JOB + RUNNING_JOB,
        CUT,
        OLD + OLD,
        document([("4[].pbshost", dict(RECORDED_ARRAY, Job_Name=OURS))]),  # an array without its tasks
    ],
)
def test_unparsable_output_is_an_error(text):
    with pytest.raises(OutputError, match="pbspro: cannot read "):
        pbspro.parse_list(text, "pbsuser")


def test_a_glidein_that_can_never_start_is_sick_with_its_reason():
    # Recorded.
    comment = "Can Never Run: Insufficient amount of resource: mem (R: 1tb A: 24105mb T: 24105mb)"
    attributes = job()[1]
    found = parsed(("12.pbshost", dict(attributes, comment=comment)))[0]
    assert (found.state, found.reason, found.cancellable, found.never_starts) == (SICK, comment, True, True)
    waiting = parsed(("12.pbshost", dict(attributes, comment="Not Running: No available resources on nodes")))[0]
    assert (waiting.state, waiting.never_starts) == (QUEUED, False)


def test_the_tasks_of_an_array_that_is_held_are_held():
    held = dict(RECORDED_ARRAY, job_state="H", Hold_Types="u", comment="")
    found = parsed(("4[].pbshost", held), ("4[2].pbshost", dict(held, job_state="Q")))[0]
    assert (found.state, found.reason) == (SICK, "Hold_Types = u")
    assert parsed(job(letter="S"))[0].reason == "job_state = S"


def test_another_users_unusual_variable_does_not_break_the_list():
    assert [tuple(found)[:8] for found in pbspro.parse_list(OLD, "pbsuser")] == [
        ("9.pbshost", "9.pbshost", "g5bf7a-7eb8c79c", QUEUED, True, 'Not Running: "fast" is full', SUBMITTED, None)
    ]
    assert [found.state for found in pbspro.parse_list(OLD, "other")] == [RUNNING]
    noisy = "qstat: moved to {x}\n" + OLD + "Bye\n"
    assert [found.id for found in pbspro.parse_list(noisy, "pbsuser")] == ["9.pbshost"]


@pytest.mark.parametrize("line", range(len(OLD.splitlines()) - 1))
def test_such_a_list_that_is_cut_off_is_an_error_too(line):
    with pytest.raises(OutputError):
        pbspro.parse_list("\n".join(OLD.splitlines()[: line + 1]), "pbsuser")


@given(st.text(st.characters(min_codepoint=32, blacklist_categories=("Cs",)), max_size=30), st.booleans())
def test_no_value_of_another_users_job_adds_a_job(value, escaped):
    printed = json.dumps(value) if escaped else '"' + value + '"'
    text = OLD.replace('"two "words" {"', printed)
    assert [found.id for found in pbspro.parse_list(text, "pbsuser")] == ["9.pbshost"]


def test_the_cost_of_reading_a_list_with_unescaped_quotes_grows_in_proportion_to_its_length():
    small, large = (
        fake_pbs.big_queue(fake_pbs.FakePbsPro, n * 100, n * 10).replace('"/var/mail/pbsuser"', '"say "x""')
        for n in (1, SCALE)
    )
    assert len(assert_linear(lambda text: pbspro.parse_list(text, "me"), small, large)) == SCALE * 10
