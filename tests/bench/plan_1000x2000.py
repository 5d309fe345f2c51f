# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One plan for 1,000 entries and 2,000 groups, and one for 10 entries and 50 groups. Needs no lab.

The groups have 200 distinct Requirements and 50 distinct sets of attributes; a third of the entries have glideins, some
of them with free slots. Each plan is made in a process of its own, whose peak memory includes Python and the libraries.
"""

import json
import os
import random
import resource
import subprocess
import sys
import time

import bench_lab
from results import Goal

GOALS = [Goal("seconds", "<=", 5), Goal("peak_mb", "<=", 500), Goal("small_ms", "<=", 50)]

NOW = 1795211280
ENTRIES_OF_A_SITE = 4
SYSTEMS = ("RHEL8", "RHEL9", "AlmaLinux9", "Debian12", "Ubuntu22", "Ubuntu24")


def requirements(number):
    """Return one of 200 Requirements, with condor_submit's own conditions and a user's."""
    parts = [
        '(TARGET.Arch == "X86_64")',
        '(TARGET.OpSys == "LINUX")',
        "(TARGET.Disk >= RequestDisk)",
        "(TARGET.Memory >= RequestMemory)",
        "(TARGET.HasFileTransfer)",
    ]
    one, other = (SYSTEMS[(number + step) % len(SYSTEMS)] for step in (0, 1))
    users = [
        f'OpSysAndVer == "{one}" || OpSysAndVer == "{other}"',
        "TARGET.HAS_CVMFS_oasis_opensciencegrid_org =?= true",
        "TARGET.HasSingularity",
        'stringListMember(TARGET.GLIDEIN_Site, WantSites ?: "") || WantSites =?= undefined',
        f'TARGET.Microarch >= "x86_64-v{2 + number % 3}"',
        "TARGET.GLIDEIN_ToDie - time() > WantSeconds",
    ]
    chosen = [user for bit, user in enumerate(users) if number >> bit & 1]
    return " && ".join([f"({user})" for user in chosen] + parts + [f"(TARGET.Number_{number // 64} =!= {number})"])


def attributes(number):
    """Return one of 50 sets of a job's attributes."""
    found = {"WantSeconds": 600 * (1 + number % 10), "ProjectName": f"project{number // 10}"}
    if number % 5 == 0:
        found["WantSites"] = ",".join(f"site{one}" for one in range(number, number + 20))
    return found


def demand(groups, chance):
    """Return the result of get_demand."""
    return {
        "as_of": NOW - 20,
        "schedds": {"answered": ["ap"], "failed": []},
        "groups": [
            {
                "id": f"{number:016x}",
                "count": chance.choice((1, 5, 20, 100, 1000)),
                "cpus": chance.choice((1, 1, 1, 2, 4, 8)),
                "memory_mb": 128 * chance.randint(4, 200),
                "disk_mb": chance.choice((1, 1000, 5000, 20000)),
                "gpus": chance.choice((0, 0, 0, 0, 0, 0, 0, 1)),
                "gpu_requirements": None,
                "requirements": requirements(number % 200),
                "attributes": attributes(number % 50),
                "max_runtime_s": chance.choice((None, None, 3600, 86400)),
                "first_job": f"{number}.0",
            }
            for number in range(groups)
        ],
        "paused": False,
    }


def entry(number, chance):
    """Return the configuration of an entry as an operator writes it."""
    cpus = chance.choice((8, 16, 28, 40, 64, 128))
    gpus = chance.choice((0, 0, 0, 0, 4))
    return {
        "walltime": chance.choice(("4h", "24h", "48h")),
        "node": {
            "cpus": cpus,
            "memory_mb": cpus * chance.choice((2000, 4000, 8000)),
            "disk_mb": cpus * 10000,
            "gpus": gpus,
            "whole_node": True,
        },
        "attributes": {
            "OpSysAndVer": SYSTEMS[number % len(SYSTEMS)],
            "Microarch": f"x86_64-v{2 + number % 3}",
            "HAS_CVMFS_oasis_opensciencegrid_org": number % 3 > 0,
            "HasSingularity": number % 4 > 0,
        },
        "accept": {"gpus": {"min": 1}} if gpus else {},
        "priority": number % 3,
        "limits": {"queued": 50, "total": 500, "per_cycle": 25},
    }


def sites_and_supply(entries, chance, normalise_site):
    """Return (sites for make_plan, the result of get_supply)."""
    sites, supplied = [], []
    for number in range(entries // ENTRIES_OF_A_SITE):
        name = f"site{number}"
        raw = {f"q{one}": entry(number * ENTRIES_OF_A_SITE + one, chance) for one in range(ENTRIES_OF_A_SITE)}
        site = normalise_site("glidein", name, raw)
        counts = []
        for one in site["entries"].values():
            for shape_name, shape in one["shapes"].items():
                running = chance.choice((0, 0, 10))
                counts.append(
                    {
                        "entry": one["name"],
                        "shape": shape_name,
                        "queued": running // 3,
                        "running": running,
                        "completing": 0,
                        "sick": 0,
                    }
                )
                size = {"cpus": 2, "memory_mb": 4000, "disk_mb": 10000, "gpus": shape["gpus"], "count": running // 5}
                supplied.append(
                    {
                        "site": name,
                        "entry": one["name"],
                        "shape": shape_name,
                        "registered": running,
                        "free": [size],
                        "sample": {"Arch": "X86_64", "OpSys": "LINUX"},
                    }
                )
        queue = {"site": name, "entries": counts, "orphans": {"queued": 0, "running": 0}, "drains": []}
        sites.append({"site": site, "queue": queue, "error": None})
    return sites, {"as_of": NOW - 20, "entries": supplied}


def plan(entries, groups):
    """Make one plan and return its time and memory. Run it in a process of its own."""
    from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
    from ansible_collections.glidein.ops.plugins.module_utils.controller.planning import make_plan

    chance = random.Random(1)  # noqa: S311
    wanted = demand(groups, chance)
    sites, supply = sites_and_supply(entries, chance, normalise_site)
    began = time.process_time()
    made = make_plan(wanted, supply, sites, NOW, 900)
    seconds = time.process_time() - began
    return {
        "seconds": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "glideins": sum(max(0, item.added) for item in made["plan"]),
        "groups_unserved": len({item["group"] for item in made["unserved"]}),
    }


def measure(lab):
    """Return the plan's seconds and peak memory, and the milliseconds of the small one."""
    folder = bench_lab.ROOT / ".build" / "bench" / "ansible_collections" / "glidein"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "ops"
    if not link.is_symlink():
        link.symlink_to(bench_lab.ROOT)
    large, small = (_apart(folder.parents[1], *size) for size in ((1000, 2000), (10, 50)))
    return {**large, "small_ms": small["seconds"] * 1000}


def _apart(path, entries, groups):
    result = subprocess.run(
        [sys.executable, __file__, str(entries), str(groups)],
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise bench_lab.BenchError(f"the plan of {entries} entries and {groups} groups: {result.stderr[-2000:]}")
    return json.loads(result.stdout)


if __name__ == "__main__":
    print(json.dumps(plan(int(sys.argv[1]), int(sys.argv[2]))))
