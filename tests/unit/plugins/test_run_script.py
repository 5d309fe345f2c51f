# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the command that timers and cron start, with a script in place of ansible-playbook and a real git."""

import fcntl
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller import run_outcome
from ansible_collections.glidein.ops.plugins.module_utils.controller.run_outcome import Run
from ansible_collections.glidein.ops.tests.unit.support.programs import write_program

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "roles" / "cycle_environment" / "files" / "run"
GIT_USER = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x"}
BUSY, INVENTORY, DAMAGED, TIME_LIMIT = 75, 74, 78, 124

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("flock", "timeout", "git"))), reason="no flock, timeout or git"
)

# What the callback play_outcome does when ansible-playbook ends.
CALLBACK = """\
"$(dirname "$0")/python" - <<'END'
import os
from ansible_collections.glidein.ops.plugins.module_utils.controller.run_outcome import Run
Run(dict(os.environ)).end({status}, {failed!r}, {cycle!r})
END
"""
# A worker of Ansible is a child of ansible-playbook.
ENDLESS = 'touch "$FOLDER/started"; sleep 300 & wait'
ENDLESS_WITHOUT_TERM = f"(trap '' TERM; exec sleep 300) & {ENDLESS}"
each_kind_of_worker = pytest.mark.parametrize("script", [ENDLESS, ENDLESS_WITHOUT_TERM], ids=["usual", "ignores TERM"])


class Schedule:
    """An installed command `run` in a directory; its ansible-playbook is a script."""

    def __init__(self, folder):
        self.folder = folder
        self.path = os.environ["PATH"]
        self.state = folder / "state"
        self.inventory = folder / "inventory"
        binaries = folder / "versions" / "v1" / "venv" / "bin"
        for path in (self.inventory, binaries, folder / "metrics", folder / "versions" / "v1" / "collections"):
            path.mkdir(parents=True)
        (folder / "versions/v1/collections/ansible_collections").symlink_to(ROOT.parents[1])
        (folder / "current").symlink_to("versions/v1")
        (folder / "lock").write_text("")
        shutil.copy(str(SCRIPT), str(folder / "run"))
        self.playbook = binaries / "ansible-playbook"
        self.script("exit 0")
        python = binaries / "python"
        path = f"PYTHONPATH={folder}/current/collections"
        python.write_text(f'#!/bin/sh\nexec env {path} {sys.executable} "$@"\n')
        python.chmod(0o755)
        for name in ("cycle", "deploy"):
            self.configure(name)

    def configure(self, name="cycle", limit_s=60, **variables):
        """Write the settings of a playbook. variables: further ones, or others."""
        lines = [
            "export FOLDER={} GLIDEIN_RUN_CONTROLLER=test GLIDEIN_RUN_METRICS={}".format(
                *(shlex.quote(str(path)) for path in (self.folder, self.folder / "metrics" / f"{name}.prom"))
            )
        ]
        values = {"state": self.state / name, "inventory": self.inventory, "limit_s": limit_s, **variables}
        lines += [f"{key}={shlex.quote(str(value))}" for key, value in values.items()]
        (self.folder / f"{name}.settings").write_text("\n".join([*lines, 'set -- -v "$@"', ""]))

    def script(self, text):
        write_program(self.playbook, f"#!/bin/sh\n{text}\n")

    def start(self, *arguments):
        return subprocess.Popen(
            ["/bin/sh", str(self.folder / "run"), *arguments],
            env={"PATH": self.path, "HOME": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd="/",
        )

    def run(self, *arguments):
        """Return (exit status, output)."""
        process = self.start(*arguments)
        output = process.communicate(timeout=300)[0].decode("utf-8")
        return process.returncode, output

    def outcome(self, playbook="cycle"):
        return json.loads((self.state / playbook / "outcome.json").read_text())

    def metrics(self):
        text = (self.folder / "metrics" / "cycle.prom").read_text()
        return {name: float(value) for name, value in re.findall(r"^glidein_controller_(\w+)\{.*\} (\S+)$", text, re.M)}

    def running(self):
        """Return the ids of processes that have the folder in their environment."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                if f"FOLDER={self.folder}\0".encode() in path.read_bytes():
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found


@pytest.fixture
def schedule(tmp_path):
    found = Schedule(tmp_path)
    yield found
    for pid in found.running():
        os.kill(pid, signal.SIGKILL)


def wait_for(look):
    deadline = time.monotonic() + 120
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def callback(status, failed=(), cycle=None):
    """Return a shell command that writes the outcome as the callback does."""
    return CALLBACK.format(status=status, failed=list(failed), cycle=cycle)


def test_a_run_has_its_inventory_environment_and_arguments(schedule):
    schedule.script('pwd; echo "args: $*"; env; umask')
    status, output = schedule.run("cycle", "--limit", "a b")
    assert status == 0, output
    lines = output.splitlines()
    assert lines[:2] == [str(schedule.inventory), "args: glidein.ops.cycle -v --limit a b"]
    for line in (
        "ANSIBLE_CALLBACKS_ENABLED=glidein.ops.play_outcome",
        f"ANSIBLE_COLLECTIONS_PATH={schedule.folder}/versions/v1/collections",
        f"ANSIBLE_INVENTORY={schedule.inventory}",
        f"ANSIBLE_HOME={schedule.state}/cycle/ansible",
        "LC_ALL=C.UTF-8",
        "0077",
    ):
        assert line in lines
    assert re.match(r"glidein\.ops\.cycle ended with status 0 after \d+ s\.$", lines[-1])


def test_the_inventorys_ansible_cfg_names_inventory_and_callbacks(schedule):
    (schedule.inventory / "ansible.cfg").write_text(
        "[defaults]\ninventory = hosts.yml\ncallbacks_enabled = ansible.posix.profile_tasks\n"
    )
    schedule.script("env")
    lines = schedule.run("cycle")[1].splitlines()
    assert f"ANSIBLE_CONFIG={schedule.inventory}/ansible.cfg" in lines
    assert "ANSIBLE_CALLBACKS_ENABLED=glidein.ops.play_outcome,ansible.posix.profile_tasks" in lines
    assert "ANSIBLE_INVENTORY" not in "".join(lines)


def test_outcome_and_metrics_are_of_the_last_run(schedule):
    cycle = {"submitted": 3, "cancelled": 1, "problems": ["sge: unreachable"]}
    schedule.script(callback(0, cycle=cycle))
    before = int(time.time())
    assert schedule.run("cycle")[0] == 0
    first = schedule.outcome()
    assert (first["exit_status"], first["message"], first["cycle"], first["failed"]) == (0, "", cycle, [])
    assert first["last_success_s"] == first["end_s"] >= first["start_s"] >= before
    assert (first["version"], first["inventory"]) == ("v1", {"commit": None, "error": None})
    values = schedule.metrics()
    assert (values["submitted_glideins"], values["cancelled_glideins"], values["problems"]) == (3, 1, 1)
    assert (values["exit_status"], values["failed_hosts"], values["inventory_updated"]) == (0, 0, 1)
    assert abs(values["last_success_timestamp_seconds"] - first["end_s"]) < 0.01
    for path, mode in ((schedule.state / "cycle", 0o700), (schedule.state / "cycle" / "outcome.json", 0o600)):
        assert path.stat().st_mode & 0o777 == mode
    assert (schedule.folder / "metrics" / "cycle.prom").stat().st_mode & 0o777 == 0o644

    # The callback does not know the exit status. The time of the last success stays.
    long = "y" * 5000 + " no SUs"
    failed = [{"host": "cm", "task": "Reload", "msg": "no such unit"}, {"host": "cm", "task": "x", "msg": long}]
    schedule.script(callback(2, failed) + "exit 4")
    status, output = schedule.run("cycle")
    assert status == 4
    assert re.search(r"ended with status 4 after [\d.]+ s\. ansible-playbook ended with status 4\.", output)
    later = schedule.outcome()
    assert (later["exit_status"], later["failed_hosts"], later["cycle"]) == (4, ["cm"], None)
    assert later["failed"][0] == failed[0] and later["failed"][1]["msg"].endswith("y no SUs")
    assert len(later["failed"][1]["msg"]) == 1000
    assert later["last_success_s"] == first["end_s"]
    values = schedule.metrics()
    assert (values["exit_status"], values["failed_hosts"]) == (4, 1)
    assert "submitted_glideins" not in values


def test_a_run_that_ends_before_the_callback_has_an_outcome_of_its_own(schedule):
    schedule.script(callback(0, cycle={"submitted": 3, "cancelled": 0, "problems": []}))
    schedule.run("cycle")
    time.sleep(1)  # runs are told apart by the second of their start
    schedule.script("exit 250")
    assert schedule.run("cycle")[0] == 250
    assert (schedule.outcome()["exit_status"], schedule.outcome()["cycle"]) == (250, None)
    assert schedule.outcome()["message"] == "ansible-playbook ended with status 250."


def test_a_run_with_arguments_leaves_the_outcome_as_it_is(schedule):
    schedule.script(callback(2) + "exit 2")
    assert schedule.run("cycle", "--check", "--diff")[0] == 2
    assert not (schedule.state / "cycle" / "outcome.json").exists()
    assert not (schedule.folder / "metrics" / "cycle.prom").exists()


def test_a_second_run_of_the_same_playbook_is_refused(schedule):
    schedule.script(f'[ "$1" = glidein.ops.deploy ] && exit 0\n{ENDLESS}')
    first = schedule.start("cycle")
    wait_for((schedule.folder / "started").exists)
    status, output = schedule.run("cycle")
    assert status == BUSY
    assert "The previous glidein.ops.cycle is still running: this one ends and changes nothing." in output
    assert not (schedule.state / "cycle" / "outcome.json").exists()
    # Another playbook may run at the same time. The lock keeps the version in use from being removed.
    assert schedule.run("deploy")[0] == 0
    with (schedule.folder / "lock").open() as handle, pytest.raises(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=300)
    with (schedule.folder / "lock").open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_on_a_file_system_without_locks_a_run_says_so_and_goes_on(schedule):
    programs = schedule.folder / "bin"
    programs.mkdir()
    write_program(programs / "flock", "#!/bin/sh\nexit 71\n")
    schedule.path = f"{programs}:{os.environ['PATH']}"
    schedule.script("exit 0")
    status, output = schedule.run("cycle")
    assert (status, "This file system supports no locks: a run may begin before" in output) == (0, True)


@each_kind_of_worker
def test_at_the_time_limit_the_processes_are_ended(schedule, script):
    schedule.configure(limit_s=2)
    schedule.script(script)
    status, output = schedule.run("cycle")
    assert status == schedule.outcome()["exit_status"] == schedule.metrics()["exit_status"] == TIME_LIMIT
    assert schedule.outcome()["message"] == "It ran longer than its time limit of 2 s, and was ended."
    assert schedule.outcome()["message"] in output
    assert schedule.running() == []


@each_kind_of_worker
def test_a_signal_ends_the_processes(schedule, script):
    schedule.script(script)
    process = schedule.start("cycle")
    wait_for((schedule.folder / "started").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode == schedule.outcome()["exit_status"] == 128 + signal.SIGTERM
    assert schedule.outcome()["message"] == "It was ended by signal 15."
    assert schedule.running() == []


def test_the_log_is_rotated_by_size(schedule):
    schedule.script("echo 0123456789")
    assert schedule.run("--log", "cycle") == (0, "")
    log = schedule.state / "cycle" / "log"
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n0123456789\n", log.read_text())
    log.write_text("x" * 5_000_001)
    assert schedule.run("--log", "cycle") == (0, "")
    assert log.with_name("log.1").stat().st_size == 5_000_001
    assert "0123456789\n" in log.read_text() and "x" not in log.read_text()


@pytest.mark.parametrize(
    "missing, argument, text",
    [
        (None, "renew", "/renew.settings cannot be read; expected: run [--log] PLAYBOOK"),
        ("lock", "cycle", "/lock cannot be read"),
        ("current", "cycle", "/current/venv/bin/ansible-playbook cannot be read"),
    ],
)
def test_a_damaged_installation_has_its_own_exit_status(schedule, missing, argument, text):
    if missing:
        (schedule.folder / missing).unlink()
    status, output = schedule.run(argument)
    assert status == DAMAGED, output
    assert text in output and "Run glidein.ops.controller or glidein.ops.pull again." in output


def test_without_the_inventorys_directory_nothing_runs(schedule):
    schedule.inventory.rmdir()
    schedule.script("echo ran")
    status, output = schedule.run("cycle")
    assert status == schedule.outcome()["exit_status"] == INVENTORY
    assert "ran\n" not in output
    assert f"There is no inventory in {schedule.inventory}." in schedule.outcome()["message"]


class Repository:
    """A git repository with an inventory in the directory `site`."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.git("init", "--quiet")
        self.git("checkout", "--quiet", "-b", "main")
        self.commit("one")

    def git(self, *arguments):
        command = ["git", "-C", str(self.path), *arguments]
        done = subprocess.run(command, env=dict(os.environ, **GIT_USER), stdout=subprocess.PIPE, timeout=60, check=True)
        return done.stdout.decode("ascii").strip()

    def commit(self, text, name="site/hosts.yml"):
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + "\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", text)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(schedule):
    found = Repository(schedule.folder / "repository")
    follow(schedule, found)
    schedule.script("cat hosts.yml; ls")
    return found


def follow(schedule, repository, revision="main", folder="site"):
    inventory = schedule.state / "cycle" / "inventory" / folder
    schedule.configure(inventory=inventory, repository=repository.path, revision=revision)


def change_git(schedule, text):
    """Let git begin with these lines of a shell script."""
    (schedule.folder / "bin").mkdir()
    write_program(schedule.folder / "bin" / "git", f'#!/bin/sh\n{text}\nexec {shutil.which("git")} "$@"\n')
    schedule.path = f"{schedule.folder}/bin:{schedule.path}"


def test_each_run_has_the_last_commit(schedule, repository):
    assert schedule.run("cycle")[1].startswith("one\n")
    commit = repository.commit("two")
    repository.commit("more", "site/more.yml")
    repository.git("rm", "--quiet", "site/more.yml")
    # A history that was rewritten is followed, too.
    repository.git("commit", "--quiet", "--amend", "--allow-empty", "--message", "less")
    status, output = schedule.run("cycle")
    assert (status, output.splitlines()[:2]) == (0, ["two", "hosts.yml"]), output
    repository.git("tag", "stable", "main~1")
    for revision in ("stable", commit):
        follow(schedule, repository, revision)
        assert schedule.run("cycle")[1].startswith("two\n")


def test_a_repository_that_cannot_be_read_leaves_the_last_inventory_in_use(schedule, repository):
    assert schedule.run("cycle")[0] == 0
    commit = repository.git("rev-parse", "HEAD")
    repository.path.rename(repository.path.with_name("elsewhere"))
    schedule.script("cat hosts.yml\n" + callback(0))
    status, output = schedule.run("cycle")
    assert status == INVENTORY
    assert "The inventory was not updated: fatal: " in output and "\none\n" in output
    found = schedule.outcome()
    assert (found["exit_status"], found["last_success_s"]) == (INVENTORY, None)
    assert found["message"] == found["inventory"]["error"] != ""
    assert found["inventory"]["commit"] == commit
    assert schedule.metrics()["inventory_updated"] == 0
    # A failed playbook determines the exit status.
    schedule.script("exit 4")
    assert schedule.run("cycle")[0] == schedule.outcome()["exit_status"] == 4


@pytest.mark.parametrize("change", [{"revision": "none"}, {"folder": "other"}, {"revision": "--upload-pack=x"}])
def test_without_an_inventory_of_the_repository_nothing_runs(schedule, repository, change):
    follow(schedule, repository, **change)
    schedule.script("echo ran")
    status, output = schedule.run("cycle")
    assert (status, "ran\n" in output) == (INVENTORY, False)
    assert "There is no inventory in " in schedule.outcome()["message"]


@pytest.mark.parametrize("is_readable", [True, False])
def test_an_interrupted_update_is_repaired(schedule, repository, is_readable):
    assert schedule.run("cycle")[0] == 0
    checkout = schedule.state / "cycle" / "inventory"
    for name in ("index.lock", "HEAD.lock", "config.lock"):
        (checkout / ".git" / name).write_text("")
    (checkout / "site" / "hosts.yml").write_text("half")
    (checkout / "site" / "new.yml").write_text("half")
    repository.commit("two")
    if not is_readable:
        repository.path.rename(repository.path.with_name("elsewhere"))
    lines = schedule.run("cycle")[1].splitlines()
    at = lines.index("two" if is_readable else "one")
    assert lines[at + 1] == "hosts.yml" and "new.yml" not in lines


@pytest.mark.parametrize("is_restored", [True, False])
def test_a_checkout_that_fails_half_way_is_restored_or_not_used(schedule, repository, is_restored):
    """Git writes one of two files of a checkout, as on a full disk; git reset then fails, too, or does not."""
    assert schedule.run("cycle")[0] == 0
    commit = repository.git("rev-parse", "HEAD")
    repository.commit("two")
    failing = "checkout*" if is_restored else "checkout*|*reset*"
    change_git(
        schedule,
        f"""case $* in checkout*) printf two >site/hosts.yml; printf new >site/new.yml ;; esac
        case $* in {failing}) echo 'No space left on device' >&2; exit 1 ;; esac""",
    )
    schedule.script("echo ran; cat hosts.yml; ls")
    status, output = schedule.run("cycle")
    found = schedule.outcome()
    assert status == found["exit_status"] == INVENTORY
    assert ("ran\none\nhosts.yml\n" in output, "ran" in output) == (is_restored, is_restored)
    assert found["inventory"]["commit"] == (commit if is_restored else None)
    assert ("The last checkout was not restored: No space left on device" in found["message"]) != is_restored


def test_a_signal_during_the_update_is_recorded_and_nothing_runs(schedule, repository):
    change_git(schedule, 'case $* in fetch*) touch "$FOLDER/started"; sleep 1 ;; esac')
    schedule.script("echo ran")
    process = schedule.start("cycle")
    wait_for((schedule.folder / "started").exists)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=300)[0]
    assert process.returncode == schedule.outcome()["exit_status"] == 128 + signal.SIGTERM, output
    assert b"ran\n" not in output and schedule.running() == []


def test_the_metrics_are_in_the_text_format_of_prometheus():
    run = Run({"GLIDEIN_RUN_PLAYBOOK": "deploy", "GLIDEIN_RUN_START": "1000", "GLIDEIN_RUN_PROBLEM": "x"})
    record = run.record(4, 1012.5, [], None)
    lines = run_outcome.metrics("glidein-controller", record).splitlines()
    assert lines[:3] == [
        "# HELP glidein_controller_last_run_timestamp_seconds End of the last run.",
        "# TYPE glidein_controller_last_run_timestamp_seconds gauge",
        'glidein_controller_last_run_timestamp_seconds{controller="glidein-controller",playbook="deploy"} 1012.5',
    ]
    # Without any success, alerts on its age fire.
    assert re.match(r"glidein_controller_last_success_timestamp_seconds\{.*\} 0$", lines[5])
    assert lines[-1].endswith(" 0")
    assert record["end"] == "1970-01-01T00:16:52Z"


@pytest.mark.parametrize("status, seconds, recorded", [(137, 60, 124), (137, 59, 137), (124, 60, 124), (2, 61, 2)])
def test_a_run_that_had_to_be_killed_at_its_limit_has_the_status_of_the_limit(status, seconds, recorded):
    run = Run({"GLIDEIN_RUN_START": "1000", "GLIDEIN_RUN_LIMIT": "60"})
    assert run.record(status, 1000 + seconds, [], None)["exit_status"] == recorded
