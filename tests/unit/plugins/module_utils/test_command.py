# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import os
import sys
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.command import Runner, clean_environment
from ansible_collections.glidein.ops.plugins.module_utils.errors import CommandError, CommandTimeoutError


def test_output_is_returned_as_text():
    assert Runner({}).run([sys.executable, "-c", "print('a b')"]) == "a b\n"


def test_a_failure_carries_command_status_and_both_outputs():
    code = "import sys; print('out'); sys.stderr.write('no such partition'); sys.exit(3)"
    argv = [sys.executable, "-c", code]
    with pytest.raises(CommandError) as raised:
        Runner({}).run(argv)
    assert raised.value.details() == {"cmd": argv, "rc": 3, "stdout": "out\n", "stderr": "no such partition"}
    assert "exit status 3: no such partition" in str(raised.value)


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(CommandError, match="/no/such/sbatch could not be started: No such file") as raised:
        Runner({}).run(["/no/such/sbatch"])
    assert raised.value.rc is None


def test_a_command_that_hangs_is_stopped_with_its_children():
    started = time.time()
    with pytest.raises(CommandTimeoutError, match="no answer within 1 s"):
        Runner({"PATH": os.environ["PATH"]}, timeout_s=1).run(["sh", "-c", "sleep 50 & sleep 50"])
    assert time.time() - started < 10


def test_arguments_are_never_read_by_a_shell():
    argv = [sys.executable, "-c", "import sys; print(sys.argv[1])", "$(id); *"]
    assert Runner({}).run(argv) == "$(id); *\n"


def test_output_that_is_not_utf8_is_still_text():
    argv = [sys.executable, "-c", "import sys; sys.stdout.buffer.write(b'\\xff|')"]
    assert Runner({}).run(argv) == "\ufffd|"


def test_settings_that_change_what_commands_print_are_removed():
    environ = {
        "PATH": "/bin",
        "SQUEUE_FORMAT": "%i",
        "SLURM_CONF": "/etc/s.conf",
        "LANG": "de_DE",
        "LC_TIME": "de_DE",
        "TZ": "Europe/Berlin",
    }
    cleaned = clean_environment(environ, ("SQUEUE_", "SLURM_"), ("SLURM_CONF",))
    assert cleaned == {"PATH": "/bin", "SLURM_CONF": "/etc/s.conf", "LC_ALL": "C", "TZ": "UTC0"}
