# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
import os
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.common.command import Runner, clean_environment, excerpt
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import (
    CommandError,
    CommandStoppedError,
    CommandTimeoutError,
)
from ansible_collections.glidein.ops.tests.unit.support.hangs import hanging, shorten_limits


@pytest.mark.parametrize(
    "code, arguments, printed",
    [
        ("print('a b')", [], "a b\n"),
        # No shell reads the arguments.
        ("import sys; print(sys.argv[1])", ["$(id); *"], "$(id); *\n"),
        # Output that is not UTF-8 is still text.
        ("import sys; sys.stdout.buffer.write(b'\\xff|')", [], "\ufffd|"),
    ],
)
def test_output_is_returned_as_text(code, arguments, printed):
    assert Runner({}).run([sys.executable, "-c", code, *arguments]) == printed


def test_a_failure_carries_command_status_and_both_outputs():
    code = "import sys; print('out'); sys.stderr.write('no such partition'); sys.exit(3)"
    argv = [sys.executable, "-c", code]
    with pytest.raises(CommandError) as raised:
        Runner({}).run(argv)
    assert raised.value.details() == {"cmd": argv, "rc": 3, "stdout": "out\n", "stderr": "no such partition"}
    assert "exit status 3: no such partition" in str(raised.value)


@pytest.mark.parametrize(
    "code, reason",
    [
        ("print('queue cpu')", "exit status 1: no error message; standard output: queue cpu"),
        ("", "exit status 1: no output"),
    ],
)
def test_standard_output_is_not_the_reason_of_a_failure(code, reason):
    with pytest.raises(CommandError) as raised:
        Runner({}).run([sys.executable, "-c", f"{code}\nraise SystemExit(1)"])
    assert str(raised.value).endswith(reason)


def test_a_failure_quotes_both_outputs_and_the_end_of_a_long_one():
    code = "import sys; print('--> Verifying ...OK\\n' * 100 + 'FAILED: no SUs'); sys.exit('submission failed')"
    with pytest.raises(CommandError) as raised:
        Runner({}).run([sys.executable, "-c", code])
    text = str(raised.value).partition("exit status 1: ")[2]
    assert text.startswith("submission failed; standard output: --> Verifying ...OK --> ")
    assert text.endswith("OK FAILED: no SUs")


@pytest.mark.parametrize("text", ["a\n  b\n", "x" * 400, ""])
def test_an_excerpt_of_a_short_text_is_the_whole_text_on_one_line(text):
    assert excerpt(text) == " ".join(text.split())


@pytest.mark.parametrize("length", [401, 1599, 1601, 100_000])
@pytest.mark.parametrize("blank", [" ", "\n   "])
def test_an_excerpt_of_a_long_text_has_its_beginning_and_its_end(length, blank):
    text = f"first{blank}{'x' * length}{blank}last"
    assert excerpt(text).startswith("first xx") and excerpt(text).endswith("xx last")
    assert len(excerpt(text)) == 400


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(CommandError, match="/no/such/sbatch could not be started: No such file") as raised:
        Runner({}).run(["/no/such/sbatch"])
    assert raised.value.rc is None


def test_a_command_that_hangs_is_stopped_with_its_children(tmp_path, monkeypatch):
    shorten_limits(monkeypatch, tmp_path)
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! $$ >'{pids}'; {hanging(tmp_path)}"
    with pytest.raises(CommandTimeoutError, match="no answer within 60 s"):
        Runner({"PATH": os.environ["PATH"]}).run(["sh", "-c", script])
    wait_for_the_end(pids)


def test_the_error_has_the_output_before_the_time_limit(tmp_path, monkeypatch):
    shorten_limits(monkeypatch, tmp_path)
    with pytest.raises(CommandTimeoutError) as raised:
        Runner({"PATH": os.environ["PATH"]}).run(["sh", "-c", f"echo half; echo why >&2; {hanging(tmp_path)}"])
    assert (raised.value.stdout, raised.value.stderr) == ("half\n", "why\n")


@pytest.mark.parametrize("script", ["while :; do echo; sleep 0.1; done", "exec >&- 2>&-; sleep 50"])
def test_a_command_that_prints_for_ever_or_closes_its_output_is_stopped_at_the_time_limit(script):
    with pytest.raises(CommandTimeoutError, match="no answer within 0.3 s"):
        Runner({"PATH": os.environ["PATH"]}, timeout_s=0.3).run(["sh", "-c", script])


@pytest.mark.parametrize("where", ["", " >&2"])
def test_a_command_that_prints_without_end_is_stopped_with_its_children(tmp_path, where):
    pids = tmp_path / "pids"
    argv = ["sh", "-c", f"yes & echo $! $$ >'{pids}'; exec yes{where}"]
    words = "printed more than 1 MB and was stopped; it began with: y y"
    with pytest.raises(CommandStoppedError, match=words) as raised:
        Runner({"PATH": os.environ["PATH"]}, max_output_bytes=2**20).run(argv)
    assert raised.value.rc is None
    assert len(raised.value.stdout) + len(raised.value.stderr) < 2**18
    wait_for_the_end(pids)


def wait_for_the_end(pids):
    """Wait until no process runs that a file lists. A killed process may end later."""
    deadline_s = time.time() + 120
    while any(_runs(pid) for pid in pids.read_text().split()):
        assert time.time() < deadline_s
        time.sleep(0.05)


def _runs(pid):
    """Return True if a process is alive; a zombie is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_no_more_memory_is_taken_than_the_output_may_have():
    # Limit the address space of a process to 800 MB, so that reading without a limit ends with a MemoryError.
    code = (
        "import os, resource\n"
        "from ansible_collections.glidein.ops.plugins.module_utils.common import command\n"
        "resource.setrlimit(resource.RLIMIT_AS, (800 * 2**20,) * 2)\n"
        "try:\n"
        "    command.Runner(dict(os.environ)).run(['yes'])\n"
        "except command.CommandStoppedError as error:\n"
        "    print(str(error)[:40])\n"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    printed = Runner(dict(os.environ, PYTHONPATH=path)).run([sys.executable, "-c", code])
    assert printed == "yes printed more than 256 MB and was sto\n"


def test_settings_that_change_the_output_of_commands_are_removed():
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
