# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the command that a timer or cron starts, with a script in place of ansible-playbook and a real git."""

import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.glidein.ops.plugins.module_utils.controller.scheduled_playbook import outcome, processes

COLLECTIONS = pathlib.Path(__file__).resolve().parents[8]
MODULE = "ansible_collections.glidein.ops.plugins.module_utils.controller.scheduled_playbook"
GIT_USER = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x", "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x"}
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


class Controller:
    """An installed controller in a directory; its ansible-playbook is a script."""

    def __init__(self, folder):
        self.folder = folder
        self.inventory = folder / "inventory"
        self.state = folder / "state"
        self.settings = {
            "name": "test",
            "state_dir": str(self.state),
            "lock": str(folder / "lock"),
            "inventory_dir": str(self.inventory),
            "inventory_sources": [],
            "repository": None,
            "vault_password_file": None,
            "environment": {"FOLDER": str(folder)},
            "metrics_dir": str(folder / "metrics"),
            "log_bytes": 200,
            "playbooks": {
                "cycle": {"playbook": "glidein.ops.cycle", "arguments": ["-v"], "time_limit_s": 60},
                "deploy": {"playbook": "glidein.ops.deploy", "arguments": [], "time_limit_s": 60},
            },
        }
        for path in (self.inventory, self.state, folder / "version" / "venv" / "bin", folder / "metrics"):
            path.mkdir(parents=True)
        (folder / "lock").write_text("")
        self.script("exit 0")

    def script(self, text):
        path = self.folder / "version" / "venv" / "bin" / "ansible-playbook"
        path.write_text("#!/bin/sh\n" + text + "\n")
        path.chmod(0o755)

    def start(self, *arguments):
        config = self.folder / "config.json"
        config.write_text(json.dumps(self.settings))
        command = [sys.executable, "-m", f"{MODULE}.main", "--config", str(config)]
        command += ["--version-dir", str(self.folder / "version")] + list(arguments)
        environment = dict(os.environ, PYTHONPATH=str(COLLECTIONS), ANSIBLE_NOCOLOR="0", ANSIBLE_FORKS="3")
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=str(self.folder)
        )

    def run(self, *arguments):
        """Return (exit status, output)."""
        process = self.start(*arguments)
        output = process.communicate(timeout=300)[0].decode("utf-8")
        return process.returncode, output

    def outcome(self, playbook="cycle"):
        return json.loads((self.state / playbook / "outcome.json").read_text())

    def metrics(self):
        text = (self.folder / "metrics" / "test-cycle.prom").read_text()
        return {name: float(value) for name, value in re.findall(r"^glidein_controller_(\w+)\{.*\} (\S+)$", text, re.M)}

    def processes(self):
        """Return the ids of processes that a script has started with the folder as an argument."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                text = path.read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
            if "sleep 300" in text and str(self.folder) in text:
                found.append(int(path.parent.name))
        return found


@pytest.fixture
def controller(tmp_path):
    return Controller(tmp_path)


def wait_for(look):
    deadline = time.monotonic() + 120
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def report(**more):
    """Return a shell command that writes an outcome file as the callback play_outcome does."""
    text = json.dumps(dict({"failed": [], "cycle": None, "busy": False}, **more))
    return f"cat > $GLIDEIN_PLAY_OUTCOME <<'END'\n{text}\nEND"


# Ansible's workers run in a process session of their own; a persistent SSH connection is detached.
ENDLESS = """
touch "$FOLDER/started"
setsid sh -c "sleep 300; : $FOLDER" &
(setsid sh -c "sleep 300; : $FOLDER" &)
wait
"""


def test_a_run_has_its_inventory_environment_and_arguments(controller):
    vault = controller.settings["vault_password_file"] = str(controller.folder / "vault")
    controller.script('pwd; echo "args: $*"; env; umask')
    status, output = controller.run("cycle", "--limit", "slurm")
    assert status == 0, output
    lines = output.splitlines()
    assert lines[0] == str(controller.inventory)
    assert lines[1] == "args: glidein.ops.cycle --inventory . -v --limit slurm"
    for line in (
        "ANSIBLE_CALLBACKS_ENABLED=glidein.ops.play_outcome",
        f"ANSIBLE_COLLECTIONS_PATH={controller.folder}/version/collections",
        f"ANSIBLE_VAULT_PASSWORD_FILE={vault}",
        "LC_ALL=C.UTF-8",
        "0077",
    ):
        assert line in lines
    assert not [line for line in lines if line.startswith(("ANSIBLE_FORKS", "ANSIBLE_CONFIG", "PYTHONPATH"))]


def test_the_inventorys_ansible_cfg_names_inventory_and_callbacks(controller):
    (controller.inventory / "ansible.cfg").write_text(
        "[defaults]\ninventory = hosts.yml\ncallbacks_enabled = ansible.posix.profile_tasks\nhome = %h/x\n"
    )
    controller.script('echo "args: $*"; env')
    _status, output = controller.run("cycle")
    lines = output.splitlines()
    assert lines[0] == "args: glidein.ops.cycle -v"
    assert f"ANSIBLE_CONFIG={controller.inventory}/ansible.cfg" in lines
    assert "ANSIBLE_CALLBACKS_ENABLED=ansible.posix.profile_tasks,glidein.ops.play_outcome" in lines
    controller.settings["inventory_sources"] = ["hosts.yml", "more.yml"]
    assert "glidein.ops.cycle --inventory hosts.yml --inventory more.yml -v" in controller.run("cycle")[1]


def test_the_outcome_and_the_metrics_are_of_the_last_run(controller):
    cycle = {"submitted": 3, "cancelled": 1, "problems": ["sge: unreachable"]}
    controller.script(report(cycle=cycle))
    before = int(time.time())
    assert controller.run("cycle")[0] == 0
    found = controller.outcome()
    assert (found["exit_status"], found["message"], found["cycle"], found["failed"]) == (0, "", cycle, [])
    assert found["last_success_s"] == found["end_s"] >= before
    assert found["start"] <= found["end"] and found["seconds"] < 30
    assert found["version"] == "version"
    assert found["inventory"] == {"directory": str(controller.inventory), "commit": None, "error": None}
    values = controller.metrics()
    assert (values["submitted_glideins"], values["cancelled_glideins"], values["problems"]) == (3, 1, 1)
    assert (values["exit_status"], values["failed_hosts"], values["inventory_updated"]) == (0, 0, 1)
    assert abs(values["last_success_timestamp_seconds"] - found["end_s"]) < 0.01

    failed = [{"host": "cm", "task": "Reload", "msg": "no such unit"}, {"host": "cm", "task": "x", "msg": "y" * 5000}]
    controller.script(report(failed=failed) + "\nexit 2")
    status, output = controller.run("cycle")
    assert status == 2
    assert "glidein.ops.cycle ended with status 2 after" in output
    later = controller.outcome()
    assert later["failed"][0] == failed[0] and len(later["failed"][1]["msg"]) == 1000
    assert (later["failed_hosts"], later["cycle"]) == (["cm"], None)
    assert later["message"] == "ansible-playbook ended with status 2."
    # The time of the last success is kept; metrics that this run does not report are omitted.
    assert later["last_success_s"] == found["end_s"]
    values = controller.metrics()
    assert (values["exit_status"], values["failed_hosts"]) == (2, 1)
    assert "submitted_glideins" not in values
    assert (controller.state / "cycle").stat().st_mode & 0o777 == 0o700
    assert (controller.state / "cycle" / "outcome.json").stat().st_mode & 0o777 == 0o600
    assert (controller.folder / "metrics" / "test-cycle.prom").stat().st_mode & 0o777 == 0o644
    assert names(controller.folder / "metrics") == ["test-cycle.prom"]


def test_the_report_of_an_earlier_run_is_not_used(controller):
    controller.script(report(cycle={"submitted": 3, "cancelled": 0, "problems": []}))
    controller.run("cycle")
    controller.script("exit 250")
    assert controller.run("cycle")[0] == 250
    assert controller.outcome()["cycle"] is None


def test_a_run_with_arguments_writes_no_outcome(controller):
    assert controller.run("cycle", "--check", "--diff")[0] == 0
    assert not (controller.state / "cycle" / "outcome.json").exists()
    assert not (controller.folder / "metrics" / "test-cycle.prom").exists()


def test_a_second_run_of_the_same_playbook_is_refused(controller):
    controller.script(f'[ "$1" = glidein.ops.deploy ] && exit 0\n{ENDLESS}')
    first = controller.start("cycle")
    wait_for((controller.folder / "started").exists)
    status, output = controller.run("cycle")
    assert status == outcome.BUSY == 75
    assert "The previous glidein.ops.cycle is still running: this one ends and changes nothing." in output
    assert not (controller.state / "cycle" / "outcome.json").exists()
    # Another playbook may run at the same time. The lock keeps the version in use from being removed.
    assert controller.run("deploy")[0] == 0
    with (controller.folder / "lock").open() as handle, pytest.raises(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=300)
    with (controller.folder / "lock").open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_cycle_that_another_cycle_of_the_inventory_keeps_from_running_is_busy_too(controller):
    controller.run("cycle")
    before = controller.outcome()
    controller.script(report(busy=True))
    assert controller.run("cycle")[0] == outcome.BUSY
    assert controller.outcome() == before


def test_at_the_time_limit_all_processes_are_ended(controller):
    controller.settings["playbooks"]["cycle"]["time_limit_s"] = 2
    controller.script(ENDLESS)
    status, output = controller.run("cycle")
    assert status == outcome.TIME_LIMIT == 124
    assert "It ran longer than its time limit of 2 s, and was ended." in output
    assert controller.outcome()["exit_status"] == 124
    assert "time limit of 2 s" in controller.outcome()["message"]
    assert controller.processes() == []


def test_a_signal_ends_all_processes(controller):
    controller.script(ENDLESS)
    process = controller.start("cycle")
    wait_for(lambda: len(controller.processes()) >= 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGTERM
    assert controller.outcome()["message"] == "It was stopped by SIGTERM."
    assert controller.processes() == []


def test_processes_that_ignore_sigterm_are_killed(tmp_path):
    program = (
        "import os, signal, sys, time\n"
        f"from {MODULE} import processes\n"
        "processes.adopt_orphans()\n"
        "try:\n"
        f"    command = ['/bin/sh', '-c', \"trap '' TERM; sleep 300 & : {tmp_path}; wait\"]\n"
        "    processes.run(command, dict(os.environ), '/', 0.5, grace_s=0.5)\n"
        "except processes.TimeLimitError:\n"
        "    print(processes.descendants(os.getpid()))\n"
    )
    environment = dict(os.environ, PYTHONPATH=str(COLLECTIONS))
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, timeout=60, check=True
    )
    assert done.stdout.decode("ascii").strip() == "[]"


def test_a_run_ended_by_a_signal_has_its_status(controller):
    controller.script("kill -9 $$")
    assert controller.run("cycle")[0] == 128 + 9


def test_a_kept_connection_outlives_the_run(controller):
    controller.script('(setsid sh -c "sleep 300; : $FOLDER" >/dev/null 2>&1 &)')
    assert controller.run("cycle")[0] == 0
    left = controller.processes()
    for parent in left:
        for pid in [*processes.descendants(parent), parent]:
            os.kill(pid, signal.SIGKILL)
    assert len(left) == 1


def test_the_log_is_rotated_by_size(controller):
    controller.script("echo 0123456789")
    for _number in range(8):
        assert controller.run("--log", "cycle") == (0, "")
    assert names(controller.state / "cycle") == ["lock", "log", "log.1", "outcome.json"]
    assert (controller.state / "cycle" / "log.1").stat().st_size < 400
    assert "0123456789\n" in (controller.state / "cycle" / "log").read_text()


@pytest.mark.parametrize(
    "change, arguments, text",
    [
        ({"log_bytes": None}, ["cycle"], "'log_bytes' is missing or invalid. Run glidein.ops.controller again."),
        ({}, ["renew"], "'renew' is unknown; expected one of cycle, deploy"),
        ({"lock": "/nonexistent/lock"}, ["cycle"], "/nonexistent/lock cannot be locked: No such file or directory."),
        ({"inventory_dir": "/nonexistent"}, ["cycle"], "It could not be started: "),
    ],
)
def test_a_broken_installation_has_its_own_exit_status(controller, change, arguments, text):
    controller.settings.update(change)
    status, output = controller.run(*arguments)
    assert status == outcome.CONFIGURATION == 78, output
    assert text in output


def test_settings_that_cannot_be_read_are_named(controller):
    process = controller.start("cycle")
    process.communicate(timeout=300)
    config = controller.folder / "config.json"
    config.unlink()
    command = [sys.executable, "-m", f"{MODULE}.main", "--config", str(config), "--version-dir", "/", "cycle"]
    done = subprocess.run(
        command,
        env=dict(os.environ, PYTHONPATH=str(COLLECTIONS)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=60,
    )
    assert done.returncode == 78
    assert f"{config} cannot be read" in done.stdout.decode("utf-8")


class Repository:
    """A git repository with an inventory in the directory `site`."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        self.git("init", "--quiet")
        self.git("checkout", "--quiet", "-b", "main")
        self.commit("one")

    def git(self, *arguments):
        command = ["git", "-C", str(self.path)] + list(arguments)
        done = subprocess.run(command, env=dict(os.environ, **GIT_USER), stdout=subprocess.PIPE, timeout=60, check=True)
        return done.stdout.decode("ascii").strip()

    def commit(self, text, name="site/hosts.yml"):
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", text)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(controller):
    found = Repository(controller.folder / "repository")
    controller.settings["inventory_dir"] = None
    controller.settings["repository"] = {
        "url": str(found.path),
        "version": "main",
        "directory": "site",
        "max_age_s": 3600,
    }
    controller.script("cat hosts.yml")
    return found


@needs_git
def test_each_run_has_the_last_commit(controller, repository):
    assert controller.run("cycle")[1].startswith("one")
    commit = repository.commit("two")
    repository.commit("more", "site/more.yml")
    repository.git("rm", "--quiet", "site/more.yml")
    repository.git("commit", "--quiet", "--message", "less")
    status, output = controller.run("cycle")
    assert (status, output[:3]) == (0, "two")
    found = controller.outcome()["inventory"]
    assert found["error"] is None and found["commit"] != commit
    assert names(pathlib.Path(found["directory"])) == ["hosts.yml"]
    assert names(controller.state / "cycle" / "inventory") == sorted([found["commit"], "current"])
    # A tag or a commit.
    repository.git("tag", "stable", "main~3")
    controller.settings["repository"]["version"] = "stable"
    assert controller.run("cycle")[1].startswith("one")
    controller.settings["repository"]["version"] = commit
    assert controller.run("cycle")[1].startswith("two")


@needs_git
def test_a_repository_that_cannot_be_read_leaves_the_last_inventory_in_use(controller, repository):
    assert controller.run("cycle")[0] == 0
    repository.path.rename(repository.path.with_name("elsewhere"))
    status, output = controller.run("cycle")
    assert status == outcome.INVENTORY == 74
    assert "the inventory was not updated: git fetch" in output and "\none" in output
    assert controller.outcome()["message"].startswith("the inventory was not updated")
    assert controller.metrics()["inventory_updated"] == 0
    # A failed playbook determines the exit status.
    controller.script("exit 4")
    assert controller.run("cycle")[0] == 4
    # The controller does not run a playbook with an outdated inventory.
    updated = controller.state / "cycle" / "inventory_updated"
    os.utime(str(updated), (time.time() - 3700, time.time() - 3700))
    controller.script("echo ran")
    status, output = controller.run("cycle")
    assert (status, "ran\n" in output) == (74, False)
    age_s = int(re.search(r"Its last update is (\d+) s ago; at most 3600 s are allowed\.", output).group(1))
    assert age_s >= 3700


@needs_git
def test_without_any_inventory_nothing_runs(controller, repository):
    controller.settings["repository"]["version"] = "none"
    controller.script("echo ran")
    status, output = controller.run("cycle")
    assert (status, "ran\n" in output) == (74, False)
    assert controller.outcome()["inventory"]["directory"] is None


@needs_git
def test_an_interrupted_update_is_repeated(controller, repository):
    assert controller.run("cycle")[0] == 0
    state = controller.state / "cycle"
    for name in ("index.lock", "packed-refs.lock", "shallow.lock"):
        (state / "repository.git" / name).write_text("")
    half = state / "inventory" / "new"
    half.mkdir()
    (half / "hosts.yml").write_text("half")
    repository.commit("two")
    status, output = controller.run("cycle")
    assert (status, output[:3]) == (0, "two"), output
    assert not half.exists()


@needs_git
def test_a_commit_without_the_directory_is_not_used(controller, repository):
    assert controller.run("cycle")[0] == 0
    repository.git("mv", "site", "other")
    repository.git("commit", "--quiet", "--message", "moved")
    status, output = controller.run("cycle")
    assert status == 74 and "\none" in output
    assert "controller_inventory_directory: 'site' is not a directory of commit" in output


@needs_git
def test_a_directory_that_neither_the_last_nor_the_new_commit_has_is_an_error(controller, repository):
    assert controller.run("cycle")[0] == 0
    controller.settings["repository"]["directory"] = "other"
    status, output = controller.run("cycle")
    assert status == 74 and "one" not in output.splitlines()


@needs_git
@pytest.mark.parametrize("change", [{"url": 'https://geheim"@example.org'}, {"version": "--upload-pack=x"}])
def test_an_address_or_version_that_git_would_misread_is_refused(controller, repository, change):
    controller.settings["repository"].update(change)
    status, output = controller.run("cycle")
    assert status == 74 and "geheim" not in output
    assert "controller_inventory_repository must not contain a line break" in output


@needs_git
def test_the_repositorys_password_is_in_no_message(controller, repository):
    controller.settings["repository"]["url"] = "https://user:geheim@127.0.0.1:9/none.git"
    status, output = controller.run("cycle")
    assert status == 74 and "geheim" not in output + json.dumps(controller.outcome()), output


def test_the_metrics_are_in_the_text_format_of_prometheus():
    record = outcome.record("deploy", 1000, 1012.5, 4, "", {}, {"error": "x"}, "v", {"last_success_s": 900})
    lines = outcome.metrics("glidein-controller", record).splitlines()
    assert lines[:3] == [
        "# HELP glidein_controller_last_run_timestamp_seconds End of the last run.",
        "# TYPE glidein_controller_last_run_timestamp_seconds gauge",
        'glidein_controller_last_run_timestamp_seconds{controller="glidein-controller",playbook="deploy"} 1012.5',
    ]
    assert lines[-1].endswith(" 0")
    assert record["end"] == "1970-01-01T00:16:52Z"
