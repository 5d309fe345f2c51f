# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbook discover in a real ansible-playbook run, with a stand-in for site_facts that reads a file."""

import json
import pathlib
import re
import sys

import pytest
import yaml
from ansible_collections.glidein.ops.tests.unit.support.facts import facts, slurm_machine
from ansible_collections.glidein.ops.tests.unit.support.facts import queue as facts_queue
from ansible_collections.glidein.ops.tests.unit.support.playbooks import run_playbook

ROOT = pathlib.Path(__file__).resolve().parents[3]
HOST = "login.example.edu"
SITE_FACTS = """#!/usr/bin/python
import json
import os
from ansible.module_utils.basic import AnsibleModule

OPTIONS = {
    "scheduler": {"type": "str"},
    "commands": {"type": "dict"},
    "controller_time": {"type": "float"},
    "connect": {"type": "list", "elements": "str"},
    "timeout": {"type": "int"},
}


def main():
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    with open("FOLDER/options.json", "w") as handle:
        json.dump(module.params, handle)
    own = "FOLDER/%s.json" % module.params["scheduler"]
    with open(own if os.path.exists(own) else "FOLDER/facts.json") as handle:
        module.exit_json(changed=False, facts=json.load(handle))


if __name__ == "__main__":
    main()
"""

NODE_PROBE = """#!/usr/bin/python
import json
import os
from ansible.module_utils.basic import AnsibleModule

OPTIONS = "state deployment site scheduler scheduler_options entries script addresses cvmfs limits home log_dir".split()


def main():
    module = AnsibleModule(argument_spec={name: {"type": "raw"} for name in OPTIONS}, supports_check_mode=True)
    path = "FOLDER/left.json"
    left = json.load(open(path)) if os.path.exists(path) else []
    # Without the probe, discovery only looks for what is there.
    nodes = {} if module.check_mode else json.load(open("FOLDER/nodes.json"))
    module.exit_json(changed=False, left=left, nodes=nodes, unfinished=0, waited_s=0, msg="reported")


if __name__ == "__main__":
    main()
"""
# Modules of the login node and their stand-ins.
STAND_INS = {"site_facts.py": SITE_FACTS, "node_probe.py": NODE_PROBE}


@pytest.fixture
def collections(tmp_path):
    """Return a collections path with this collection, in which site_facts and node_probe are stand-ins."""
    folder = tmp_path / "collections"
    target = folder / "ansible_collections" / "glidein" / "ops"
    modules = target / "plugins" / "modules"
    modules.mkdir(parents=True)
    for source, links in ((ROOT, target), (ROOT / "plugins", target / "plugins"), (ROOT / "plugins/modules", modules)):
        for path in source.iterdir():
            if not path.name.startswith(".") and path.name not in ("plugins", "modules", *STAND_INS):
                (links / path.name).symlink_to(path)
    for name, text in STAND_INS.items():
        (modules / name).write_text(text.replace("FOLDER", str(tmp_path)))
    return folder


class Play:
    """A run of the playbook. shown: {name of a task that shows lines: the lines}."""

    def __init__(self, status, output):
        self.status = status
        self.output = output
        tasks = re.findall(r"^TASK \[(Show [^\]]*)\][^\n]*\n(.*?)\n\n(?=TASK|PLAY)", output, re.MULTILINE | re.DOTALL)
        # The first of several hosts.
        self.shown = {name: text.partition("\nok: [")[0] for name, text in tasks if not text.startswith("skipping:")}

    @property
    def summary(self):
        return self.shown["Show the proposal"]


@pytest.fixture
def play(tmp_path, collections):
    """Run the playbook in an empty directory, with hosts that are this machine."""
    work = tmp_path / "work"
    work.mkdir()

    def run(known, *arguments, inventory=f"{HOST},"):
        (tmp_path / "facts.json").write_text(json.dumps(known))
        arguments = ["-i", inventory, "-c", "local", "-e", f"ansible_python_interpreter={sys.executable}", *arguments]
        return Play(*run_playbook("glidein.ops.discover", *arguments, folder=work, collections=collections))

    run.work = work
    run.options = lambda: json.loads((tmp_path / "options.json").read_text())
    return run


def test_one_host_without_an_inventory_gets_a_whole_inventory(play):
    done = play(slurm_machine(), "-u", "pilot")
    assert done.status == 0, done.output
    variables = yaml.safe_load((play.work / "host_vars" / f"{HOST}.yml").read_text())
    assert list(variables["glidein_entries"]) == ["RM", "GPU", "RM-shared"]
    hosts = yaml.safe_load((play.work / "hosts.yml").read_text())["all"]["children"]
    assert hosts["glidein_sites"] == {"hosts": {HOST: None}}
    pool = yaml.safe_load((play.work / "group_vars" / "all.yml").read_text())
    assert pool["glidein_collector"] == "{{ groups.glidein_central_manager | first }}:9618"
    assert "GPU-other    AllowAccounts=xyz: none of the user's accounts" in done.summary
    assert "glidein.ops.deploy" in done.summary
    assert max(map(len, done.summary.splitlines())) <= 88  # and 11 columns of Ansible, in a terminal of 100
    settings = (play.work / "ansible.cfg").read_text()
    assert settings == (ROOT / "inventories" / "example" / "ansible.cfg").read_text()


def test_the_summary_is_readable_without_settings(play):
    done = play(slurm_machine())
    # The result format is JSON, as without an ansible.cfg.
    assert "\nTASK [Show the proposal] *" in done.output
    assert done.summary.startswith(f"{HOST}: slurm 23.11.4, cluster bridges2, user pilot\n\nENTRIES\n")
    assert "  RM-shared, " not in done.summary and '"' not in done.summary.partition("TODO")[0]


def test_other_callbacks_get_the_summary_as_a_result(play, monkeypatch):
    monkeypatch.setenv("ANSIBLE_STDOUT_CALLBACK", "ansible.builtin.minimal")
    done = play(slurm_machine())
    assert f'"{HOST}: slurm 23.11.4, cluster bridges2, user pilot",' in done.output
    assert "\nENTRIES\n" not in done.output


def test_open_questions_are_counted_before_the_next_command(play):
    done = play(slurm_machine())
    number = (play.work / "host_vars" / f"{HOST}.yml").read_text().count("# TODO") + 1
    text = " ".join(done.summary.split())
    assert f"{number} TODOs must be answered first, in host_vars/{HOST}.yml and hosts.yml. Next: " in text
    assert "hosts.yml: name the central manager's host instead of cm.example.org" in text
    # An existing file is used as it is: without TODO, its questions count as answered.
    path = play.work / "host_vars" / f"{HOST}.yml"
    path.write_text(path.read_text().replace("# TODO", "#"))
    later = play(slurm_machine())
    assert "must be answered" not in later.summary and "hosts.yml" not in later.summary
    assert f"glidein.ops.deploy, with {HOST} in the group glidein_sites" in " ".join(later.summary.split())


def test_jobs_that_a_probe_has_left_are_named(play, tmp_path):
    left = ["job 6 (p7720c-61d0b2f0)", f"/home/pilot/.glidein/node_probe.{HOST}"]
    (tmp_path / "left.json").write_text(json.dumps(left))
    done = play(slurm_machine())
    text = " ".join(done.summary.split())
    assert f"A probe that runs or was interrupted has left {', '.join(left)}. To remove it, run discover with" in text


def test_probe_measurements_are_explained_and_kept_by_a_later_discovery(play, tmp_path):
    seen = {"cpus": 2, "memory_mb": 23280, "limits_enforced": {"memory": False, "cpus": None}, "error": None}
    (tmp_path / "nodes.json").write_text(json.dumps({"batch": seen}))
    known = facts(facts_queue("batch"))
    done = play(known, "-e", "discover_probe=true")
    assert done.status == 0, done.output
    path = play.work / "host_vars" / f"{HOST}.yml"
    assert "# probe: 2 cores, 23280 MB; the batch system states 32 cores, 64000 MB" in path.read_text()
    assert "is as proposed" in play(known).summary


def test_a_misspelt_variable_is_a_note(play, tmp_path):
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"glidein_sites": {"hosts": {HOST: {"glidein_limts": {"total": 3}}}}}))
    done = play(slurm_machine(), inventory=str(path))
    assert done.status == 0, done.output
    assert "glidein_limts: unknown variable" in " ".join(done.summary.split())


def test_an_existing_file_is_kept_and_the_differences_are_shown(play):
    play(slurm_machine())
    path = play.work / "host_vars" / f"{HOST}.yml"
    edited = path.read_text().replace("walltime: 48h", "walltime: 24h") + "glidein_demand_token: topsecret\n"
    path.write_text(edited)
    done = play(slurm_machine())
    assert done.status == 0, done.output
    assert path.read_text() == edited
    assert "+    walltime: 48h" in done.shown["Show the differences from the existing file"]
    assert "RM: the queue now allows 48h, the entry asks for 24h" in done.summary
    assert "exists and is not changed" in done.summary
    assert "topsecret" not in done.output
    assert "\n+    walltime: 48h" in done.output


def test_the_differences_of_a_written_file_are_shown_once(play):
    play(facts(facts_queue("old")))
    done = play(facts(facts_queue("new")), "-e", "discover_write=true", "--diff")
    assert done.output.count("+    queue: new") == 1
    done = play(facts(facts_queue("newer")), "-e", "discover_write=true")
    assert done.output.count("+    queue: newer") == 1


def test_discover_write_replaces_the_file_and_keeps_a_copy(play):
    play(facts(facts_queue("old")))
    done = play(facts(facts_queue("new")), "-e", "discover_write=true", "--diff")
    assert done.status == 0, done.output
    folder = play.work / "host_vars"
    assert "queue: new" in (folder / f"{HOST}.yml").read_text()
    (copy,) = folder.glob("*~")
    assert "queue: old" in copy.read_text()
    assert "old: queue old does not exist" in done.summary
    again = play(facts(facts_queue("new")), "-e", "discover_write=true")
    assert "changed=0" in again.output
    assert len(list(folder.glob("*~"))) == 1


def test_discover_write_keeps_the_variables_that_it_does_not_propose(play):
    play(slurm_machine())
    path = play.work / "host_vars" / f"{HOST}.yml"
    own = "glidein_demand_token: topsecret\nglidein_checks:\n- a\n# not a comment of the next one\n"
    path.write_text(path.read_text() + own)
    done = play(slurm_machine(), "-e", "discover_write=true", "--diff")
    assert done.status == 0, done.output
    assert path.read_text().endswith(
        "\n# Variables that discovery does not propose:\nglidein_demand_token: topsecret\nglidein_checks:\n- a\n"
    )
    assert "glidein_demand_token" not in done.summary and "TODO: insert the site's own secret" not in path.read_text()
    assert "topsecret" not in done.output
    again = play(slurm_machine(), "-e", "discover_write=true")
    assert "changed=0" in again.output


def test_an_encrypted_file_is_replaced_and_the_summary_lists_lost_variables(play):
    path = play.work / "host_vars" / f"{HOST}.yml"
    path.parent.mkdir()
    path.write_text("$ANSIBLE_VAULT;1.1;AES256\n6162\n")
    done = play(slurm_machine(), "-e", "discover_write=true")
    assert "is encrypted or invalid: only the copy has its other variables" in " ".join(done.summary.split())


def test_a_token_that_the_host_has_is_not_requested(play):
    done = play(slurm_machine(), "-e", "glidein_demand_token=topsecret")
    assert "glidein_demand_token" not in done.summary
    assert "glidein_demand_token" not in (play.work / "host_vars" / f"{HOST}.yml").read_text()


def test_a_new_inventory_is_written_although_the_first_host_has_no_usable_queue(play, tmp_path):
    (tmp_path / "sge.json").write_text(json.dumps(facts(scheduler=None, version=None, queues=[])))
    scheduler = "{{ 'sge' if inventory_hostname == 'first' else 'slurm' }}"
    done = play(slurm_machine(), "-e", json.dumps({"discover_scheduler": scheduler}), inventory=f"first,{HOST},")
    assert done.status == 0, done.output
    assert sorted(path.name for path in (play.work / "host_vars").iterdir()) == [f"{HOST}.yml"]
    assert (play.work / "hosts.yml").exists() and (play.work / "group_vars" / "all.yml").exists()


def test_a_file_that_cannot_be_written_is_named(play):
    (play.work / "host_vars").write_text("")
    done = play(slurm_machine())
    assert done.status == 2
    assert f"{play.work}/host_vars/{HOST}.yml cannot be read or written: Not a directory" in done.output


def test_check_mode_writes_nothing(play):
    done = play(slurm_machine(), "--check", "--diff")
    assert done.status == 0, done.output
    assert list(play.work.iterdir()) == []
    assert "+  RM:" in done.output
    assert "would be written" in done.summary


def test_without_a_batch_system_nothing_is_written(play):
    done = play(facts(scheduler=None, version=None, queues=[]))
    assert done.status == 0, done.output
    assert list(play.work.iterdir()) == []
    assert "glidein_scheduler: no batch system was found" in done.summary
    assert "ansible-vault encrypt_string" in done.summary and "the file" not in done.summary
    assert done.summary.endswith("Nothing was written.")
    assert "hosts.yml" not in done.summary


def test_an_inventory_has_the_file_beside_it_and_its_variables_are_used(play, tmp_path):
    folder = tmp_path / "inventory"
    folder.mkdir()
    site = {
        "glidein_scheduler": "slurm",
        "glidein_scheduler_options": {"commands": {"sinfo": ["/opt/slurm/bin/sinfo"]}},
        "glidein_collector": "cm.example.org",
        "glidein_demand_url": "https://demand.example.org",
        "glidein_entries": {"gone": {"queue": "gone", "walltime": "2h", "node": {"cpus": 1}}},
    }
    site["glidein_entries"]["gone"]["node"] = {"cpus": 1, "memory_mb": 2000, "disk_mb": 1000}
    children = {"glidein_sites": {"hosts": {"a.example.edu": site}}, "others": {"hosts": {"cm.example.org": {}}}}
    (folder / "hosts.json").write_text(json.dumps({"all": {"children": children}}))
    done = play(slurm_machine(), inventory=str(folder))
    assert done.status == 0, done.output
    assert sorted(path.name for path in folder.rglob("*.yml")) == ["a.example.edu.yml"]
    assert list(play.work.iterdir()) == []
    assert "gone: queue gone does not exist" in done.summary
    asked = play.options()
    assert asked["scheduler"] == "slurm"
    assert asked["commands"] == {"sinfo": ["/opt/slurm/bin/sinfo"]}
    assert asked["connect"] == ["cm.example.org:9618", "https://demand.example.org"]


def test_a_site_without_a_session_is_not_contacted(play, tmp_path):
    done = play(
        slurm_machine(),
        "-c",
        "ssh",
        "-e",
        json.dumps(
            {
                "glidein_ssh_session": True,
                "glidein_ssh_session_dir": "/nonexistent/glidein-sessions",
                "ansible_ssh_args": "{{ lookup('glidein.ops.ssh_session_args') }}",
            }
        ),
    )
    assert done.status != 0
    assert "glidein.ops.login" in done.output
    assert not (tmp_path / "options.json").exists()
