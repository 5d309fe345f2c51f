# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of discovery on real batch systems from an empty directory, with only a login node's name.

tests/lab/images/slurm-accounting/slurm.conf and configure.sh define the partitions and accounts that are proposed.
"""

import json
import re

import pytest
import yaml
from conftest import STATE, bring_up, host, playbook

SSH = f"-F {STATE / 'ssh_config'}"
LEFT_OUT = {
    "broken": "drain",
    "closed": "INACTIVE",
    "debug": "10m",
    "down": "DOWN",
    "premium": "AllowQos=premium",
    "private": "AllowAccounts=astronomy",
    "staff": "AllowGroups=staff",
}


@pytest.fixture(autouse=True)
def clean():
    """Override the clean-up: discovery uses neither the pool nor the demand server."""


class Discovery:
    """A finished run of the playbook discover for a host. folder: that of host_vars."""

    def __init__(self, play, site, folder):
        assert play.rc == 0, play
        self.play = play
        self.summary = play.summary
        path = folder / "host_vars" / f"{site}.yml"
        # Without an entry, nothing is written.
        self.text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.variables = yaml.safe_load(self.text) or {}
        self.entries = self.variables.get("glidein_entries") or {}

    def __repr__(self):
        return f"{self.play}\n{self.text}"

    @property
    def left_out(self):
        """Return {queue: reason} of the queues without an entry."""
        comment = self.text.partition("\n# Queues without an entry:\n")[2].partition("\n\n")[0]
        return dict(re.findall(r"^#   (\S[^:]*): (.*)$", comment.replace("\n#     ", " "), re.MULTILINE))

    @property
    def not_read(self):
        """Return the commands that failed, with their errors."""
        return " ".join(self.text.partition("\n# Not read:\n")[2].replace("\n#", " ").split())

    def of_entries(self, key):
        """Return {entry: value of this option} of the entries that have it."""
        return {name: entry[key] for name, entry in self.entries.items() if key in entry}


def discover_pilot(folder, **variables):
    """Discover the Slurm with accounting as the user pilot, with nothing but the host's name."""
    name = "slurm-accounting"
    arguments = ("-u", "pilot", "--ssh-common-args", SSH, "-e", json.dumps(variables))
    return Discovery(playbook("discover", *arguments, inventory=(f"{name},",), folder=folder), name, folder)


@pytest.fixture(scope="module")
def slurm_accounting():
    """Return the administrator of a Slurm with accounting."""
    bring_up("slurm-accounting")
    return host("slurm-accounting-root")


@pytest.fixture(scope="module")
def proposed(slurm_accounting, tmp_path_factory):
    """Return the proposal for the user pilot."""
    return discover_pilot(tmp_path_factory.mktemp("pilot"))


@pytest.fixture(scope="module")
def others(slurm_accounting, tmp_path_factory):
    """Return a function that returns the proposal for another login node or user; one run discovers all of them."""
    for name in ("sge", "htc"):
        bring_up(name)
    folder = tmp_path_factory.mktemp("others")
    hosts = {
        "member": {"ansible_host": "slurm-accounting", "ansible_user": "member"},
        "guest": {"ansible_host": "slurm-accounting", "ansible_user": "guest"},
        "slurm": {},
        "sge": {},
        "htc": {},
    }
    sites = {"hosts": hosts, "vars": {"ansible_ssh_common_args": SSH}}
    (folder / "hosts.json").write_text(json.dumps({"all": sites}), encoding="utf-8")
    play = playbook("discover", inventory=(folder / "hosts.json",), folder=folder)
    return lambda name: Discovery(play, name, folder)


def test_each_partition_has_an_entry_or_the_reason_for_none(proposed):
    assert set(proposed.entries) == {"cpu", "gpu", "limited", "long", "preempt", "whole"}, proposed
    assert next(iter(proposed.entries)) == "cpu"  # the default partition
    assert set(proposed.left_out) == set(LEFT_OUT)
    assert [name for name, reason in LEFT_OUT.items() if reason not in proposed.left_out[name]] == [], proposed
    assert (proposed.variables["glidein_scheduler"], proposed.variables["glidein_site"]) == ("slurm", "campus")
    # The file never has a secret: the operator adds the site's token.
    assert "glidein_demand_token" not in proposed.variables and "TODO" in proposed.text


def test_the_only_account_that_accepts_jobs_is_proposed_and_the_locked_one_is_explained(proposed):
    assert set(proposed.of_entries("account").values()) == {"physics"}
    assert set(proposed.of_entries("account")) == set(proposed.entries)
    assert re.search(r"physics2025 cannot be used: .*MaxSubmit", " ".join(proposed.summary.split())), proposed


def test_walltimes_are_those_of_the_partition_or_of_its_qos(proposed):
    known = {"cpu": "2h", "gpu": "24h", "limited": "12h", "long": "168h", "whole": "48h"}
    assert {name: proposed.entries[name]["walltime"] for name in known} == known, proposed
    assert "MaxTime=02:00:00" in proposed.text and "MaxWall=12:00:00" in proposed.text


def test_shapes_are_those_of_the_nodes(proposed):
    sizes = {name: proposed.entries[name]["node"] for name in ("cpu", "limited", "long")}
    assert {name: size["cpus"] for name, size in sizes.items()} == {"cpu": 16, "limited": 8, "long": 16}, proposed
    # Less than the 64000 MB of a node, which leaves memory for its operating system; half of it for half of the cores.
    assert 56000 < sizes["cpu"]["memory_mb"] < 64000 and 28000 < sizes["limited"]["memory_mb"] < 32000
    (whole,) = proposed.entries["whole"]["shapes"].values()
    assert (whole["cpus"], whole["whole_node"]) == (64, True) and 230000 < whole["memory_mb"] < 250000
    gpus = proposed.entries["gpu"]["shapes"].values()
    assert {(shape["gpus"], shape["gpu_type"]) for shape in gpus} >= {(1, "a100"), (1, "v100")}
    assert proposed.entries["gpu"]["accept"] == {"gpus": {"min": 1}}
    # Nodes of these partitions that lack the feature are not requested.
    assert set(proposed.of_entries("constraint").items()) >= {("cpu", "EGRESS"), ("long", "EGRESS")}


def test_limits_are_below_those_of_qos_and_account(proposed):
    limits = proposed.of_entries("limits")
    assert (limits["limited"]["queued"], limits["limited"]["total"]) == (2, 2), proposed  # four jobs, two running
    assert limits["long"]["total"] == 4
    assert limits["gpu"]["gpus"] == 4  # MaxTRESPerUser=gres/gpu=4
    assert all(each["queued"] <= each["total"] <= 20 for each in limits.values())  # MaxJobs of the account


def test_the_probe_adds_facts_of_compute_nodes_and_leaves_nothing(proposed, slurm_accounting, tmp_path):
    probed = discover_pilot(tmp_path, discover_probe=True)
    assert set(probed.entries) == set(proposed.entries), probed
    comments = re.sub(r"\n *# ", " ", probed.text)
    assert comments.count("Seen by the probe: Debian") == len(probed.entries), probed
    assert re.search(r"node: .*# probe: \d+ cores?, .*sinfo.* states 16 cores", comments.replace("\n", " ")), probed
    # The nodes have fewer cores than slurm.conf claims.
    assert max(shape["cpus"] for shape in probed.entries["whole"]["shapes"].values()) < 64
    assert "glidein_scratch" in probed.variables
    assert slurm_accounting.check_output("squeue --noheader --user pilot") == ""
    assert not slurm_accounting.file("/home/pilot/.glidein").exists


def test_slurm_accepts_a_job_of_each_proposed_size(proposed):
    login = host("slurm-accounting")
    for name, entry in proposed.entries.items():
        for shape in entry.get("shapes", {"node": entry.get("node")}).values():
            options = [f"-p {entry['queue']} -A {entry['account']} -t {int(entry['walltime'][:-1]) * 60} -N 1"]
            options += [f"-c {shape['cpus']} --mem={shape['memory_mb']}M --tmp={shape['disk_mb']}M"]
            options += [f"-C {entry['constraint']}"] if "constraint" in entry else []
            options += [f"--gres=gpu:{shape['gpu_type']}:{shape['gpus']}"] if shape.get("gpus") else []
            done = login.run(f"sbatch --test-only {' '.join(options)} --wrap true")
            assert (done.rc, "to start at" in done.stderr) == (0, True), (name, done)


def test_a_profile_gets_the_account_and_what_differs_becomes_a_question(slurm_accounting, tmp_path):
    delta = discover_pilot(tmp_path, profile="ncsa-delta")
    assert list(delta.entries) == ["cpu"], delta
    assert (delta.entries["cpu"]["account"], delta.entries["cpu"]["walltime"]) == ("physics", "2h"), delta
    assert '# TODO: nodes have 16 cores, the shape "node" asks for 128' in delta.text, delta
    assert "# Sources of profile ncsa-delta, read on " in delta.text
    assert (
        delta.left_out["gpuA100x4, gpuA100x8, gpuA40x4, gpuH200x8"] == "the queue of profile ncsa-delta does not exist"
    )


def test_a_choice_of_accounts_is_left_to_the_operator(others):
    member = others("member")
    assert member.entries["cpu"]["account"] == "physics"
    assert "account" not in member.entries["gpu"], member
    assert re.search(r"# TODO: .*chemistry, physics", member.text)


def test_a_user_without_an_account_gets_no_entry_and_the_reason(others):
    guest = others("guest")
    assert guest.text == "", guest
    assert re.search(r"^  cpu, .*\n +guest has no account on campus", guest.summary, re.MULTILINE), guest
    assert "Nothing was written." in guest.summary


def test_without_the_accounting_database_the_accounts_are_a_gap(slurm_accounting, tmp_path):
    slurm_accounting.check_output("systemctl stop slurmdbd")
    try:
        partial = discover_pilot(tmp_path)
    finally:
        slurm_accounting.check_output("systemctl start slurmdbd")
    assert re.search("sacctmgr .*failed to open persistent connection", partial.not_read), partial
    assert partial.entries["long"]["walltime"] == "168h" and "account" not in partial.entries["long"], partial
    assert re.search("# TODO: your accounts could not be read", partial.text)


def test_a_slurm_without_accounting_needs_no_account(others):
    plain = others("slurm")
    assert (plain.entries["cpu"]["queue"], plain.entries["cpu"]["walltime"]) == ("cpu", "2h"), plain
    assert not plain.of_entries("account")
    assert "INACTIVE" in plain.left_out["closed"]
    assert not plain.not_read


def test_grid_engine(others):
    found = others("sge")
    assert found.variables["glidein_scheduler"] == "sge"
    assert {entry["queue"] for entry in found.entries.values()} == {"cpu.q", "gpu.q"}, found
    assert not found.of_entries("account")  # no queue requires a project
    assert set(found.of_entries("walltime").values()) == {"2h"}
    assert {entry["resources"]["parallel_environment"] for entry in found.entries.values()} == {"smp"}
    assert any(shape.get("gpus") for shape in found.entries["gpu.q"]["shapes"].values())


def test_another_pool_of_htcondor(others):
    found = others("htc")
    assert found.variables["glidein_scheduler"] == "htcondor"
    (entry,) = found.entries.values()
    assert "queue" not in entry, found
    assert entry["node"]["cpus"] == 32 and 56000 < entry["node"]["memory_mb"] <= 64000
