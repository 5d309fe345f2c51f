# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of a glidein's start with a tarball from a web server, GPUs, CVMFS, and the site's set-up."""

import re

import pytest
from conftest import no_glideins, playbook, wait_for
from site_deployment import deploy_sites

PUBLISHED = "/srv/glidein-tarballs"
ENTRIES = {
    "gpu": {
        "queue": "gpu",
        "walltime": "1h",
        "idle_timeout": "40m",
        "shapes": {"two": {"cpus": 2, "memory_mb": 1024, "disk_mb": 500, "gpus": 1, "gpu_type": "a100"}},
        # The node has no GPU: condor_gpu_discovery simulates three Tesla V100, of which Slurm assigns the first.
        "gpu_discovery": "-simulate:2,3",
        "cvmfs": ["lab.example.org", "none.example.org"],
        "site_resource": "annex",
        "job_setup": "/opt/site/set up.sh",
        "job_environment": {"NOTE": 'it\'s "here" for $1'},
    }
}
JOB = """\
executable = /bin/sh
arguments = "job.sh"
transfer_input_files = job.sh
requirements = TARGET.GLIDEIN_Site == "start" && TARGET.HAS_CVMFS_lab_example_org
output = $(Process).out
error = $(Process).err
log = job.log
request_cpus = 1
request_memory = 100MB
request_disk = 10MB
queue
request_gpus = 1
queue
"""
PRINTS = """\
for name in CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL NVIDIA_VISIBLE_DEVICES GLIDEIN_SiteResource NOTE SOFTWARE; do
  eval "echo \\"\\$$name\\""
done
sleep 5
"""
# Of a partitionable slot, GPUs has the free ones, and TotalGPUs all of them.
ATTRIBUTES = (
    "TotalGPUs GPUs_DeviceName GPU_NAMES HAS_CVMFS_lab_example_org HAS_CVMFS_none_example_org GLIDEIN_Site "
    "GLIDEIN_Entry GLIDEIN_SiteResource GLIDEIN_Max_Walltime"
)


@pytest.fixture
def web_server(cm):
    """Start a web server on the central manager for the files that the role `tarball` publishes."""
    cm.check_output(
        f"mkdir -p {PUBLISHED} && systemd-run --unit=lab-web --collect "
        f"python3 -m http.server --directory {PUBLISHED} 8080"
    )
    yield "http://cm:8080"
    cm.check_output(f"systemctl stop lab-web; rm -r {PUBLISHED}")


@pytest.fixture
def furnished_node(slurm_root):
    """Install on the node what an administrator may provide: a CVMFS repository and a set-up script."""
    slurm_root.check_output(
        "mkdir -p /cvmfs/lab.example.org '/opt/site' && touch /cvmfs/lab.example.org/new_repository && "
        "echo 'SOFTWARE=/opt/site/soft; export SOFTWARE; set -- x' > '/opt/site/set up.sh' && chmod -R a+rX /opt/site"
    )
    yield
    slurm_root.check_output("rm -r /cvmfs /opt/site")


def test_a_glidein_with_a_gpu_and_all_that_an_entry_may_ask_for(
    alice, slurm, cm, more_sites, web_server, furnished_node
):
    inventory = more_sites(
        {"start": {"ansible_host": "slurm", "glidein_tarball_url": web_server, "glidein_entries": ENTRIES}}
    )
    refused = playbook("deploy", "-l", "start", "-e", "glidein_credential=pool_password", inventory=inventory)
    assert refused.rc != 0
    assert "every reader of that address would have the pool password" in " ".join(refused.output.split())
    publish = ("-e", f"tarball_publish_dir={PUBLISHED}")
    deploy_sites(inventory, "start", tags="tarball,tokens,sites", arguments=publish)
    home = "/home/glidein/.glidein/start"
    try:
        assert slurm.check_output(f"ls {home}/current/tarballs") == ""
        alice.host.check_output(f"cat > job.sub <<'END'\n{JOB}END\ncat > job.sh <<'END'\n{PRINTS}END")
        cluster = alice.host.check_output("condor_submit -terse job.sub").split(".")[0]
        probe = playbook("probe", "-l", "start", inventory=inventory)
        assert probe.rc == 0, probe
        assert re.search(r"ready to start HTCondor after \d+\.\d\d s, \d+\.\d\d s of them to unpack it", probe.output)
        assert "GPUs: 0, Tesla V100-PCIE-16GB" in probe.output
        ad = wait_for(
            "the glidein in the collector",
            lambda: cm.check_output(
                f"condor_status -constraint 'PartitionableSlot && GLIDEIN_Site == \"start\"' -af:, {ATTRIBUTES}"
            ),
        )
        assert ad.split(", ") == [
            "1", "Tesla V100-PCIE-16GB", "Tesla V100-PCIE-16GB", "true", "undefined", "start", "gpu", "annex", "3600",
        ]  # fmt: skip
        ended = f"condor_history {cluster} -af ExitCode"
        wait_for("the jobs' end", lambda: alice.host.check_output(ended).split() == ["0", "0"])
        without, with_gpu = (alice.host.check_output(f"cat {process}.out").splitlines() for process in (0, 1))
        same = ["annex", 'it\'s "here" for $1', "/opt/site/soft"]
        assert with_gpu == ["GPU-a0223334", "GPU-a0223334", "GPU-a0223334-4445-5667-899a-abbccddeeff0", *same]
        assert without == ["10000", "10000", "none", *same]
    finally:
        no_glideins(slurm)
        slurm.check_output(f"rm -rf {home}")
