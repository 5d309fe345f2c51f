# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the site modules' action plugins: options from host variables, and time limits."""

import subprocess

import pytest
from ansible.plugins.action.normal import ActionModule as NormalActionModule
from ansible_collections.glidein.ops.plugins.action import glideins
from ansible_collections.glidein.ops.plugins.action.glideins import ActionModule as GlideinsAction
from ansible_collections.glidein.ops.plugins.action.node_probe import ActionModule as NodeProbeAction
from ansible_collections.glidein.ops.plugins.action.queue_info import ActionModule as QueueAction
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.plugin_utils.site_action import (
    SiteActionModule,
    failure_message,
)
from ansible_collections.glidein.ops.tests.unit.support.builders import raw_entry

NO_JSON = "Module result deserialization failed: No start of json char found"
VARIABLES = {"inventory_hostname": "login1", "glidein_scheduler": "slurm", "glidein_entries": {"main": {}}}


class Task:
    """The part of Ansible's task that the action plugins use."""

    def __init__(self, args, check_mode=False, module="queue_info"):
        self.args = args
        self.action = f"glidein.ops.{module}"
        self.check_mode = check_mode


class Templar:
    """A stand-in for Ansible's Templar: it fails for a variable that refers to an undefined one."""

    def template(self, value):
        if value == "{{ missing }}":
            raise ValueError("'missing' is undefined")
        return value


def action_of(cls, args, check_mode=False):
    action = cls.__new__(cls)
    module = {GlideinsAction: "glideins", NodeProbeAction: "node_probe"}.get(cls, "queue_info")
    action._task, action._templar = Task(args, check_mode, module), Templar()
    return action


def options(cls=QueueAction, args=None, **variables):
    return action_of(cls, args or {})._options(dict(VARIABLES, **variables))


def test_missing_options_default_to_the_hosts_variables():
    assert options(glidein_home="/data", glidein_limits=None, glidein_collector="cm") == {
        "deployment": "glidein",
        "site": "login1",
        "scheduler": "slurm",
        "entries": {"main": {}},
        "home": "/data",
    }
    assert options(glidein_site="lab", glidein_deployment="pool")["site"] == "lab"
    assert options(GlideinsAction, glidein_collector="cm", glidein_log_days=3)["log_days"] == 3


def test_the_options_of_a_ce_are_variables_of_the_host():
    variables = {"glidein_scheduler": "htcondor_ce", "glidein_ce": "ce:9619", "glidein_queue_wait": "1d"}
    assert options(**variables)["scheduler_options"] == {"ce": "ce:9619", "queue_wait": "1d"}
    both = dict(variables, glidein_scheduler_options={"schedd": "ce@", "queue_wait": "2d"})
    assert options(**both)["scheduler_options"] == {"ce": "ce:9619", "schedd": "ce@", "queue_wait": "2d"}
    assert options(args={"scheduler_options": {"schedd": "ce@"}}, **variables)["scheduler_options"]["ce"] == "ce:9619"
    assert "scheduler_options" not in options(**{**variables, "glidein_scheduler": "slurm"})


def test_the_form_for_uploads_lasts_for_the_wait_in_the_queue_and_the_walltime(monkeypatch):
    asked = []
    monkeypatch.setattr(glideins, "signed_form", lambda *given: asked.append(given) or "url x")
    bucket = {"bucket": "logs", "access_key": "lab", "secret_key": "lab-key"}
    action = action_of(GlideinsAction, {"site": "lab", "entries": {"main": raw_entry(walltime="2h")}})
    assert action._signed_form(bucket, {"glidein_queue_wait": "1d"}) == "url x"
    assert asked[0][1:] == ("lab", 86400 + 7200)


def test_the_probe_of_nodes_gets_its_script_and_the_settings_of_the_batch_job():
    given = options(NodeProbeAction, glidein_scratch="/scratch", glidein_modules=["apptainer"])
    assert (given["scratch"], given["modules"], given["scheduler"]) == ("/scratch", ["apptainer"], "slurm")
    assert given["script"].startswith("#!/bin/sh\n")
    assert given["script"].endswith("\nfact end 0\n")


@pytest.fixture
def probe(monkeypatch):
    """Return a function that runs a whole probe with these results of the module.

    It returns the result, the states of the runs, and the time waited.
    """
    clock = [0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", lambda seconds: clock.append(clock.pop() + seconds))

    def run(wait, *results):
        left, states = list(results), []

        def run_module(action, *_arguments):
            states.append(action._task.args["state"])
            return left.pop(0)

        monkeypatch.setattr(SiteActionModule, "_run_module", run_module)
        result = action_of(NodeProbeAction, {"wait": wait})._run_module(None, VARIABLES)
        assert not left
        return result, " ".join(states), clock[0]

    return run


WAITING = {"changed": True, "unfinished": 2, "waited_s": 9, "nodes": {}, "msg": "2 queued"}
ENDED = {"changed": True, "unfinished": 0, "waited_s": 0, "nodes": {"a": {}}, "msg": "reported"}
BUSY = {"failed": True, "msg": "busy"}
REPORTED = {"changed": True, "nodes": {"a": {}}, "msg": "reported"}


def test_a_probe_waits_for_the_reports_without_a_failure_in_the_output_and_removes_its_files(probe, capsys):
    found = probe("900", WAITING, WAITING, BUSY, WAITING, ENDED, ENDED)
    assert found == (REPORTED, "submitted read read read read absent", 30)
    shown = capsys.readouterr().out
    assert "[login1] Waiting for 2 reports of compute nodes" in shown
    assert "FAILED" not in shown


def test_a_probe_waits_no_longer_than_it_should(probe):
    late = dict(WAITING, waited_s=901)
    assert probe(900, WAITING, late, ENDED) == (REPORTED, "submitted read absent", 0)
    assert probe(0, WAITING, BUSY, ENDED)[1:] == ("submitted read absent", 0)
    assert probe(25, WAITING, *[BUSY] * 4, ENDED)[1:] == ("submitted read read read read absent", 30)
    assert probe("soon")[0]["msg"] == "wait: 'soon' is invalid; expected a whole number of seconds"


@pytest.mark.parametrize(("state", "more_s"), [("queued", 0), ("running", 660), ("completing", 660), ("gone", 660)])
def test_a_job_that_has_started_when_the_patience_ends_has_time_for_its_report(probe, state, more_s):
    late = dict(WAITING, waited_s=900, nodes={"a": {"state": "reported"}, "b": {"state": state}})
    over = dict(late, waited_s=900 + more_s)
    # A reading that failed does not change what is known.
    readings = [late, BUSY, over] if more_s else [late]
    assert probe(900, late, *readings, ENDED)[1] == " ".join(["submitted", *["read"] * len(readings), "absent"])


def test_a_probe_that_failed_leaves_a_gap(probe):
    gap = {"changed": False, "nodes": {}, "msg": "busy"}
    assert probe(900, BUSY, {"failed": True, "msg": "cannot be removed"}) == (gap, "submitted absent", 0)
    assert probe(900, ENDED, BUSY)[0] == dict(gap, changed=True)


def test_a_probe_whose_options_cannot_be_read_leaves_a_gap():
    unreadable = dict(VARIABLES, glidein_environment="{{ missing }}")
    reason = "glidein_environment: it refers to an undefined variable: 'missing' is undefined"
    gap = {"changed": False, "nodes": {}, "msg": reason}
    assert action_of(NodeProbeAction, {"wait": 900}).run(None, unreadable) == gap
    failure = {"failed": True, "changed": False, "msg": reason}
    assert action_of(NodeProbeAction, {"state": "absent"}).run(None, unreadable) == failure


class TaskTimeoutError(BaseException):
    """A stand-in for Ansible's error of that name."""


def test_a_task_that_reaches_its_time_limit_leaves_no_process_and_removes_nothing(monkeypatch):
    started = []

    def hang(_self, _tmp, _task_vars):
        process = subprocess.Popen(["sleep", "97"])
        started.append(process)
        raise TaskTimeoutError("Timed out after 300 second(s).")

    monkeypatch.setattr(NormalActionModule, "run", hang)
    action = action_of(GlideinsAction, {"plan": None})
    action._task.timeout = 300
    result = action.run(None, dict(VARIABLES, glidein_collector="cm"))
    assert (result["failed"], result["timed_out"]) == (True, True)
    assert result["msg"].startswith("the login node did not return a result within 300 s (glidein_site_timeout): ")
    assert result["msg"].endswith("; submissions may have been made before: the next cycle counts again")
    assert started[0].poll() is not None
    # Any attempt to use the missing connection fails.
    action.cleanup()


def test_an_option_of_the_task_replaces_a_variable_that_is_not_even_read():
    assert options(args={"scheduler": "sge"}, glidein_scheduler="{{ missing }}")["scheduler"] == "sge"


@pytest.mark.parametrize(
    "cls, variables, name",
    [(QueueAction, {"glidein_entries": None}, "glidein_entries"), (GlideinsAction, {}, "glidein_collector")],
)
def test_a_variable_that_is_missing_is_named(cls, variables, name):
    with pytest.raises(InputError) as error:
        options(cls, **variables)
    assert str(error.value) == f"{name}: missing for login1; docs/variables.md describes it"


@pytest.mark.parametrize(
    "printed",
    [
        # From ansible-core 2.19 on Python 3.6 and 3.7.
        '  File "AnsiballZ_queue_info.py", line 3\n    from __future__ import annotations\n    ^\n'
        "SyntaxError: future feature annotations is not defined",
        "ansible-core requires a minimum of Python version 3.8. Current version: 3.7.16 (default)",
    ],
)
@pytest.mark.parametrize("message", [NO_JSON, "MODULE FAILURE\nSee stdout/stderr for the exact error"])
def test_a_login_node_with_an_old_python_is_reported_with_the_remedy(message, printed):
    failed = {"failed": True, "msg": message, "module_stdout": "", "module_stderr": printed}
    assert failure_message(failed).startswith("the Python of the login node is too old for ansible-core 2.")
    assert "ansible_python_interpreter" in failure_message(failed)


@pytest.mark.parametrize(
    "message, shown",
    [
        (NO_JSON, "the login node did not return a module's result: 'Password expired'"),
        ("Site lab: squeue failed", "Site lab: squeue failed"),
    ],
)
def test_a_login_node_that_returns_no_result_is_quoted_and_any_other_failure_keeps_its_message(message, shown):
    failed = {"failed": True, "msg": message, "module_stdout": "Password expired", "module_stderr": ""}
    assert failure_message(failed) == shown
