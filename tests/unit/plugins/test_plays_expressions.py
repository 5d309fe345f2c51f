# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of decisive expressions in plays and roles."""

import pathlib
import time

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.test.core import match
from ansible.template import Templar
from jinja2.nativetypes import NativeEnvironment

try:
    from ansible.template import trust_as_template
except ImportError:  # ansible-core before 2.19
    trust_as_template = str

ROOT = pathlib.Path(__file__).parents[3]
PATTERNS = ("playbooks/*.yml", "playbooks/*/*.yml", "roles/*/tasks/*.yml", "roles/*/handlers/*.yml")
FILES = sorted(path for pattern in PATTERNS for path in ROOT.glob(pattern))
_INHERITED = ("delegate_to", "run_once")
ADD_HOST = "ansible.builtin.add_host"
IMPORT = "ansible.builtin.import_role"
# The inventory may say for all hosts how to become root and which Python to use, and may name localhost.
ON_THE_CONTROLLER = {
    "ansible_become": False,
    "ansible_connection": "local",
    "ansible_python_interpreter": "{{ ansible_playbook_python }}",
}


def tasks_of(items, inherited=None):
    """Yield the tasks of a list of plays, blocks and tasks, each with the keywords that it inherits."""
    for item in items:
        above = inherited or {}
        known = {**{key: above[key] for key in _INHERITED if key in above}, **item}
        known["vars"] = {**above.get("vars", {}), **(item.get("vars") or {})}
        nested = [task for key in ("pre_tasks", "tasks", "block", "rescue", "always") for task in item.get(key) or []]
        if nested:
            yield from tasks_of(nested, known)
        elif "hosts" not in item:
            yield known


class Loader(yaml.SafeLoader):
    """A loader that reads texts with the tag !unsafe, which Ansible does not evaluate."""


Loader.add_constructor("!unsafe", Loader.construct_yaml_str)
LOADED = {path: yaml.load(path.read_text(encoding="utf-8"), Loader) or [] for path in FILES}  # noqa: S506 - see Loader
PLAYS = [play for items in LOADED.values() for play in items if "hosts" in play]
TASKS = [(f"{path.relative_to(ROOT)}: {task['name']}", task) for path in FILES for task in tasks_of(LOADED[path])]


def fact_of(path, task, name, **variables):
    """Return the value that a set_fact task sets a fact to, with these variables."""
    loaded = yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))
    tasks = loaded[0].get("tasks", loaded)
    facts = next(each for each in tasks if each["name"] == task)["ansible.builtin.set_fact"]
    environment = NativeEnvironment()  # noqa: S701
    environment.tests.update(match=match)
    environment.filters["dict2items"] = lambda pairs: [{"key": key, "value": value} for key, value in pairs.items()]
    return environment.from_string(facts[name]).render(variables)


@pytest.mark.parametrize("end, unfit", [("", []), ("\n", ["lab"]), (" ", ["lab"])])
def test_a_token_with_a_line_break_is_unfit(end, unfit):
    path = "roles/demand_server/tasks/preflight.yml"
    tokens = {"lab": "0123456789abcdef" + end}
    found = fact_of(path, "Find invalid tokens", "__demand_server_invalid_tokens", demand_server_site_tokens=tokens)
    assert found == unfit


def test_tasks_of_the_controller_use_its_user_and_its_python():
    controllers = [(name, task["vars"]) for name, task in TASKS if task.get("delegate_to") == "localhost"]
    assert len(controllers) > 10
    wrong = {name for name, variables in controllers if not ON_THE_CONTROLLER.items() <= variables.items()}
    assert wrong == set()


def test_a_play_for_localhost_uses_the_users_own_account_and_python():
    found = [play["vars"] for play in PLAYS if play["hosts"] == "localhost"]
    assert found
    assert [variables for variables in found if not ON_THE_CONTROLLER.items() <= variables.items()] == []


def trusted(value):
    """Return a value whose texts are templates."""
    if isinstance(value, dict):
        return {key: trusted(inner) for key, inner in value.items()}
    return trust_as_template(value) if isinstance(value, str) else value


def written_variables(name, task):
    """Return the variables of a task as they are written: its own, those of its plays, and those of its role."""
    found = {"groups": {}, "hostvars": {}, "inventory_hostname": "login"}
    for play in PLAYS:
        if any(each["name"] == task["name"] for each in tasks_of([play])):
            found.update(play.get("vars", {}))
    for part in ("defaults", "vars") if name.startswith("roles/") else ():
        path = ROOT / "roles" / name.split("/")[1] / part / "main.yml"
        found.update(yaml.safe_load(path.read_text(encoding="utf-8")) or {} if path.exists() else {})
    return {**found, **task["vars"]}


@pytest.mark.parametrize("name, task", [each for each in TASKS if "delegate_to" in each[1]])
def test_a_delegated_task_names_a_host_even_if_it_will_be_skipped(name, task):
    # Ansible evaluates delegate_to before `when`, and an undefined or empty name is an error.
    templar = Templar(loader=DataLoader(), variables=trusted(written_variables(name, task)))
    assert templar.template(trusted(task["delegate_to"])).strip()


@pytest.mark.parametrize("state", [5, {}, {"database": 5}])
def test_settings_that_are_not_text_reach_the_check_of_the_demand_server(state):
    variables = {"demand_server_settings": {"state": state}}
    for part in ("defaults", "vars"):
        text = (ROOT / "roles/demand_server" / part / "main.yml").read_text(encoding="utf-8")
        variables = {**yaml.safe_load(text), **variables}
    templar = Templar(loader=DataLoader(), variables=trusted(variables))
    assert templar.template(trusted("{{ __demand_server_driver }}")) == []


@pytest.mark.parametrize("is_by_ssh", [False, True])
def test_only_a_gateway_with_a_schedd_needs_the_collector(is_by_ssh):
    task = dict(TASKS)["roles/gateway/tasks/present.yml: Assert that the gateway's variables are valid"]
    templar = Templar(loader=DataLoader(), variables={"glidein_gateway_ssh": is_by_ssh})
    names = templar.template(trusted(task["glidein.ops.inventory_check"]["names"]))
    assert ("glidein_collector" in names) != is_by_ssh
    assert "glidein_site" in names


@pytest.mark.parametrize(
    "versions, removed, is_removed",
    [
        ("new", "", True),
        ("old new", "", False),
        ("old new", "old", True),
        ("older old new", "old", False),
        # The first deployment of this version: queue_info did not find it.
        ("old", "", False),
        ("old", "old", True),
        ("", "", True),
    ],
)
def test_the_token_of_a_site_that_uses_the_pool_password_is_removed_after_the_versions_that_need_it(
    versions, removed, is_removed
):
    name = "Remove the token of a site that uses the pool password when no glidein uses another version"
    task = dict(TASKS)[f"roles/site/tasks/main.yml: {name}"]
    items = [{"kind": "version", "name": each} for each in removed.split()]
    variables = {
        "glidein_credential": "pool_password",
        "__site_payload": {"missing": []},
        "__site_queue": {"queue": {"versions": dict.fromkeys(versions.split(), {})}},
        "__site_version": {"version": "new"},
        "__site_cleaned": {"removed": [{"kind": "remains", "name": "x"}, *items]} if removed else {"skipped": True},
    }
    templar = Templar(loader=DataLoader(), variables=trusted(variables))
    assert all(templar.template(trusted(f"{{{{ {each} }}}}")) for each in task["when"]) == is_removed


def test_a_gateway_is_removed_after_the_sites_that_cancel_glideins_through_it():
    tasks = list(tasks_of(LOADED[ROOT / "playbooks/remove.yml"]))
    conditions = [task.get("when", "") for task in tasks if "glidein.ops.site_removal" in task]
    gateway = next(task for task in tasks if task["name"] == "Remove the gateway")
    assert gateway["vars"]["gateway_cancel_jobs"] == "{{ remove_cancel_running | default(false) | bool }}"
    # First the other sites, last the site of the gateway's login node.
    assert conditions == [f"not {gateway['when']}", gateway["when"]]
    removals = [number for number, task in enumerate(tasks) if "glidein.ops.site_removal" in task]
    assert removals[0] < tasks.index(gateway) < removals[1]


@pytest.mark.parametrize(
    "row, limited_by, words",
    [
        ({"never_starts": 1, "sick_reasons": ["PartitionTimeLimit"]}, None, "cannot start (PartitionTimeLimit), and"),
        ({"never_starts": 0, "sick_reasons": []}, "limit of 0 queued glideins reached", "limit of 0 queued glideins"),
        ({"never_starts": 0, "sick_reasons": []}, None, "the queue has changed meanwhile, try again"),
    ],
)
def test_a_probe_names_the_reason_why_nothing_was_submitted(row, limited_by, words):
    task = dict(TASKS)["playbooks/probe.yml: Assert that the glidein was submitted"]
    decided = {"decisions": [{"limited_by": limited_by}], "submitted": []}
    variables = {"probe_entry": "RM", "probe_shape": "core", "probe_row": row, "probe_glideins": decided}
    templar = Templar(loader=DataLoader(), variables=trusted(variables))
    assert words in templar.template(trusted(task["ansible.builtin.assert"]["fail_msg"]))


@pytest.mark.parametrize("begun_s, result, is_over", [(899, {}, False), (901, {}, True), (0, {"registered": 1}, True)])
def test_a_probe_ends_after_its_patience_however_long_each_reading_takes(begun_s, result, is_over):
    name = "Follow the glidein until it has joined the pool or has ended (FAILED - RETRYING means that it has not yet)"
    task = dict(TASKS)[f"playbooks/probe.yml: {name}"]
    # As of set_fact and of -e, in ansible-core before 2.19: texts.
    variables = {"probe_begun": str(time.time() - begun_s), "probe_patience_s": "900", "probe_result": result}
    templar = Templar(loader=DataLoader(), variables=variables)
    assert templar.template(trusted(f"{{{{ {task['until']} }}}}")) is is_over
    assert templar.template(trusted(f"{{{{ {task['retries'].strip('{} ')} * {task['delay']} }}}}")) > 900


def test_a_host_that_cannot_be_reached_is_an_error_unless_a_report_names_it():
    assert {play["name"] for play in PLAYS if play.get("ignore_unreachable")} == {
        *("Read the batch queues", "Show demand and the glideins of all sites"),  # of status and explain
        "Match idle jobs with sites and apply the plan",  # of cycle
        *("Find tokens that end soon", "Renew tokens that end soon on the central manager"),
    }


def needs_linear(play):
    """Return whether a play has what the strategy `free` does not support."""
    tasks = list(tasks_of([play]))
    return play.get("any_errors_fatal") or any(task.get("run_once") or ADD_HOST in task for task in tasks)


def test_plays_that_need_the_strategy_linear_ask_for_it():
    needy = {play["name"] for play in PLAYS if needs_linear(play)}
    assert len(needy) > 10
    linear = {play["name"] for play in PLAYS if play.get("strategy") == "ansible.builtin.linear"}
    # With `free`, status and explain would print the heading of each task for each host.
    assert needy | {"Read the batch queues"} == linear
    # Roles are used by plays of operators, which would have to ask for it.
    of_roles = [(name, task) for name, task in TASKS if name.startswith("roles/")]
    assert not [name for name, task in of_roles if task.get("run_once") or ADD_HOST in task]


def test_a_run_without_a_host_ends_with_an_error():
    # Ansible itself ends it without one: a misspelt group would look like a success.
    playbooks = {path.name: items for path, items in LOADED.items() if path.parent == ROOT / "playbooks"}
    key = "ansible.builtin.import_playbook"
    imported = {name: [item.get(key) for item in items] for name, items in playbooks.items()}
    assert {name for name, paths in imported.items() if paths[0] != "imported/hosts_exist.yml"} == {
        *("awx.yml", "migrate.yml"),  # for localhost
        *("discover.yml", "login.yml", "logout.yml"),  # for any host
        "explain.yml",
    }
    assert "imported/hosts_exist.yml" in imported["explain.yml"]


@pytest.mark.parametrize("playbook", ["deploy", "revoke"])
def test_glideins_of_revoked_sites_are_removed_after_all_that_their_removal_must_not_stop(playbook):
    plays = [play for play in LOADED[ROOT / f"playbooks/{playbook}.yml"] if "hosts" in play]
    imported = [task[IMPORT] for play in plays for task in play.get("tasks", []) if IMPORT in task]
    assert imported[0] == {"name": "glidein.ops.revocation", "tasks_from": "refuse"}
    assert [task[IMPORT] for task in plays[-1]["tasks"]] == [
        {"name": "glidein.ops.revocation", "tasks_from": "glideins"}
    ]


def test_no_path_depends_on_the_callers_environment():
    assert not [path for path in FILES if "'PWD'" in path.read_text(encoding="utf-8")]
