# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queue that the benches use: 500 submissions by ten users, each with different requests and Requirements.

Pure functions. The submit files are like those of a pool that simulates and analyses: a Requirements expression about
sites and software, and arguments and files that differ from job to job.
"""

GROUPS = 500
USERS = tuple(f"bench{number}" for number in range(10))

# (cpus, memory in MiB, disk in GiB or None if a job does not request it, GPUs)
SIZES = ((1, 2000, 2, 0), (1, 4000, None, 0), (2, 8000, 10, 0), (8, 30000, 50, 0), (4, 16000, 20, 1))
TEXTS = GROUPS // len(SIZES)


def requirements(number):
    """Return (Requirements, further submit file lines) of text `number`, 0 to TEXTS - 1: four kinds, 25 of each."""
    kind, which = number % 4, number // 4
    common = "(HAS_SINGULARITY =?= true) && (OSG_HOST_KERNEL_VERSION >= 31000)"
    if kind == 0:
        software = f"TARGET.HAS_CVMFS_experiment{which}_example_org =?= true"
        return f'{common} && ({software}) && (OpSysAndVer == "AlmaLinux9")', ""
    if kind == 1:
        return f"{common} && (TARGET.GLIDEIN_Site == MY.WantSite)", f'+WantSite = "Site-{which}"\n'
    if kind == 2:
        sites = ",".join(f"Site-{which + offset}" for offset in range(8))
        return f"{common} && stringListMember(TARGET.GLIDEIN_Site, MY.DesiredSites)", f'+DesiredSites = "{sites}"\n'
    return f'{common} && !regexp("^node{which:02d}[0-9]+\\\\.", Machine) && (Microarch >= "x86_64-v3")', ""


def submit_file(group, jobs):
    """Return the submit file of `jobs` jobs of group `group`."""
    cpus, memory, disk, gpus = SIZES[group // TEXTS]
    expression, more = requirements(group % TEXTS)
    lines = [
        "universe = vanilla",
        "executable = /usr/bin/python3",
        "transfer_executable = false",
        "skip_filechecks = true",
        f"requirements = {expression}",
        f"request_cpus = {cpus}",
        f"request_memory = {memory}MB",
        *([f"request_disk = {disk}GB"] if disk else []),
        *([f"request_gpus = {gpus}", "require_gpus = Capability >= 7.5"] if gpus else []),
        *(["allowed_job_duration = 14400"] if group % 2 else []),
        "seed = $(Cluster)$(Process)",
        f'arguments = "simulate.py --dataset {20000 + group} --seed $(seed) --events 100000 --geometry detector_v3.i3 '
        f'--photons tables/splines_$(seed).fits --output events_{20000 + group}_$(seed).i3.zst"',
        f'environment = "PYTHONPATH=/cvmfs/software.example.org/py3-v4/lib DATASET={20000 + group} SEED=$(seed) '
        'OMP_NUM_THREADS=1 X509_CERT_DIR=/cvmfs/oasis.example.org/certificates"',
        f"transfer_input_files = simulate.py, configurations/dataset_{20000 + group}.yaml, geometry/detector_v3.i3, "
        "tables/splines_$(seed).fits, calibration/2026/season.json",
        f"transfer_output_files = events_{20000 + group}_$(seed).i3.zst, log_$(seed).json",
        "should_transfer_files = YES",
        "when_to_transfer_output = ON_EXIT",
        f"output = logs/{20000 + group}.$(seed).out",
        f"error = logs/{20000 + group}.$(seed).err",
        f"log = logs/{20000 + group}.log",
        f'batch_name = "dataset {20000 + group}"',
        '+Project = "neutrino"',
        f"+DatasetId = {20000 + group}",
        "max_retries = 3",
    ]
    return "\n".join(lines) + "\n" + more + f"queue {jobs}\n"


def submissions(jobs):
    """Return {user: [submit file]}: `jobs` jobs of every group; a group belongs to one user."""
    return {
        user: [submit_file(group, jobs) for group in range(number, GROUPS, len(USERS))]
        for number, user in enumerate(USERS)
    }
