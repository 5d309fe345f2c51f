# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import os
import subprocess
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.schedulers import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.script import batch_script
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry, shape, site
from hypothesis import given, settings
from hypothesis import strategies as st

GOLDEN = Path(__file__).resolve().parent / "golden"

CASES = {
    "plain": raw_entry(),
    "gpu": raw_entry(queue="gpu", shapes={"core": shape(cpus=8, memory_mb=32000, gpus=2, gpu_type="a100")}),
    "whole_node": raw_entry(
        queue="RM",
        account="abc123",
        walltime="48h",
        shapes={"core": shape(cpus=28, memory_mb=120000, disk_mb=8000000, whole_node=True)},
    ),
    "directives": raw_entry(queue=None, directives=["-C EGRESS", "--qos=low"], retirement="30m", idle_timeout="5m"),
    # Text values are not among these: shellcheck mistakes their quotes for the shell's.
    "attributes": raw_entry(attributes={"HasCVMFS": True, "Generation": 8}),
}


def payload(**changes):
    return dict(
        {
            "home": "/home/me/.glidein/lab/aaaaaaaaaaaa",
            "log_dir": "/home/me/.glidein/lab/log",
            "credential": "/home/me/.glidein/lab/credential",
            "collector": "cm.example.org:9618",
            "scratch": "${TMPDIR:-/tmp}",
        },
        **changes,
    )


def script(scheduler, entry, **changes):
    return batch_script(make_scheduler(scheduler), site({"main": entry}), "main", "core", payload(**changes))


@pytest.mark.parametrize("scheduler", ["slurm"])
@pytest.mark.parametrize("case", sorted(CASES))
def test_scripts_are_the_golden_ones_and_sh_can_read_them(scheduler, case):
    path = GOLDEN / scheduler / (case + ".batch")
    made = script(scheduler, CASES[case])
    if os.environ.get("GLIDEIN_WRITE_GOLDEN"):
        path.write_text(made)
    assert made == path.read_text()
    subprocess.check_call(["/bin/sh", "-n", str(path)])


@given(
    st.dictionaries(
        st.from_regex(r"\A[A-FH-Z][A-Za-z0-9_]{0,8}\Z"),
        st.text(
            st.characters(min_codepoint=32, blacklist_characters="\x7f", blacklist_categories=("Cs", "Cc")), max_size=30
        ).filter(lambda text: "$" not in text),
        max_size=4,
    ),
    st.text("ab '%=@", max_size=8),
)
@settings(max_examples=60, deadline=None)
def test_the_payload_gets_exactly_what_was_configured(tmp_path_factory, attributes, directory):
    home = tmp_path_factory.mktemp("payload") / ("x" + directory)
    home.mkdir()
    (home / "glidein.sh").write_text(
        'printf "%s\\n--\\n%s\\n--\\n%s" "$GLIDEIN_HOME" "$GLIDEIN_SCRATCH" "$GLIDEIN_ATTRIBUTES"\n'
    )
    made = script("slurm", raw_entry(attributes=attributes), home=str(home))
    path = home / "batch.sh"
    path.write_bytes(made.encode("utf-8"))
    out = subprocess.check_output(["/bin/sh", str(path)], env={"SLURM_JOB_ID": "5", "TMPDIR": "/fast"}).decode("utf-8")
    got_home, scratch, lines = out.split("\n--\n", 2)
    assert got_home == str(home)
    assert scratch == "/fast"
    assert [line.split(" = ")[0] for line in lines.splitlines()] == sorted(attributes)


def test_attributes_are_classad_lines_whatever_they_hold(tmp_path):
    (tmp_path / "glidein.sh").write_text('printf "%s" "$GLIDEIN_ATTRIBUTES"\n')
    path = tmp_path / "batch.sh"
    attributes = {"OpSysAndVer": "RHEL8", "Note": 'it\'s "fast" & $HOME; \\'}
    path.write_text(script("slurm", raw_entry(attributes=attributes), home=str(tmp_path)))
    out = subprocess.check_output(["/bin/sh", str(path)], env={"HOME": "/h"}).decode()
    assert out == 'Note = "it\'s \\"fast\\" & $HOME; \\\\"\nOpSysAndVer = "RHEL8"'


@pytest.mark.parametrize(
    "environment, batch_id",
    [
        ({"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "1"}, "5_1"),
        ({"SLURM_JOB_ID": "7"}, "7"),
    ],
)
def test_the_batch_id_is_what_squeue_shows(tmp_path, environment, batch_id):
    (tmp_path / "glidein.sh").write_text('printf %s "$GLIDEIN_BATCH_ID"\n')
    path = tmp_path / "batch.sh"
    path.write_text(script("slurm", raw_entry(), home=str(tmp_path)))
    assert subprocess.check_output(["/bin/sh", str(path)], env=environment).decode() == batch_id


def test_no_setting_is_left_from_another_glidein(tmp_path):
    (tmp_path / "glidein.sh").write_text('printf "%s" "[$GLIDEIN_CREDENTIAL][$GLIDEIN_ATTRIBUTES]"\n')
    path = tmp_path / "batch.sh"
    path.write_text(script("slurm", raw_entry(), home=str(tmp_path), credential=""))
    environment = {"GLIDEIN_CREDENTIAL": "/x", "GLIDEIN_ATTRIBUTES": "A = 1"}
    assert subprocess.check_output(["/bin/sh", str(path)], env=environment).decode() == "[][]"


def test_paths_with_blanks_and_percent_signs_reach_sbatch_as_they_are():
    made = script("slurm", raw_entry(), log_dir="/home/a b/50%/log")
    assert '#SBATCH --chdir="/home/a b/50%/log"\n' in made
    assert '#SBATCH --output="/home/a b/50%%/log/%x.%A.%a.out"\n' in made


def test_a_short_job_gets_a_short_notice():
    assert "--signal=B:TERM@60\n" in script("slurm", raw_entry(walltime="10m"))
    assert "--signal=B:TERM@120\n" in script("slurm", raw_entry(walltime="48h"))
