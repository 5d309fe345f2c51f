# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A glidein as a machine: the ad that it will probably have, and the division of its partitionable slot.

The ad has the attributes of every startd on Linux, overridden by those that earlier glideins of the entry showed in the
collector, overridden by the entry's `attributes`. Names are in lower case, because ClassAds ignore their case.

A job matches a slot if its request, as the job states it, is within what is left of the slot. The startd then rounds
the request up: memory to 128 MB (MODIFY_REQUEST_EXPR_REQUESTMEMORY), disk to 1 MiB (MODIFY_REQUEST_EXPR_REQUESTDISK).
If the rounded request is more than what is left, the startd uses the request without rounding
(MUST_MODIFY_REQUEST_EXPRS is false). The disk of a new dynamic slot is 1 MiB larger than the request, even if less is
left. Measured with HTCondor 23.9.6: a slot of 4000 MB runs one job of 4000 MB, three of 1000 MB and two of 1950 MB; a
slot with 8000 MiB of disk runs one job of 8000 MiB, three of 2000 MiB and four of 1999 MiB.

Resources are tuples in the order of RESOURCES. Disk is in whole MiB, so that only memory needs rounding.
"""

import time
from typing import Any, Dict, Iterable, Sequence, Tuple

from ansible_collections.glidein.ops.plugins.module_utils.common.entries import lasts_s
from ansible_collections.glidein.ops.plugins.module_utils.controller.planning.classad import Ad

# What a slot has or a job requests, in the order of RESOURCES.
Resources = Tuple[int, ...]

# Of a startd of HTCondor 23.9 that glidein.sh configures. The system's version, CVMFS and containers are not included,
# because they differ from site to site.
ASSUMED = {
    "arch": "X86_64",
    "opsys": "LINUX",
    "opsyslegacy": "LINUX",
    "hasfiletransfer": True,
    "hasioproxy": True,
    "hasjiclocalconfig": True,
    "hasjiclocalstdin": True,
    "hasjobdeferral": True,
    "hasmpi": True,
    "hasperfileencryption": True,
    "hasreconnect": True,
    "hasselfcheckpointtransfers": True,
    "hastdp": True,
    "hastransferinputremaps": True,
    "hasvm": False,
    "isowner": False,
    "partitionableslot": True,
    "slottype": "Partitionable",
    "slottypeid": 1,
    # Also the dynamic slots of a glidein have this number.
    "slotid": 1,
    "state": "Unclaimed",
    "activity": "Idle",
    "loadavg": 0.0,
    "condorloadavg": 0.0,
    "totalloadavg": 0.0,
    "keyboardidle": 86400,
    "consoleidle": 86400,
    "currentrank": 0.0,
    "mytype": "Machine",
    "totalslots": 1,
    "cpubusy": False,
    "draining": False,
    "maxjobretirementtime": 0,
    "timetolive": 2147483647,
}

# Names that the node or the batch job gives to a glidein, which are unknown before it runs. The values here are the
# name of no node, so that "not this node" is true and "this node" is false. They are also valid regular expressions.
NAMES = {
    "filesystemdomain": "glidein_~",
    "glidein_batchid": "~",
    "machine": "~",
    "myaddress": "<~>",
    "name": "slot1@glidein_~@~",
    "startdipaddr": "<~>",
    "uiddomain": "~",
    "utsnamenodename": "~",
}

# Attributes that depend on the programs of the tarball besides HTCondor's version, such as its plug-ins for URLs.
OF_TARBALL = frozenset(("hasfiletransferpluginmethods",))

_SIZES = ("cpus", "memory", "disk", "gpus")
_CHECK_PREFIXES = ("glidein", "pyglidein")
_GPU_PREFIX = "gpus_"

MEMORY_STEP_MB = 128
SLOT_DISK_MB = 1


def machine_ad(
    site: Dict[str, Any],
    entry: Dict[str, Any],
    shape_name: str,
    sample: Ad,
    now_s: float,
    htcondor: Iterable[Sequence[str]] = (),
) -> Ad:
    """Return {name: value}.

    site: result of normalise_site; entry: one of its entries; sample: attributes of an earlier glidein's ad, of any
    shape of the entry; htcondor: the (version, platform) of each tarball.
    """
    shape = entry["shapes"][shape_name]
    ad = dict(ASSUMED)
    for name, value in sample.items():
        if _is_of_any_shape(name.lower(), shape):
            ad[name.lower()] = value
    # What all tarballs have in common, the next glidein has, too.
    for name, values in zip(("CondorVersion", "CondorPlatform"), zip(*htcondor)):
        if len(set(values)) == 1 and f" {values[0]} " not in str(ad.get(name.lower())):
            ad[name.lower()] = f"${name}: {values[0]} $"
    ad.update(NAMES)
    ad.update(_sizes(shape))
    ad.update(_when_it_starts(now_s))
    to_retire_s = min(entry["walltime_s"] - entry["retirement_s"], lasts_s(entry))
    ad.update(
        is_glidein=True,
        glidein_deployment=site["deployment"],
        glidein_site=site["site"],
        glidein_entry=entry["name"],
        glidein_shape=shape_name,
        glidein_siteresource=entry["site_resource"] or site["site"],
        glidein_max_walltime=entry["walltime_s"],
        glidein_toretire=now_s + to_retire_s,
        glidein_todie=now_s + lasts_s(entry),
        pyglidein_time_to_live=to_retire_s,
    )
    # The result of a check on one node does not hold for the next one. Each check of the entry is assumed to succeed.
    ad.update((f"{prefix}_resource_{name.lower()}", True) for name in entry["checks"] for prefix in _CHECK_PREFIXES)
    ad.update((name.lower(), value) for name, value in entry["attributes"].items())
    if shape["gpus"]:
        ad["availablegpus"] = [gpu_ad(ad)] * shape["gpus"]
    return ad


def is_outdated(sample: Ad, htcondor: Sequence[Sequence[str]]) -> bool:
    """Return whether a sample may be of a glidein with another tarball than those of `htcondor`, as machine_ad.

    It does not show then that a new glidein lacks what the tarball brings.
    """
    known = {name.lower(): str(value) for name, value in sample.items()}
    others = [version for version, _platform in htcondor if f" {version} " not in known.get("condorversion", "")]
    return bool(known) and bool(htcondor) and len(others) == len(htcondor)


def sampled_ad(sample: Ad) -> Ad:
    """Return the ad of a machine that is known only by a sample of its attributes."""
    ad = dict(ASSUMED)
    ad.update((name.lower(), value) for name, value in sample.items())
    ad.update(NAMES)
    gpus = ad.get("gpus")
    if isinstance(gpus, int) and 0 < gpus <= 100:
        ad["availablegpus"] = [gpu_ad(ad)] * gpus
    return ad


def gpu_ad(ad: Ad) -> Ad:
    """Return the ad in which RequireGPUs is evaluated: the common properties of a machine's GPUs, GPUs_X as X."""
    return {name[len(_GPU_PREFIX) :]: value for name, value in ad.items() if name.startswith(_GPU_PREFIX)}


def is_unknown_name(ad: Ad, name: str) -> bool:
    """Return whether an attribute of a machine ad (in lower case) is a name that is unknown before the glidein runs."""
    return name in NAMES and ad.get(name) == NAMES[name]


def _when_it_starts(now_s: float) -> Ad:
    """Return the attributes that change with time, with the values of a startd that starts now.

    ClockMin and ClockDay are in the time zone of the node, which is not known: UTC is assumed.
    """
    clock = time.gmtime(now_s)
    ad = dict.fromkeys(("currenttime", "mycurrenttime", "lastheardfrom", "daemonstarttime"), now_s)
    ad.update(dict.fromkeys(("daemonlastreconfigtime", "enteredcurrentstate", "enteredcurrentactivity"), now_s))
    for kind in ("graceful", "quick"):
        ad.update({f"expectedmachine{kind}drainingcompletion": now_s, f"expectedmachine{kind}drainingbadput": 0})
    for count in ("jobstarts", "jobpreemptions", "jobrankpreemptions", "jobuserpriopreemptions"):
        ad.update({count: 0, "recent" + count: 0})
    ad.update(
        clockmin=clock.tm_hour * 60 + clock.tm_min,
        clockday=(clock.tm_wday + 1) % 7,
        numdynamicslots=0,
        retirementtimeremaining=0,
    )
    return ad


def _sizes(shape: Dict[str, Any]) -> Ad:
    kib = shape["disk_mb"] * 1024
    found = {}
    for name, value in zip(_SIZES, (shape["cpus"], shape["memory_mb"], kib, shape["gpus"])):
        if name == "gpus" and not value:
            continue
        for prefix in ("", "total", "totalslot"):
            found[prefix + name] = value
    found.update(virtualmemory=shape["memory_mb"] * 1024)
    return found


def _is_of_any_shape(name: str, shape: Dict[str, Any]) -> bool:
    """Return whether an attribute of one shape's machine holds for another shape.

    Sizes do not, and properties of GPUs only hold for a shape with GPUs.
    """
    bare = name
    for prefix in ("totalslot", "total", "childslot"):
        if name.startswith(prefix):
            bare = name[len(prefix) :]
            break
    if bare in _SIZES or name == "availablegpus":
        return False
    return bool(shape["gpus"]) or not name.startswith(("gpus", "cuda"))


def rounded_request(request: Resources) -> Resources:
    """Return a job's request as the startd rounds it."""
    cpus, memory_mb, disk_mb, gpus = request
    return (cpus, -(-memory_mb // MEMORY_STEP_MB) * MEMORY_STEP_MB, disk_mb, gpus)


def fits(left: Resources, request: Resources) -> bool:
    """Return whether a slot with the resources `left` matches a job's request."""
    return left[0] >= request[0] and left[1] >= request[1] and left[2] >= request[2] and left[3] >= request[3]


def jobs_per_slot(left: Resources, request: Resources) -> int:
    """Return how many jobs with this request a slot with the resources `left` holds."""
    return sum(_division(left, request)) if fits(left, request) else 0


def part_of(size: Resources, request: Resources, parts: int) -> Resources:
    """Return one of `parts` equal parts of a slot, but no less than one job with this request needs of it."""
    return tuple(max(min(all_of_it, one), -(-all_of_it // parts)) for all_of_it, one in zip(size, request))


def resources_left(left: Resources, request: Resources, jobs: int) -> Resources:
    """Return the resources that a slot with `left` has after so many jobs, at most `jobs_per_slot`."""
    whole = min(jobs, _division(left, request)[0])
    return _without(_without(left, rounded_request(request), whole), request, jobs - whole)


def _division(left: Resources, request: Resources) -> Tuple[int, int]:
    """Return (jobs that get the rounded request, further jobs that get the request without rounding)."""
    rounded = rounded_request(request)
    whole = _most(left, rounded)
    if rounded == request or left[1] - whole * rounded[1] < request[1]:
        return whole, 0
    return whole, _most(_without(left, rounded, whole), request)


def _most(left: Resources, request: Resources) -> int:
    cpus, memory_mb, disk_mb, gpus = request
    # The last job needs room for its request alone, not for the additional disk of its slot.
    most = min(left[0] // cpus, left[1] // memory_mb, (left[2] + SLOT_DISK_MB) // (disk_mb + SLOT_DISK_MB))
    return min(most, left[3] // gpus) if gpus else most


def _without(left: Resources, request: Resources, jobs: int) -> Resources:
    cpus, memory_mb, disk_mb, gpus = request
    return (
        left[0] - jobs * cpus,
        left[1] - jobs * memory_mb,
        max(0, left[2] - jobs * (disk_mb + SLOT_DISK_MB)),
        left[3] - jobs * gpus,
    )
