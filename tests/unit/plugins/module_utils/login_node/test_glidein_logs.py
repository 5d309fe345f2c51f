# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import os

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import job_name
from ansible_collections.glidein.ops.plugins.module_utils.login_node.glidein_logs import (
    check_job_id,
    find_logs,
    log_times,
    read_log,
    remove_old_logs,
    tail,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import NOW

# As files/glidein writes it.
STARTED = "2026-11-21T00:13:09Z glidein: start of lab/main/core as 123_1 on n1: 1 CPUs, 2000 MB memory\n"
REGISTERED = "2026-11-21T00:13:14Z glidein: registered with cm:9618 as glidein_1@n1, 5 s after start\n"
ENDED = "2026-11-21T00:33:20Z glidein: ended because no job came for 1200 s (exit status 0, after 1211 s)\n"
REFUSED = "2026-11-21T00:18:10Z glidein: ended because the pool was not joined (exit status 19, after 301 s)\n"


@pytest.mark.parametrize(
    "text, registered, ending",
    [
        ("", False, None),
        (STARTED, False, None),
        (STARTED + REGISTERED, True, None),
        (STARTED + REGISTERED + ENDED, True, "ended because no job came for 1200 s (exit status 0, after 1211 s)"),
        (STARTED + REFUSED, False, "ended because the pool was not joined (exit status 19, after 301 s)"),
        (STARTED + ENDED.rstrip("\n"), False, "ended because no job came for 1200 s (exit status 0, after 1211 s)"),
    ],
)
def test_a_log_shows_the_state_of_its_glidein(text, registered, ending):
    assert read_log(text) == (registered, ending)


@pytest.mark.parametrize("line", [REGISTERED, ENDED])
def test_quoted_lines_of_daemons_are_not_the_glideins_own(line):
    assert read_log(STARTED + "    " + line) == (False, None)


def test_the_logs_of_a_submission_are_found_in_a_directory_whose_name_is_no_pattern(tmp_path):
    folder = tmp_path / "log[1]"
    assert find_logs(str(folder), "*.12.*.out") == []
    for directory in (folder, tmp_path / "log1"):
        directory.mkdir()
        for name in ("12.1.out", "12.2.out", "1.1.out", "123.12.out", "12.1.out.old"):
            (directory / f"g1-2.{name}").write_text("")
        (directory / "12.1.out").write_text("")
    expected = [str(folder / name) for name in ("g1-2.12.1.out", "g1-2.12.2.out")]
    assert find_logs(str(folder), "*.12.*.out") == expected


@pytest.mark.parametrize("job_id", ["12", "12.server-1", "12_3", "12[].server", "12[3]"])
def test_ids_of_batch_systems_are_accepted(job_id):
    check_job_id(job_id)


@pytest.mark.parametrize("job_id", ["", "*", "1*", "../1", "1/2", "[1]", "12\n", "-1"])
def test_an_invalid_job_id_is_refused(job_id):
    with pytest.raises(InputError, match="job_id: .* is invalid"):
        check_job_id(job_id)


@pytest.mark.parametrize("lines, expected", [(1, "c"), (2, "b\nc"), (3, "a\nb\nc"), (100, "a\nb\nc")])
def test_the_end_of_a_log_has_so_many_lines(lines, expected):
    assert tail("a\nb\nc\n", lines) == expected


DAY = 86400


@pytest.fixture
def logs(tmp_path):
    """Return a directory with logs of three ages, of this deployment and of others."""
    names = {
        job_name("glidein", "lab", "main", "core") + ".12_1.out": 15,
        job_name("glidein", "lab", "main", "core") + ".14[1].pbshost.pbs.out-1": 15,
        job_name("glidein", "lab", "main", "core") + ".13_1.out": 13,
        job_name("other", "lab", "main", "core") + ".14_1.out": 15,
        "glidein_12_1_abcdefgh/StartLog": 15,
        "glidein_13_1_abcdefgh/StartLog": 13,
        "glidein_12_analysis/thesis.txt": 15,
        "glidein_tokens.yml": 15,
        "thesis.out": 15,
        "mine/x": 15,
    }
    for name, days in names.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
        for one in {path, path.parent} - {tmp_path}:
            os.utime(one, (NOW - days * DAY, NOW - days * DAY))
    return tmp_path


def left(logs):
    return sorted(path.name for path in logs.iterdir())


def test_only_old_logs_of_this_deployment_are_removed(logs):
    before = left(logs)
    remove_old_logs(str(logs), "glidein", 14, NOW)
    gone = set(before) - set(left(logs))
    name = job_name("glidein", "lab", "main", "core")
    assert gone == {name + ".12_1.out", name + ".14[1].pbshost.pbs.out-1", "glidein_12_1_abcdefgh"}


@pytest.mark.parametrize("days, longest_s", [(0, 0), (14, 15 * DAY)])
def test_logs_are_kept_for_ever_or_while_their_glidein_may_still_run(logs, days, longest_s):
    before = left(logs)
    remove_old_logs(str(logs), "glidein", days, NOW, longest_s=longest_s)
    remove_old_logs(str(logs / "none"), "glidein", 14, NOW)
    assert left(logs) == before


def test_the_target_of_a_link_is_not_removed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "a").write_text("x")
    link = tmp_path / "glidein_1_abcdefgh"
    link.symlink_to(kept)
    os.utime(str(link), (NOW - 20 * DAY, NOW - 20 * DAY), follow_symlinks=False)
    remove_old_logs(str(tmp_path), "glidein", 14, NOW)
    assert left(tmp_path) == ["glidein_1_abcdefgh", "kept"]
    assert (kept / "a").exists()


def test_the_times_of_this_deployments_logs_are_returned(tmp_path):
    assert log_times(str(tmp_path / "none"), "glidein") == {"newest_output": None, "oldest_log": None}
    ours = job_name("glidein", "lab", "main", "core")
    other = job_name("another", "lab", "main", "core")
    for name, age_s in ((ours + ".1.1.out", 500.5), (ours + ".2.1.out", 90), (other + ".3.1.out", 1), ("notes", 2)):
        (tmp_path / name).write_text("")
        os.utime(str(tmp_path / name), (NOW - age_s, NOW - age_s))
    assert log_times(str(tmp_path), "glidein") == {"newest_output": NOW - 90, "oldest_log": NOW - 500.5}
    for name, inside, age_s in (("glidein_1_n1_abcdefgh", "StartLog", 700), ("glidein_2_n1_abcdefgh", "data", 900)):
        (tmp_path / name).mkdir()
        (tmp_path / name / inside).write_text("")
        os.utime(str(tmp_path / name), (NOW - age_s, NOW - age_s))
    assert log_times(str(tmp_path), "glidein") == {"newest_output": NOW - 90, "oldest_log": NOW - 700}
