# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import pytest
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import QUEUED, RUNNING, SICK
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import OutputError
from ansible_collections.glidein.ops.tests.unit.support.batch_systems import OURS
from ansible_collections.glidein.ops.tests.unit.support.recorded_commands import RECORDED
from hypothesis import given
from hypothesis import strategies as st

RUNNING_JOB = (RECORDED / "torque_6.1.3_qstat_running.xml").read_text()
START = 1795213091  # times of the recorded job

torque = make_scheduler("torque")


def job(job_id="12.pbshost", letter="Q", **changes):
    """Return the recorded job with changes; None removes an attribute."""
    text = RUNNING_JOB[RUNNING_JOB.index("<Job>") : RUNNING_JOB.index("</Data>")]
    changes = dict({"Job_Id": job_id, "Job_Name": OURS, "job_state": letter, "comment": None}, **changes)
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
    found = parsed(job("12[2].pbshost", Job_Name=f"{OURS}-2"), job("12.pbshost", Job_Name="arr-12"))
    assert [(one.id, one.submission, one.name) for one in found] == [
        ("12[2].pbshost", "12[].pbshost", OURS),
        ("12.pbshost", "12.pbshost", "arr-12"),
    ]


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
    assert parsed(job(comment="a & b &amp; c"))[0].reason == "a & b & c"


@given(st.text(st.characters(blacklist_characters="<", blacklist_categories=("Cs",)), max_size=30))
def test_no_value_of_a_job_adds_or_hides_another(value):
    # Torque escapes "<" in its own way.
    others = job("13.pbshost", Job_Owner="other@pbshost", Variable_List=value)
    assert [found.id for found in parsed(others, job(Variable_List=value))] == ["12.pbshost"]


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
