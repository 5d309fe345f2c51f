# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the playbook discover in real ansible-playbook runs, with a stand-in for site_facts that reads a file."""

import json
import re
import sys

import pytest
import yaml
from ansible_collections.glidein.ops.tests.playbooks.ansible_runs import ROOT, run_playbook
from ansible_collections.glidein.ops.tests.unit.support.facts import account, facts, slurm_machine
from ansible_collections.glidein.ops.tests.unit.support.facts import queue as facts_queue

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
    if not module.check_mode:
        with open("FOLDER/probed.json", "w") as handle:
            json.dump(module.params["entries"], handle)
    module.exit_json(changed=False, left=left, nodes=nodes, unfinished=0, waited_s=0, msg="reported")


if __name__ == "__main__":
    main()
"""
# Modules of the login node and their stand-ins.
STAND_INS = {"site_facts.py": SITE_FACTS, "node_probe.py": NODE_PROBE}
LEFT = ["job 6 (p7720c-61d0b2f0)", f"/home/pilot/.glidein/node_probe.{HOST}"]


def stand_ins(folder):
    """Create a collections path with this collection, in which site_facts and node_probe are stand-ins; return it."""
    collections = folder / "collections"
    target = collections / "ansible_collections" / "glidein" / "ops"
    modules = target / "plugins" / "modules"
    modules.mkdir(parents=True)
    for source, links in ((ROOT, target), (ROOT / "plugins", target / "plugins"), (ROOT / "plugins/modules", modules)):
        for path in source.iterdir():
            if not path.name.startswith(".") and path.name not in ("plugins", "modules", *STAND_INS):
                (links / path.name).symlink_to(path)
    for name, text in STAND_INS.items():
        (modules / name).write_text(text.replace("FOLDER", str(folder)))
    return collections


class Play:
    """A run of the playbook. shown: {name of a task that shows lines: the lines as one text}."""

    def __init__(self, status, output):
        self.status = status
        self.output = output
        tasks = re.findall(r"^TASK \[(Show [^\]]*)\][^\n]*\n(.*?)\n\n(?=TASK|PLAY)", output, re.MULTILINE | re.DOTALL)
        # The first of several hosts.
        results = {name: text.partition("=> ")[2] for name, text in tasks if not text.startswith("skipping:")}
        read = json.JSONDecoder().raw_decode
        self.shown = {name: "\n".join(read(text)[0]["msg"]) for name, text in results.items()}

    @property
    def summary(self):
        return self.shown["Show the proposal"]


class Discovery:
    """Runs of the playbook in a directory `work`, empty at first, with hosts that are this machine."""

    def __init__(self, folder):
        self.folder = folder
        self.collections = stand_ins(folder)
        self.work = folder / "work"
        self.work.mkdir()
        self.path = self.work / "host_vars" / f"{HOST}.yml"

    def play(self, known, *arguments, inventory=f"{HOST},", **settings):
        """Run the playbook; site_facts returns `known`."""
        (self.folder / "facts.json").write_text(json.dumps(known))
        interpreter = f"ansible_python_interpreter={sys.executable}"
        arguments = ["-i", inventory, "-c", "local", "-e", interpreter, *arguments]
        options = {"folder": self.work, "collections": self.collections}
        return Play(*run_playbook("glidein.ops.discover", *arguments, **options, **settings))


@pytest.fixture
def discovery(tmp_path):
    return Discovery(tmp_path)


@pytest.fixture(scope="module")
def discoveries(tmp_path_factory):
    """Return a directory after a first discovery, and after a second one of an edited file; `first` and `second`."""
    made = Discovery(tmp_path_factory.mktemp("discoveries"))
    made.first = made.play(slurm_machine(), "-u", "pilot")
    made.proposed = made.path.read_text()
    made.edited = made.proposed.replace("walltime: 48h", "walltime: 24h").replace("# TODO", "#")
    made.edited += "glidein_demand_token: topsecret\n"
    made.path.write_text(made.edited)
    (made.folder / "left.json").write_text(json.dumps(LEFT))
    made.second = made.play(slurm_machine())
    return made


def test_one_host_without_an_inventory_gets_a_whole_inventory(discoveries):
    done = discoveries.first
    assert done.status == 0, done.output
    assert list(yaml.safe_load(discoveries.proposed)["glidein_entries"]) == ["RM", "GPU", "RM-shared"]
    hosts = yaml.safe_load((discoveries.work / "hosts.yml").read_text())["all"]["children"]
    assert hosts["glidein_sites"] == {"hosts": {HOST: None}}
    pool = yaml.safe_load((discoveries.work / "group_vars" / "all.yml").read_text())
    assert pool["glidein_collector"] == "{{ groups.glidein_central_manager | first }}:9618"
    assert "GPU-other    AllowAccounts=xyz: none of the user's accounts" in done.summary
    assert "glidein.ops.deploy" in done.summary
    assert max(map(len, done.summary.splitlines())) <= 88  # and 11 columns of Ansible, in a terminal of 100
    settings = (discoveries.work / "ansible.cfg").read_text()
    assert settings == (ROOT / "inventories" / "example" / "ansible.cfg").read_text()


def test_the_summary_is_readable_without_settings(discoveries):
    done = discoveries.first
    # The result format is JSON, as without an ansible.cfg: each line of the summary is a line of the output.
    assert f'"{HOST}: slurm 23.11.4, cluster bridges2, user pilot",\n' in done.output
    assert done.summary.startswith(f"{HOST}: slurm 23.11.4, cluster bridges2, user pilot\n\nENTRIES\n")
    assert "  RM-shared, " not in done.summary and '"' not in done.summary.partition("TODO")[0]


def test_open_questions_are_counted_before_the_next_command(discoveries):
    number = discoveries.proposed.count("# TODO") + 1
    text = " ".join(discoveries.first.summary.split())
    assert f"{number} TODOs must be answered first, in host_vars/{HOST}.yml and hosts.yml. Next: " in text
    assert "hosts.yml: name the central manager's host instead of cm.example.org" in text
    # An existing file is used as it is: without TODO, its questions count as answered.
    later = discoveries.second
    assert "must be answered" not in later.summary and "hosts.yml" not in later.summary
    assert f"glidein.ops.deploy, with {HOST} in the group glidein_sites" in " ".join(later.summary.split())


def test_an_existing_file_is_kept_and_the_differences_are_shown(discoveries):
    done = discoveries.second
    assert done.status == 0, done.output
    assert discoveries.path.read_text() == discoveries.edited
    assert "+    walltime: 48h" in done.shown["Show the differences from the existing file"]
    assert "RM: the queue now allows 48h, the entry asks for 24h" in done.summary
    assert "exists and is not changed" in done.summary
    assert "topsecret" not in done.output


def test_jobs_that_a_probe_has_left_are_named(discoveries):
    text = " ".join(discoveries.second.summary.split())
    assert f"A probe that runs or was interrupted has left {', '.join(LEFT)}. To remove it, run discover with" in text


def test_discover_write_shows_the_differences_once_with_and_without_diff(discovery):
    own = "glidein_demand_token: topsecret\nglidein_checks:\n- a\n"
    discovery.path.parent.mkdir()
    discovery.path.write_text(own)
    done = discovery.play(facts(facts_queue("new")), "-e", "discover_write=true", "--diff")
    assert done.status == 0, done.output
    assert done.output.count("+    queue: new") == 1
    assert "topsecret" not in done.output
    assert discovery.path.read_text().endswith(own)
    done = discovery.play(facts(facts_queue("newer")), "-e", "discover_write=true")
    assert done.output.count("+    queue: newer") == 1
    assert "new: queue new does not exist" in done.summary


def test_a_probe_keeps_the_operators_answers_and_its_measurements_are_written(discovery):
    seen = {"cpus": 2, "memory_mb": 23280, "limits_enforced": {"memory": False, "cpus": None}, "error": None}
    (discovery.folder / "nodes.json").write_text(json.dumps({"batch": seen}))
    discovery.path.parent.mkdir()
    discovery.path.write_text("glidein_entries: {batch: {account: b}}\n")
    known = facts(facts_queue("batch", accounts=["a", "b"]), accounts=[account("a"), account("b")])
    done = discovery.play(known, "-e", "discover_probe=true", "-e", "discover_write=true")
    assert done.status == 0, done.output
    assert json.loads((discovery.folder / "probed.json").read_text())["batch"]["account"] == "b"
    text = discovery.path.read_text()
    assert "# probe: 2 cores, 23280 MB; the batch system states 32 cores, 64000 MB" in text


def test_a_new_inventory_is_written_although_the_first_host_has_no_usable_queue(discovery):
    (discovery.folder / "sge.json").write_text(json.dumps(facts(scheduler=None, version=None, queues=[])))
    scheduler = "{{ 'sge' if inventory_hostname == 'first' else 'slurm' }}"
    variables = json.dumps({"glidein_scheduler": scheduler})
    done = discovery.play(slurm_machine(), "-e", variables, inventory=f"first,{HOST},")
    assert done.status == 0, done.output
    assert [path.name for path in discovery.path.parent.iterdir()] == [f"{HOST}.yml"]
    assert (discovery.work / "hosts.yml").exists() and (discovery.work / "group_vars" / "all.yml").exists()


def test_without_a_batch_system_nothing_is_written(discovery):
    done = discovery.play(facts(scheduler=None, version=None, queues=[]))
    assert done.status == 0, done.output
    assert list(discovery.work.iterdir()) == []
    assert "\nNothing was written." in done.summary


def test_the_entries_of_a_profile_are_proposed(discovery):
    done = discovery.play(slurm_machine(), "-e", "profile=psc-bridges2", "--check", "--diff")
    assert done.status == 0, done.output
    assert "+  RM-shared:  # profile psc-bridges2: annex, machine. The login node states 32 nodes of " in done.output
    assert "EM, GPU-shared, RM-512" in done.summary
    assert not discovery.path.exists()


def test_an_inventory_has_the_file_beside_it_and_its_variables_are_used(discovery):
    folder = discovery.folder / "inventory"
    folder.mkdir()
    site = {
        "glidein_scheduler": "slurm",
        "glidein_scheduler_options": {"commands": {"sinfo": ["/opt/slurm/bin/sinfo"]}},
        "glidein_collector": "cm.example.org",
        "glidein_demand_url": "https://demand.example.org",
        "glidein_demand_token": "topsecret",
        "glidein_limts": {"total": 3},
        "glidein_entries": {"gone": {"queue": "gone", "walltime": "2h", "node": {"cpus": 1}}},
    }
    site["glidein_entries"]["gone"]["node"] = {"cpus": 1, "memory_mb": 2000, "disk_mb": 1000}
    children = {"glidein_sites": {"hosts": {"a.example.edu": site}}, "others": {"hosts": {"cm.example.org": {}}}}
    (folder / "hosts.json").write_text(json.dumps({"all": {"children": children}}))
    done = discovery.play(slurm_machine(), inventory=str(folder))
    assert done.status == 0, done.output
    assert sorted(path.name for path in folder.rglob("*.yml")) == ["a.example.edu.yml"]
    assert list(discovery.work.iterdir()) == []
    assert "glidein_demand_token" not in (folder / "host_vars" / "a.example.edu.yml").read_text()
    assert "gone: queue gone does not exist" in done.summary
    assert "glidein_limts: unknown variable" in " ".join(done.summary.split())
    asked = json.loads((discovery.folder / "options.json").read_text())
    assert asked["scheduler"] == "slurm"
    assert asked["commands"] == {"sinfo": ["/opt/slurm/bin/sinfo"]}
    assert asked["connect"] == ["cm.example.org:9618", "https://demand.example.org"]


def test_an_inventory_without_login_nodes_is_an_error_that_names_the_remedy(discovery):
    # Without the comma, Ansible takes the name for a file.
    done = discovery.play(slurm_machine(), inventory=HOST)
    assert done.status != 0
    assert f"write its name with a comma at the end: -i '{HOST},'" in done.output
    path = discovery.folder / "hosts.ini"
    path.write_text("cm.example.org\n[glidein_site]\na.example.edu\n")
    done = discovery.play(slurm_machine(), inventory=str(path))
    assert done.status != 0
    assert "the groups are all, ungrouped, glidein_site. Put the login nodes into glidein_sites" in done.output
    assert not (discovery.folder / "options.json").exists()


def test_a_site_without_a_session_is_not_contacted(discovery):
    done = discovery.play(
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
    assert not (discovery.folder / "options.json").exists()
