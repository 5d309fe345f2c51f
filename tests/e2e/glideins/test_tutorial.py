# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that each command of docs/tutorial.md runs, in its order, and prints the lines that the document shows.

Meanwhile, the lab's Slurm has the partition, the feature and the account of the tutorial. A further inventory maps the
tutorial's hosts to those of the lab, and its node to a smaller one. The rest of inventories/tutorial is unchanged.
"""

import itertools
import json
import re
import subprocess

import prepare
import pytest
import yaml
from conftest import ROOT, STATE, clean_pool, host, playbook, wait_for

DOCUMENT = ROOT / "docs" / "tutorial.md"
TUTORIAL = ROOT / "inventories" / "tutorial"
# Prompt -> the lab's host that runs the command; None: this machine, the controller.
PROMPTS = {"$ ": None, "workflow$ ": "cm-alice", "bridges$ ": "slurm"}
# Read-only commands: the reader repeats them until they print the document's lines.
READING = re.compile(r"(condor_(q|status) |squeue |cat [^>]*$|ansible-playbook glidein\.ops\.(status|explain))")
# Parts that differ from run to run, and their replacement in the document's lines.
VARYING = (
    (r"\bglidein_\w+@", "glidein_N@"),
    (r"\bg[0-9a-f]{4,}-[0-9a-f]{8}\b", "gN"),
    (r"\b[0-9a-f]{8,}\b", "N"),
    (r"(?<!\S)(-|\d+%)(?!\S)", "N"),  # USED: the lab may have run glideins of this site before
    (r"\d+", "N"),
    (r"-{2,}|\*{2,}", " "),
    (r"\s+", " "),
)
# Slurm reads the file again after a change.
ACCOUNTS = "/etc/slurm/job_submit.lua"
SITE = "login.bridges.example.edu"
# The lab's node has less than the 120000 MB of a node of PSC Bridges, and glideins check that.
NODE_MEMORY_MB = 4000


def commands():
    """Return [(host or None, command, lines of output)] of the document's blocks `console`, in their order."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        lines = iter(block.splitlines())
        for line in lines:
            prompt = next((each for each in PROMPTS if line.startswith(each)), None)
            if prompt is None:
                found[-1][2].append(line)
                continue
            command = line[len(prompt) :]
            if "<<'END'" in command:
                text = [*itertools.takewhile(lambda each: each != "END", lines), "END"]
                command = "\n".join([command, *text])
            found.append((PROMPTS[prompt], command, []))
    return found


def uniform(line):
    """Return a line without the parts that differ between runs."""
    for pattern, text in VARYING:
        line = re.sub(pattern, text, line)
    return line.strip()


def missing(shown, printed):
    """Return the first line of the document that the output does not have in this order, or None."""
    rest = iter([uniform(line) for line in printed.splitlines()])
    for line in shown:
        if line.strip() not in ("", "...") and uniform(line) not in rest:
            return line
    return None


class Reader:
    """A reader, who types the commands: in a shell on the controller, and over SSH on the other machines."""

    def __init__(self, home, env):
        self.home, self.env = home, env
        # The shell's state between two commands.
        self.state = home / ".state"
        self.state.write_text(f"cd {home}\n", encoding="utf-8")
        # Job numbers in the document and in this run.
        self.jobs = {}

    def type(self, machine, command):
        """Run a command and return its output; the test fails if its status is not 0."""
        if machine:
            done = host(machine).run(command)
            assert done.rc == 0, done
            return done.stdout + done.stderr
        script = f'. {self.state}\n{command}\nstatus=$?\n{{ export -p; echo "cd $PWD"; }} >{self.state}\nexit $status'
        done = subprocess.run(
            ["bash", "-c", script],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1800,
            check=False,
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}\n[rc={done.returncode}]"
        return done.stdout

    def follow(self, machine, command, shown):
        """Run a command until it prints the document's lines; run one that changes something once."""
        command = re.sub(r"\b\d+\b", lambda number: self.jobs.get(number[0], number[0]), command)
        last = []

        def look():
            last[:] = [self.type(machine, command)]
            return missing(shown, last[0]) is None

        if READING.match(command):
            try:
                wait_for(command, look, 300)
            except AssertionError:
                look()
        else:
            look()
        print(f"{machine or ''}$ {command}\n{last[0]}")
        line = missing(shown, last[0])
        assert line is None, f"docs/tutorial.md shows, and the command does not print: {line!r}\n$ {command}\n{last[0]}"
        numbers = [re.findall(r"submitted to cluster (\d+)\.", text) for text in ("\n".join(shown), last[0])]
        self.jobs.update(zip(*numbers))


@pytest.fixture
def psc_bridges(cm, slurm, slurm_root, server):
    """Give Slurm the tutorial's partition, feature and account; afterwards, restore Slurm and the demand server."""
    slurm_root.check_output(
        "scontrol create partitionname=RM nodes=slurm maxtime=2-00:00:00 state=UP"
        " && scontrol update nodename=slurm availablefeatures=EGRESS activefeatures=EGRESS"
        f' && sed -i.before \'s/~= "physics"/~= "ABC123"/\' {ACCOUNTS}'
    )
    yield
    clean_pool(cm, slurm, server)
    slurm_root.check_output(
        f"mv {ACCOUNTS}.before {ACCOUNTS} && touch {ACCOUNTS} && scontrol delete partitionname=RM"
        " && scontrol update nodename=slurm availablefeatures= activefeatures="
    )
    restored = playbook("deploy", "--tags", "server")
    assert restored.rc == 0, restored


@pytest.fixture
def reader(tmp_path, psc_bridges):
    """Return a reader who has installed the collection, and whose inventory is mapped to the lab."""
    installed = tmp_path / ".ansible" / "collections" / "ansible_collections" / "glidein"
    installed.mkdir(parents=True)
    (installed / "ops").symlink_to(prepare.COLLECTION)
    lab = {
        "ansible_ssh_common_args": f"-F {STATE / 'ssh_config'}",
        "glidein_collector": "cm:9618",
        "glidein_demand_url": (STATE / "demand_url").read_text(encoding="ascii").strip(),
        # Show changes at once, as in the lab's inventory.
        "glidein_guard": {"cancel_delay": 0, "hold_readings": 0},
        "glidein_cache_dir": str(STATE / "cache"),
    }
    variables = yaml.safe_load((TUTORIAL / "host_vars" / SITE / "main.yml").read_text(encoding="utf-8"))
    entries = variables["glidein_entries"]
    entries["RM"]["shapes"]["node"]["memory_mb"] = NODE_MEMORY_MB
    hosts = {
        "workflow.example.org": {
            "ansible_host": "cm",
            "central_manager_install": True,
            # A reading every minute takes longer than a test may.
            "demand_server_settings": {"pool": {"constraint": "WantPSCBridges == True", "refresh_seconds": 5}},
        },
        SITE: {"ansible_host": "slurm", "ansible_user": "glidein", "glidein_entries": entries},
    }
    mapping = tmp_path / "lab"
    for folder in ("group_vars", "host_vars"):
        (mapping / folder).mkdir(parents=True)
    (mapping / "hosts.json").write_text(json.dumps({"all": {"hosts": dict.fromkeys(hosts, {})}}), encoding="utf-8")
    (mapping / "group_vars" / "all.json").write_text(json.dumps(lab), encoding="utf-8")
    for name, variables in hosts.items():
        (mapping / "host_vars" / f"{name}.json").write_text(json.dumps(variables), encoding="utf-8")
    env = prepare.environment()
    for name in ("ANSIBLE_CONFIG", "ANSIBLE_COLLECTIONS_PATH", "ANSIBLE_HOME"):
        del env[name]
    inventory = f"{tmp_path / 'glideins'},{mapping}"
    return Reader(tmp_path, {**env, "HOME": str(tmp_path), "ANSIBLE_INVENTORY": inventory, "PWD": str(tmp_path)})


def test_the_tutorial_does_what_it_shows(reader):
    found = commands()
    assert len(found) > 10
    for machine, command, shown in found:
        reader.follow(machine, command, shown)
