# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of GPUs that the batch system has assigned.

With the real condor_gpu_discovery: tests/e2e/glideins/test_start.py.
"""

import signal

import pytest
from conftest import run_lib
from test_endings import assert_ended

# As condor_gpu_discovery 23.9.6 prints it with -properties and -simulate:2,2; -simulate:7; -simulate:2,2 -device 5.
V100S = """\
DetectedGPUs="GPU-a0223334, GPU-b1223334"
Common=[ Capability=7.0; DeviceName="Tesla V100-PCIE-16GB"; ECCEnabled=true; GlobalMemoryMb=24220; ]
GPU_a0223334=[ id="GPU-a0223334"; DevicePciBusId="0000:40:00.0"; DeviceUuid="a0223334-4445-5667-899a-abbccddeeff0"; ]
GPU_b1223334=[ id="GPU-b1223334"; DevicePciBusId="0000:41:00.0"; DeviceUuid="b1223334-4445-5667-899a-abbccddeeff0"; ]
"""
MIGS = """\
DetectedGPUs="MIG-a0223300-4445-5667-899a-abbccddeeff0, MIG-a0223301-4445-5667-899a-abbccddeeff0"
Common=[ ECCEnabled=true; ]
MIG_a0223300_4445_5667_899a_abbccddeeff0=[ id="MIG-a0223300-4445-5667-899a-abbccddeeff0"; GlobalMemoryMb=20086; ]
MIG_a0223301_4445_5667_899a_abbccddeeff0=[ id="MIG-a0223301-4445-5667-899a-abbccddeeff0"; GlobalMemoryMb=20082; ]
"""
TWO_KINDS = """\
DetectedGPUs="GPU-a0223334, GPU-b1223334"
GPU_a0223334=[ id="GPU-a0223334"; Capability=1.2; DeviceName="GeForce GT 330"; GlobalMemoryMb=1024; ]
GPU_b1223334=[ id="GPU-b1223334"; Capability=2.0; DeviceName="GeForce GTX 480"; GlobalMemoryMb=1536; ]
"""
NONE_OF_THESE = 'DetectedGPUs=""\n'
NONE_AT_ALL = "DetectedGPUs=0\n"

NVIDIA = "CUDA_VISIBLE_DEVICES GPU_DEVICE_ORDINAL NVIDIA_VISIBLE_DEVICES"


def lib(shell, script, **environment):
    environment["PATH"] = "/usr/bin:/bin"
    text = 'for part in run limits machine resources install; do . "$0/$part.sh"; done; ' + script
    done = run_lib(shell, text, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({}, ""),
        ({"CUDA_VISIBLE_DEVICES": "0, 1"}, "0,1"),
        ({"CUDA_VISIBLE_DEVICES": "", "GPU_DEVICE_ORDINAL": "GPU-3ac1"}, "GPU-3ac1"),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, ""),
        ({"CUDA_VISIBLE_DEVICES": ""}, "none"),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, "none"),
        ({"CUDA_VISIBLE_DEVICES": "10000", "NVIDIA_VISIBLE_DEVICES": "void"}, "none"),
        (
            {"CUDA_VISIBLE_DEVICES": "MIG-a0223300-4445-5667-899a-abbccddeeff0"},
            "MIG-a0223300-4445-5667-899a-abbccddeeff0",
        ),
        ({"ROCR_VISIBLE_DEVICES": "1"}, ""),
        ({"CUDA_VISIBLE_DEVICES": "0 1"}, "0,1"),
        ({"CUDA_VISIBLE_DEVICES": " 0,\t1 \n"}, "0,1"),
        # The container toolkit sets it if the GPUs come by CDI.
        ({"NVIDIA_VISIBLE_DEVICES": "void"}, ""),
        ({"CUDA_VISIBLE_DEVICES": "3", "NVIDIA_VISIBLE_DEVICES": "void"}, "3"),
    ],
)
def test_the_first_variable_with_a_list_counts(shell, variables, named):
    assert lib(shell, "gpus_named " + NVIDIA, **variables).strip() == named


@pytest.mark.parametrize(
    ("variables", "granted"),
    [
        ({}, ""),
        ({"SGE_HGR_gpu": "2"}, "2"),
        ({"SGE_HGR_gpu": "1 3"}, "1,3"),
        ({"SGE_HGR_gpu_card": "gpu0 gpu3"}, "0,3"),
        ({"SGE_HGR_cuda": "/dev/nvidia1"}, "1"),
        ({"SGE_HGR_NVIDIA_GPUS": "GPU-3ac1f,GPU-12345678"}, "GPU-3ac1f,GPU-12345678"),
        # Other resources that have names, too.
        ({"SGE_HGR_fthread": "4", "SGE_HGR_port": "5001"}, ""),
        ({"SGE_HGR_fthread": "4", "SGE_HGR_gpu": "0"}, "0"),
        ({"PBS_GPUFILE": "node12-gpu3\nnode12-gpu0\n"}, "3,0"),
        ({"PBS_GPUFILE": "gpu07.example.org-gpu1\n"}, "1"),
        ({"PBS_GPUFILE": ""}, ""),
    ],
)
def test_gpus_that_grid_engine_and_torque_name(shell, tmp_path, variables, granted):
    if "PBS_GPUFILE" in variables:
        (tmp_path / "7.servergpu").write_text(variables["PBS_GPUFILE"])
        variables = {"PBS_GPUFILE": str(tmp_path / "7.servergpu")}
    assert lib(shell, "gpus_granted", **variables).strip() == granted


@pytest.mark.parametrize(
    ("printed", "names"),
    [
        (V100S, ["Tesla V100-PCIE-16GB"] * 2),
        (TWO_KINDS, ["GeForce GT 330", "GeForce GTX 480"]),
        (MIGS, []),
        (NONE_AT_ALL, []),
    ],
)
def test_names_of_gpus(shell, printed, names):
    assert lib(shell, 'gpu_names "$PRINTED"', PRINTED=printed).splitlines() == names


def start(site, shell, printed, **settings):
    """Start a glidein whose condor_gpu_discovery prints recorded output of the real one."""
    discovery = "#!/bin/sh\necho \"asked: $*\" >&2\ncat <<'END'\n{}END\n".format(printed).encode()
    site.bring("good", {"libexec/condor_gpu_discovery": (discovery, 0o755)})
    return site.start(shell, **{"GLIDEIN_GPUS": 2, **settings})


@pytest.mark.parametrize(
    ("printed", "settings", "words"),
    [
        (NONE_AT_ALL, {}, "found 0:"),
        (NONE_OF_THESE, {"CUDA_VISIBLE_DEVICES": "5"}, "-device 5 found 0:"),
        (V100S, {"GLIDEIN_GPUS": 3}, "fewer GPUs than GLIDEIN_GPUS=3: condor_gpu_discovery -properties found 2"),
        (V100S, {"CUDA_VISIBLE_DEVICES": ""}, "the batch system assigned no GPU"),
        (V100S, {"CUDA_VISIBLE_DEVICES": "0;id"}, "is invalid: '0;id'"),
        ("", {}, "found 0: asked:"),
    ],
)
def test_fewer_gpus_than_configured(site, any_shell, printed, settings, words):
    assert_ended(site, *start(site, any_shell, printed, **settings).end(), 17, words)


@pytest.mark.parametrize(
    ("settings", "arguments", "environment"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, "-properties -device 0,1", "CUDA_VISIBLE_DEVICES=/CUDA//"),
        (
            {"ROCR_VISIBLE_DEVICES": "0,1", "CUDA_VISIBLE_DEVICES": ""},
            "-properties -by-index -device 0,1",
            "ROCR_VISIBLE_DEVICES=/(GPU|CUDA|OCL|HIP)//",
        ),
        ({"SGE_HGR_gpu": "1 3"}, "-properties -device 1,3", "CUDA_VISIBLE_DEVICES=/CUDA//"),
        ({"GLIDEIN_GPU_DISCOVERY": "-extra"}, "-properties -extra", "CUDA_VISIBLE_DEVICES=/CUDA//"),
        (
            {
                "GLIDEIN_GPU_DISCOVERY": "-extra",
                "CUDA_VISIBLE_DEVICES": "0,1",
                "GLIDEIN_GPUS": "1",
                "GLIDEIN_GRANTED": "auto",
            },
            "-properties -extra -device 0,1",
            "CUDA_VISIBLE_DEVICES=/CUDA//",
        ),
    ],
)
def test_the_startd_uses_the_assigned_gpus(site, shell, settings, arguments, environment):
    glidein = start(site, shell, V100S, **settings).wait_for("registered")
    directory = glidein.directory()
    config = (directory / "condor_config").read_text().splitlines()
    assert "MACHINE_RESOURCE_INVENTORY_GPUs = \"'$(LIBEXEC)/condor_gpu_discovery' {}\"".format(arguments) in config
    assert "SLOT_TYPE_1 = cpus=100%, memory=100%, disk=100%, GPUs=2" in config
    assert 'GPU_NAMES = "Tesla V100-PCIE-16GB,Tesla V100-PCIE-16GB"' in config
    (of_jobs,) = [line for line in config if line.startswith("ENVIRONMENT_FOR_AssignedGPUs")]
    assert of_jobs.endswith(environment)
    # The variables that the daemons inherit no longer list any.
    seen = (directory / "log" / "EnvironmentLog").read_text()
    assert "VISIBLE_DEVICES" not in seen
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


@pytest.mark.parametrize(("denied", "status"), [("01", 143), ("", 17), ("0123", 17)])
def test_gpus_that_are_hidden_from_the_job_leave_other_numbers(site, any_shell, denied, status):
    """Grid Engine names GPUs 2 and 3. If the others are hidden, they are 0 and 1; else these are of other jobs."""
    settings = {"SGE_HGR_gpu": "2 3"}
    (site.root / "dev").mkdir()
    for number in "0123":
        (site.root / "dev" / f"nvidia{number}").write_text("")
        (site.root / "dev" / f"nvidia{number}").chmod(0 if number in denied else 0o600)
    script = site.home / "lib" / "resources.sh"
    script.write_text(script.read_text().replace("GPU_ROOT= ", f"GPU_ROOT='{site.root}' "))
    body = f"case $* in *-device*) echo 'DetectedGPUs=0' ;; *) cat <<'END'\n{V100S}END\n;; esac\n"
    site.bring("good", {"libexec/condor_gpu_discovery": (("#!/bin/sh\n" + body).encode(), 0o755)})
    glidein = site.start(any_shell, GLIDEIN_GPUS=2, **settings)
    if status == 143:
        glidein.wait_for("registered").signal(signal.SIGTERM)
    assert_ended(site, *glidein.end(), status, "signal TERM" if status == 143 else "-device 2,3 found 0")


ALL_VENDORS = dict.fromkeys(("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"), "2,3")


@pytest.mark.parametrize("variables", [ALL_VENDORS, {"CUDA_VISIBLE_DEVICES": "2,3"}, {"HIP_VISIBLE_DEVICES": "2 3"}])
def test_gpus_of_amd_are_given_to_jobs_and_checks_in_their_own_variable(site, shell, variables):
    """Slurm without AutoDetect sets the variables of all vendors."""
    (site.root / "dev").mkdir()
    (site.root / "dev" / "kfd").write_text("")
    script = site.home / "lib" / "resources.sh"
    script.write_text(script.read_text().replace("GPU_ROOT= ", f"GPU_ROOT='{site.root}' "))
    glidein = start(site, shell, V100S, GLIDEIN_CHECKS="gpu", **variables).wait_for("registered")
    config = (glidein.directory() / "condor_config").read_text()
    assert "condor_gpu_discovery' -properties -by-index -device 2,3\"\n" in config
    assert "ENVIRONMENT_FOR_AssignedGPUs = ROCR_VISIBLE_DEVICES=" in config
    assert 'GLIDEIN_GPU_LIST=2,3 GLIDEIN_GPU_VARIABLE=ROCR_VISIBLE_DEVICES"\n' in config
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_checks_get_the_list_of_assigned_gpus(site, shell):
    glidein = start(site, shell, V100S, CUDA_VISIBLE_DEVICES="0,1", GLIDEIN_CHECKS="gpu").wait_for("registered")
    config = (glidein.directory() / "condor_config").read_text().splitlines()
    assert 'STARTD_CRON_gpu_ENV = "GLIDEIN_CHECK_TIMEOUT_S=60 GLIDEIN_GPUS=2 GLIDEIN_GPU_LIST=0,1"' in config
    # The collector gets results sooner only where jobs depend on them.
    assert not [line for line in config if line.startswith("UPDATE_INTERVAL")]
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")


def test_of_more_gpus_than_configured_the_first_are_offered(site, shell):
    glidein = start(site, shell, V100S, GLIDEIN_GPUS=1, GLIDEIN_CHECKS="gpu", GLIDEIN_REQUIRE_CHECKS="gpu")
    glidein.wait_for("registered")
    config = (glidein.directory() / "condor_config").read_text()
    assert "condor_gpu_discovery' -properties -device GPU-a0223334\"\n" in config
    assert "GPUs=1\n" in config
    assert 'GLIDEIN_GPU_LIST=GPU-a0223334"\n' in config
    assert "UPDATE_INTERVAL = 60\n" in config
    assert "GPUs: found 2; offering the first 1" in glidein.output
    assert_ended(site, *glidein.signal(signal.SIGTERM).end(), 143, "signal TERM")
