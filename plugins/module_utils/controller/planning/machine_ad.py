# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine ad that a glidein of an entry and shape will probably have.

It has the attributes of every startd on Linux, overridden by those that earlier glideins of the entry showed in the
collector, overridden by the entry's `attributes`. Names are in lower case, because ClassAds ignore their case.
"""

import time

from ansible_collections.glidein.ops.plugins.module_utils.entries import lasts_s

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

_SIZES = ("cpus", "memory", "disk", "gpus")
_CHECK_PREFIXES = ("glidein", "pyglidein")
_GPU_PREFIX = "gpus_"


def machine_ad(site, entry, shape_name, sample, now_s, htcondor=()):
    """Return {name: value}.

    site: result of normalise_site; entry: one of its entries; sample: attributes of an earlier glidein's ad, of any
    shape of the entry, or None; htcondor: the (version, platform) of each tarball.
    """
    shape = entry["shapes"][shape_name]
    ad = dict(ASSUMED)
    for name, value in (sample or {}).items():
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


def sampled_ad(sample):
    """Return the ad of a machine that is known only by a sample of its attributes."""
    ad = dict(ASSUMED)
    ad.update((name.lower(), value) for name, value in sample.items())
    ad.update(NAMES)
    gpus = ad.get("gpus")
    if isinstance(gpus, int) and 0 < gpus <= 100:
        ad["availablegpus"] = [gpu_ad(ad)] * gpus
    return ad


def gpu_ad(ad):
    """Return the ad in which RequireGPUs is evaluated: the common properties of a machine's GPUs, GPUs_X as X."""
    return {name[len(_GPU_PREFIX) :]: value for name, value in ad.items() if name.startswith(_GPU_PREFIX)}


def is_unknown_name(ad, name):
    """Return whether an attribute of a machine ad (in lower case) is a name that is unknown before the glidein runs."""
    return name in NAMES and ad.get(name) == NAMES[name]


def _when_it_starts(now_s):
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


def _sizes(shape):
    kib = shape["disk_mb"] * 1024
    found = {}
    for name, value in zip(_SIZES, (shape["cpus"], shape["memory_mb"], kib, shape["gpus"])):
        if name == "gpus" and not value:
            continue
        for prefix in ("", "total", "totalslot"):
            found[prefix + name] = value
    found.update(detectedcpus=shape["cpus"], detectedmemory=shape["memory_mb"], virtualmemory=shape["memory_mb"] * 1024)
    return found


def _is_of_any_shape(name, shape):
    """Return whether an attribute of one shape's machine holds for another shape.

    Sizes do not, and properties of GPUs only hold for a shape with GPUs.
    """
    bare = name
    for prefix in ("totalslot", "total", "detected", "childslot"):
        if name.startswith(prefix):
            bare = name[len(prefix) :]
            break
    if bare in _SIZES or name == "availablegpus":
        return False
    return bool(shape["gpus"]) or not name.startswith(("gpus", "cuda"))
