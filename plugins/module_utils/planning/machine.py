# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine ad that a glidein of an entry and shape will have, as far as it can be told before it is there.

What every startd on an ordinary Linux machine says is assumed; what earlier glideins of the entry showed in the
collector is better; what the operator states in `attributes` is final. Names are in lower case, as ClassAds do not
tell them apart.
"""

from ansible_collections.glidein.ops.plugins.module_utils.entries import lasts_s

# Of a startd of HTCondor 23.9 that glidein.sh configures. Nothing of the system's version, of CVMFS or of containers:
# these differ from site to site, so that nobody can assume them.
ASSUMED = {
    "arch": "X86_64",
    "opsys": "LINUX",
    "opsyslegacy": "LINUX",
    "hasfiletransfer": True,
    "hasioproxy": True,
    "hasjiclocalconfig": True,
    "hasjiclocalstdin": True,
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
}

_SIZES = ("cpus", "memory", "disk", "gpus")
_CHECK_PREFIXES = ("glidein", "pyglidein")
_GPU_PREFIX = "gpus_"


def machine_ad(site, entry, shape_name, sample, now_s):
    """Return {name: value}.

    site: result of normalise_site; entry: one of its entries; sample: attributes of an earlier glidein's ad, of any
    shape of the entry, or None.
    """
    shape = entry["shapes"][shape_name]
    ad = dict(ASSUMED)
    for name, value in (sample or {}).items():
        if _is_of_any_shape(name.lower(), shape):
            ad[name.lower()] = value
    ad.update(_sizes(shape))
    ad.update(
        currenttime=now_s,
        is_glidein=True,
        glidein_deployment=site["deployment"],
        glidein_site=site["site"],
        glidein_entry=entry["name"],
        glidein_shape=shape_name,
        glidein_siteresource=entry["site_resource"] or site["site"],
        glidein_max_walltime=entry["walltime_s"],
        glidein_toretire=now_s + min(entry["walltime_s"] - entry["retirement_s"], lasts_s(entry)),
        glidein_todie=now_s + lasts_s(entry),
    )
    # What a check found on one node tells nothing of the next: it is what the operator checks for that it will find.
    ad.update((f"{prefix}_resource_{name.lower()}", True) for name in entry["checks"] for prefix in _CHECK_PREFIXES)
    ad.update((name.lower(), value) for name, value in entry["attributes"].items())
    if shape["gpus"]:
        ad["availablegpus"] = [gpu_ad(ad)] * shape["gpus"]
    return ad


def sampled_ad(sample):
    """Return the ad of a machine of which only a sample is known."""
    ad = dict(ASSUMED)
    ad.update((name.lower(), value) for name, value in sample.items())
    gpus = ad.get("gpus")
    if isinstance(gpus, int) and 0 < gpus <= 100:
        ad["availablegpus"] = [gpu_ad(ad)] * gpus
    return ad


def gpu_ad(ad):
    """Return what RequireGPUs is evaluated in: the properties that all GPUs of a machine have, GPUs_X as X."""
    return {name[len(_GPU_PREFIX) :]: value for name, value in ad.items() if name.startswith(_GPU_PREFIX)}


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
    """Whether an attribute of one shape's machine tells about another shape: not its sizes, and GPUs only of GPUs."""
    bare = name
    for prefix in ("totalslot", "total", "detected", "childslot"):
        if name.startswith(prefix):
            bare = name[len(prefix) :]
            break
    if bare in _SIZES or name == "availablegpus":
        return False
    return bool(shape["gpus"]) or not name.startswith(("gpus", "cuda"))
