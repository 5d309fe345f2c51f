# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the inventory plugin pyglidein, loaded as ansible-inventory loads it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from ansible.inventory.data import InventoryData
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar
from ansible_collections.glidein.ops.plugins.inventory.pyglidein import InventoryModule, check_entry
from ansible_collections.glidein.ops.plugins.module_utils.batch import make_scheduler
from ansible_collections.glidein.ops.plugins.module_utils.controller.inventory_variables import KNOWN
from ansible_collections.glidein.ops.plugins.module_utils.controller.pyglidein.inventory import build
from ansible_collections.glidein.ops.plugins.module_utils.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.site.job_script import batch_files

CLIENTS = Path(__file__).resolve().parent / "pyglidein_clients"
CONFIGURATIONS = ["sections.config", "flat.config", "partitions.config", "htcondor.config", "lsf.config", "uge.config"]
CONFIGURATIONS += ["node.slurm"]
# A folder with a checkout of PyGlidein; the tests convert all its configurations.
CHECKOUT = os.environ.get("PYGLIDEIN_CHECKOUT", "")


# The defaults of the plugin's options.
DEFAULTS = {"pbs": "torque", "token_variable": "vault_glidein_demand_token", "show_warnings": True}


class Clients:
    """A directory with PyGlidein configurations."""

    def __init__(self, directory):
        self.directory = directory

    def read(self, text):
        """Return the inventory and the warnings of an inventory file with this text in the directory.

        It bypasses Ansible's plugin loader, which would read the options but needs an installed collection.
        """
        path = self.directory / "test.pyglidein.yml"
        path.write_text("plugin: glidein.ops.pyglidein\n" + text, encoding="utf-8")
        options = yaml.safe_load(text)
        if isinstance(options.get("config"), str):
            options["config"] = [options["config"]]
        plugin, inventory, warnings = InventoryModule(), InventoryData(), []
        plugin._load_name = plugin._original_path = "glidein.ops.pyglidein"
        plugin.display = type("Display", (), {"warning": staticmethod(warnings.append)})()
        plugin._read_config_data = lambda unused: options
        plugin.get_option = lambda name: options.get(name, DEFAULTS.get(name))
        plugin.parse(inventory, DataLoader(), str(path))
        return inventory, warnings


@pytest.fixture
def clients(tmp_path):
    shutil.copytree(CLIENTS, tmp_path / "clients")
    (tmp_path / "clients" / "secrets").chmod(0o600)
    return Clients(tmp_path / "clients")


def converted(path):
    """Return the variables of a configuration's only host, and the warnings."""
    built = build([{"config": [str(path)]}], check_entry)
    assert len(built["hosts"]) == 1
    host, variables = next(iter(built["hosts"].items()))
    assert host == variables["glidein_site"]
    return variables, built


def assert_usable(variables, pool):
    """Assert that the variables are known, the entries valid for the batch system, and each shape has a script."""
    names = [name for name in [*variables, *pool] if name.startswith("glidein_")]
    assert set(names) <= set(KNOWN)
    assert pool["glidein_collector"]
    assert pool["glidein_demand_url"].startswith("http")
    site = normalise_site("glidein", variables["glidein_site"], variables["glidein_entries"])
    scheduler = make_scheduler(
        variables["glidein_scheduler"], variables.get("glidein_scheduler_options"), site["entries"]
    )
    payload = {"home": "/home/pilot/.glidein/x/1", "log_dir": "/log", "credential": "", "collector": "cm"}
    payload.update(
        scratch=variables.get("glidein_scratch", "/tmp"),  # noqa: S108
        environment=variables.get("glidein_environment", {}),
        modules=variables.get("glidein_modules", []),
        condor_config={},
    )
    scripts = {}
    for name, entry in site["entries"].items():
        for shape in entry["shapes"]:
            files = batch_files(scheduler, site, name, shape, payload, "/home/pilot/script")
            scripts[name, shape] = "\n".join(text for _path, text in files)
    return scripts


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_each_form_makes_entries_that_can_be_submitted(name):
    variables, built = converted(CLIENTS / name)
    assert assert_usable(variables, built["pool"])


def test_a_configuration_with_sections_makes_the_request_that_pyglidein_made():
    variables, built = converted(CLIENTS / "sections.config")
    assert built["pool"] == {"glidein_collector": "cm.example.org", "glidein_demand_url": "http://cm.example.org:22001"}
    assert variables == {
        "ansible_user": "pilot",
        "glidein_site": "Ridge",
        "glidein_scheduler": "slurm",
        "glidein_scratch": "$LOCAL",
        "glidein_environment": {"http_proxy": "http://squid.example.org:3128"},
        "glidein_entries": {
            "RM": {
                "queue": "RM",
                "account": "ABC123",
                "walltime": "48h",
                "shapes": {"node": {"cpus": 28, "memory_mb": 120000, "disk_mb": 8000000, "min_disk_mb": 1000}},
                "memory_overhead_mb": 0,
                "limits": {"queued": 1, "total": 1001, "per_cycle": 2},
                "directives": ["-C EGRESS"],
            }
        },
    }
    script = assert_usable(variables, built["pool"])["RM", "node"]
    for option in ("--partition=RM", "--account=ABC123", "--mem=120000M", "--cpus-per-task=28", "-C EGRESS"):
        assert f"#SBATCH {option}\n" in script
    assert "#SBATCH --time=48:00:00\n" in script


def test_a_file_without_section_headers_means_the_same():
    sections, flat = (converted(CLIENTS / name) for name in ("sections.config", "flat.config"))
    # The option of a misspelt section belongs to that section.
    assert set(flat[0]["glidein_entries"]["RM"].pop("checks")) == {"cvmfs", "endpoint"}
    assert any(
        "[StardChecks]: unknown section (did you mean 'StartdChecks'?)" in text for text in sections[1]["warnings"]
    )
    assert flat[0] == sections[0]
    assert flat[1]["pool"] == sections[1]["pool"]


def test_each_partition_is_an_entry_with_its_own_options():
    variables, built = converted(CLIENTS / "partitions.config")
    assert variables["glidein_scheduler_options"] == {"commands": {"qsub": ["/opt/pbs/bin/qsub"]}}
    assert variables["glidein_modules"] == ["apptainer", "cuda/12"]
    assert variables["glidein_environment"] == {"NUMBA_CACHE_DIR": "/tmp/numba"}  # noqa: S108
    assert variables["glidein_scratch"] == "/scratch/$USER/${PBS_JOBID}"
    common = {
        "site_resource": "Fjord-CE",
        "image": "/cvmfs/images/el9",
        "retirement": "1800s",
        "idle_timeout": "600s",
        "rank": "(TARGET.RequestGPUs ?: 0) * 10000 + TARGET.RequestMemory + "
        '(TARGET.Affiliation =?= "Alberta" ? 100000 : 0)',
    }
    assert variables["glidein_entries"] == {
        "cpu": {
            **common,
            "queue": "long",
            "account": "physics",
            "constraint": "std",
            "walltime": "12h",
            "shapes": {
                "cpu": {
                    "cpus": {"min": 1, "max": 4},
                    "memory_mb": {"min": 2000, "max": 16000},
                    "disk_mb": 50000,
                    "min_disk_mb": 1000,
                }
            },
            "memory_per_core_mb": 4000,
            "limits": {"queued": 40, "total": 40, "per_cycle": 50},
            "cpu_only": True,
            "accept": {"memory_mb": {"min": 1000}},
            "resources": {"memory": "pmem"},
            "directives": ["-W group_list=pilots"],
        },
        "gpu": {
            **common,
            "queue": "gpu",
            "walltime": "20h",
            "shapes": {"node": {"cpus": 8, "memory_mb": 32000, "disk_mb": 90000, "min_disk_mb": 1000, "gpus": 2}},
            "memory_overhead_mb": 0,
            "limits": {"queued": 5, "total": 45, "per_cycle": 50},
            "gpu_only": True,
            "resources": {"gpus": "none"},
        },
    }
    warnings = "\n".join(built["warnings"])
    for text in (
        "line 5: delay: not converted: run glidein.ops.cycle from cron",
        "lines 23, 36: running_cmd: not needed",
        "line 40: [old]: not converted: the section is not among partitions",
        "line 46: custom_middle: not converted: '. /opt/site/gpus.sh'",
        "line 52: send_startd_logs: not converted: for the same, set glidein_log_interval: 5m and glidein_log_s3",
        "line 65: GLIDEIN_PARROT_TMP: not converted: Parrot is not supported",
    ):
        assert text in warnings


def test_lines_of_a_submit_description_are_directives_and_forbidden_ones_are_named():
    variables, built = converted(CLIENTS / "htcondor.config")
    entry = variables["glidein_entries"]["Cluster"]
    assert entry["account"] == "group_physics.pilot"
    assert entry["directives"] == ['+ProjectName = "Physics"', 'Requirements = OpSysAndVer == "RHEL9"']
    assert set(entry["shapes"]) == {"cpu", "gpu"}
    assert built["pool"]["glidein_order"] == ["memory", "-disk"]
    assert any("+JobStatus = 5" in text and "line 18: custom_middle" in text for text in built["warnings"])
    assert any("ssh_state" in text and "glidein_pull_demand" in text for text in built["warnings"])


def test_units_and_names_of_lsf_and_grid_engine_are_those_that_pyglidein_used():
    lsf, built = converted(CLIENTS / "lsf.config")
    entry = lsf["glidein_entries"]["Cluster"]
    assert (entry["queue"], entry["account"], entry["directives"]) == ("gpu", "phys3b", ["-a openmp"])
    assert entry["resources"] == {"memory_unit": "MB", "gpus": "none"}
    assert any("ref_host" in text and "ABS_RUNLIMIT" in text for text in built["warnings"])
    entry = converted(CLIENTS / "uge.config")[0]["glidein_entries"]["Cluster"]
    assert (entry["account"], entry["directives"]) == ("physics", ["-l os=el9"])
    expected = {"memory": "h_rss", "disk": "tmpdir_size", "parallel_environment": "multicore"}
    assert entry["resources"] == expected


def test_a_batch_script_is_one_entry_of_its_directives_and_variables():
    variables, built = converted(CLIENTS / "node.slurm")
    assert variables["glidein_site"] == "Delta"
    assert variables["glidein_scratch"] == "/tmp/$SLURM_JOB_ID"  # noqa: S108
    entry = variables["glidein_entries"]["Cluster"]
    assert (entry["queue"], entry["account"], entry["walltime"]) == ("gpu", "abc-gpu", "24h")
    size = {"cpus": 14, "memory_mb": 56000, "disk_mb": 100000, "min_disk_mb": 1000, "gpus": 1, "gpu_type": "a100"}
    assert entry["shapes"] == {"node": size}
    assert (entry["image"], entry["retirement"]) == ("docker://example/el9", "7200s")
    assert entry["directives"] == ["-C scratch"]
    assert "a batch script" in built["warnings"][0]


def test_the_plugin_makes_the_groups_and_refers_to_the_token(clients):
    inventory, warnings = clients.read("config: sections.config\nsecrets: secrets\nhost: login.example.edu\n")
    groups = inventory.get_groups_dict()
    assert groups["glidein_sites"] == ["login.example.edu"]
    assert groups["glidein_central_manager"] == groups["glidein_demand_server"] == ["cm.example.org"]
    assert inventory.groups["all"].vars["glidein_collector"] == "cm.example.org"
    variables = inventory.hosts["login.example.edu"].vars
    assert variables["glidein_demand_token"] == "{{ vault_glidein_demand_token }}"  # noqa: S105
    secret = {"vault_glidein_demand_token": "0123456789abcdef"}
    assert Templar(DataLoader(), secret).template(variables["glidein_demand_token"]) == "0123456789abcdef"
    assert any("access_key: not used, and not shown" in text for text in warnings)


@pytest.mark.parametrize("text", ["[StartdLogging]\naccess_key AKIANEVERSHOWN\n", "access_key = AKIANEVERSHOWN\n"])
def test_secrets_are_never_shown(clients, text):
    (clients.directory / "secrets").write_text(text, encoding="utf-8")
    try:
        inventory, warnings = clients.read("config: sections.config\nsecrets: secrets\n")
        shown = repr([inventory.serialize() if hasattr(inventory, "serialize") else inventory.hosts, warnings])
    except Exception as error:
        shown = str(error)
        assert "secrets, line 2: the line is invalid" in shown
    assert "AKIANEVERSHOWN" not in shown


def test_warnings_can_be_turned_off(clients):
    assert clients.read("config: sections.config\nshow_warnings: false\n")[1] == []


def test_a_deployment_and_the_pool_of_the_inventory_file_replace_those_of_the_configuration(clients):
    text = "config: sections.config\ndeployment: prod\ncollector: pool.example.org:9618\ncentral_manager: manager\n"
    inventory = clients.read(text + "demand_url: https://demand.example.org\n")[0]
    assert inventory.groups["all"].vars["glidein_deployment"] == "prod"
    assert inventory.groups["all"].vars["glidein_collector"] == "pool.example.org:9618"
    groups = inventory.get_groups_dict()
    assert (groups["glidein_central_manager"], groups["glidein_demand_server"]) == (["manager"], ["demand.example.org"])


def test_a_secrets_file_that_all_can_read_is_named(clients):
    (clients.directory / "secrets").chmod(0o644)
    warnings = clients.read("config: sections.config\nsecrets: secrets\n")[1]
    assert any("every user can read it; run `chmod 600" in text for text in warnings)


def test_files_of_one_login_node_are_put_together(clients):
    gpus = (clients.directory / "sections.config").read_text(encoding="utf-8").replace("whole_node_gpus = 0", "")
    (clients.directory / "more.config").write_text(gpus, encoding="utf-8")
    inventory = clients.read("config: [sections.config, more.config]\nhost: login\n")[0]
    assert list(inventory.hosts["login"].vars["glidein_entries"]) == ["sections-RM", "more-RM"]


@pytest.mark.parametrize(
    "text, error",
    [
        ("{}", "config, clients: expected one of them"),
        ("clients: [{config: [lsf.config]}]\nhost: a\n", "expected in each item of clients"),
        ("clients: [{configs: [lsf.config]}]\n", r"clients\[0\]: configs; expected config, and optionally secrets"),
        ("config: missing.config\n", "missing.config: cannot be read: No such file"),
        ("clients: [{config: [lsf.config]}, {config: [uge.config], site: Rhine}]", "the host Rhine has another client"),
        ("clients: [{config: [lsf.config]}, {config: [uge.config], site: Rhine, host: b}]", "'Rhine' is also that of"),
        ("config: [lsf.config, uge.config]\nsite: X\n", "scheduler: 'uge', but .* has 'lsf'; expected the same"),
        ("clients: [{config: [lsf.config]}, {config: [sections.config]}]", "collector: 'cm.example.org', but another"),
        ("config: lsf.config\ntoken_variable: a b\n", "token_variable: 'a b' is invalid"),
    ],
)
def test_a_wrong_inventory_file_is_refused(clients, text, error):
    with pytest.raises(Exception, match=error):
        clients.read(text)


@pytest.mark.parametrize("name, accepted", [("pyglidein.yml", True), ("a.pyglidein.yaml", True), ("hosts.yml", False)])
def test_the_name_of_the_file_decides(tmp_path, name, accepted):
    (tmp_path / name).write_text("plugin: glidein.ops.pyglidein\n", encoding="utf-8")
    assert InventoryModule().verify_file(str(tmp_path / name)) is accepted


def checkout_configurations():
    """Return the configurations in a checkout of PyGlidein: configs/, docs/ and dev_build/."""
    root = Path(CHECKOUT)
    patterns = ("configs/*", "docs/*.config", "dev_build/client_*/root/etc/sv/pyglidein_client/*_config")
    return [str(path.relative_to(root)) for pattern in patterns for path in sorted(root.glob(pattern))]


@pytest.mark.skipif(not CHECKOUT, reason="PYGLIDEIN_CHECKOUT does not name a folder with PyGlidein's configurations")
def test_the_configurations_of_a_checkout_are_all_converted():
    paths = checkout_configurations()
    assert paths, "no configuration in PYGLIDEIN_CHECKOUT"
    failed = {}
    for path in paths:
        try:
            variables, built = converted(Path(CHECKOUT) / path)
            assert assert_usable(variables, built["pool"]), path
        except InputError as error:
            failed[path] = error.problems
    assert not failed


def test_ansible_inventory_prints_it_as_yaml(clients):
    """Run the documented command with the installed collection."""
    command = shutil.which("ansible-inventory")
    collections = next(
        (folder.parent for folder in Path(__file__).parents if folder.name == "ansible_collections"), None
    )
    if not command or not collections:
        pytest.skip("ansible-inventory is not in PATH, or this is not a collection's folder")
    path = clients.directory / "pyglidein.yml"
    path.write_text("plugin: glidein.ops.pyglidein\nconfig: sections.config\nsecrets: secrets\n", encoding="utf-8")
    environment = dict(os.environ, ANSIBLE_COLLECTIONS_PATH=str(collections), ANSIBLE_NOCOLOR="1")
    argv = [command, "-i", str(path), "--list", "--yaml"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    sites = yaml.safe_load(done.stdout)["all"]["children"]["glidein_sites"]["hosts"]
    assert sites["Ridge"]["glidein_entries"]["RM"]["account"] == "ABC123"
    assert "debug: not converted" in " ".join(done.stderr.split())
    assert "NEVERSHOWN" not in done.stdout + done.stderr
