# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builders of the tests' inputs: each returns a small valid input, changed by keyword."""

import base64
import contextlib
import io
import json

from ansible.module_utils import basic
from ansible_collections.glidein.ops.plugins.module_utils.batch.base import Job
from ansible_collections.glidein.ops.plugins.module_utils.common.entries import normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.login_node.job_script import Payload

NOW = 1795211280
# What a batch script of the site `lab` needs to know about the installed payload.
PAYLOAD = Payload(
    site="lab",
    home="/home/me/.glidein/lab/aaaaaaaaaaaa",
    log_dir="/home/me/.glidein/lab/log",
    scratch="${TMPDIR:-/tmp}",
    environment={},
    modules=[],
    condor_config={},
    credential="/home/me/.glidein/lab/credential",
    collector="cm:9618",
)


def shape(cpus=1, memory_mb=2000, disk_mb=10000, **more):
    return dict({"cpus": cpus, "memory_mb": memory_mb, "disk_mb": disk_mb}, **more)


def raw_entry(**changes):
    return dict({"queue": "cpu", "walltime": "2h", "shapes": {"core": shape()}}, **changes)


def site(entries=None, limits=None, name="lab"):
    """Return a normalised site; by default with the entry `main` that has the shape `core`."""
    return normalise_site("glidein", name, entries or {"main": raw_entry()}, limits)


def job(job_id, name, state="queued", submitted=NOW - 100, reason="", cancellable=None, started=None):
    if cancellable is None:
        cancellable = state == "queued"
    return Job(job_id, job_id.split("_")[0], name, state, cancellable, reason, submitted, started)


def group(group_id="a", count=1, **changes):
    return dict(
        {
            "id": group_id,
            "count": count,
            "cpus": 1,
            "memory_mb": 1000,
            "disk_mb": 100,
            "gpus": 0,
            "requirements": None,
            "attributes": {},
            "max_runtime_s": None,
            "first_job": "1.0",
        },
        **changes,
    )


def demand(*groups, **changes):
    return dict({"as_of": NOW - 10, "schedds": {"answered": ["cm"], "failed": []}, "groups": list(groups)}, **changes)


def supply(*entries, **changes):
    return dict({"as_of": NOW - 10, "error": None, "entries": list(entries), "others": 0}, **changes)


def supplied(entry="main", shape_name="core", registered=0, free=(), site_name="lab", **more):
    known = {"site": site_name, "entry": entry, "shape": shape_name, "registered": registered, "free": list(free)}
    return dict(known, **more)


def slots(count, **changes):
    """Return the free slots of some glideins of 1 core, as `free` of a supply."""
    return [dict({"cpus": 1, "memory_mb": 2000, "disk_mb": 9000, "gpus": 0, "count": count}, **changes)]


def history(plans=(), **counts):
    """Return the server's history of an entry and shape. plans: [{"age_s": seconds ago, ...}], oldest first."""
    told = [dict({"as_of": NOW - plan["age_s"]}, **plan) for plan in plans]
    numbers = {"window_s": 21600, "started": 0, "registered": 0, "never_registered": 0, "ended_early": 0}
    return dict(numbers, plans=told, **counts)


def token(**claims):
    """Return a token as HTCondor makes it, with these claims besides its own."""
    claims = dict({"iat": NOW, "iss": "pool", "jti": "0123", "sub": "glidein-lab@pool"}, **claims)
    parts = [json.dumps(part).encode("utf-8") for part in ({"alg": "HS256", "kid": "POOL"}, claims)] + [b"signature"]
    return ".".join(base64.urlsafe_b64encode(part).decode("ascii").rstrip("=") for part in parts) + "\n"


def queue(counts=None, name="lab", orphans=None):
    """Return a `queue` of queue_info. counts: {(entry, shape): {"queued": 1, ...}}."""
    entries = []
    for key, states in (counts or {}).items():
        entry = {"entry": key[0], "shape": key[1], "queued": 0, "running": 0, "completing": 0, "sick": 0}
        entry.update(sick_reasons=[], running_since=[], running_glideins=[])
        entries.append(dict(entry, **states))
    return {
        "site": name,
        "as_of": NOW - 5,
        "user": "glidein",
        "entries": entries,
        "orphans": orphans or {"queued": 0, "running": 0},
        "drains": [],
        "versions": {},
        "credential_expires": None,
        "access": {"due": False, "problems": []},
        "files": {"deployed": True, "credential": True, "newest_output": None, "oldest_log": None},
    }


def planned_site(one=None, reading="empty", error=None):
    """Return a site as make_plan expects it; `reading` is None, "empty", or a `queue`. Missing pairs have no jobs."""
    one = one or site()
    if reading is not None:
        reading = queue(name=one["site"]) if reading == "empty" else reading
        there = {(count["entry"], count["shape"]) for count in reading["entries"]}
        pairs = {(entry, key): {} for entry in one["entries"] for key in one["entries"][entry]["shapes"]}
        missing = queue({pair: pairs[pair] for pair in pairs if pair not in there})["entries"]
        reading = dict(reading, entries=reading["entries"] + missing)
    return {"site": one, "queue": reading, "error": error}


def definition(name="lab", **changes):
    """Return the definition of a site as sites_of_play returns it, with an empty queue."""
    return dict(
        {
            "site": name,
            "scheduler": "slurm",
            "scheduler_options": {},
            "entries": {"main": raw_entry()},
            "limits": {},
            "budget": {},
            "eagerness": None,
            "credential": "token",
            "log_days": 14,
            "queue": queue({("main", "core"): {}}, name),
            "error": None,
        },
        **changes,
    )


def site_options(home, **changes):
    """Return options of a module for the site `lab` with Slurm, whose payload lies in `home`."""
    known = {"deployment": "glidein", "site": "lab", "scheduler": "slurm", "entries": {"main": raw_entry()}}
    return dict(known, home=str(home), **changes)


def make_site_home(home):
    """Create the home of a login node with the site `lab`: version aaaaaaaaaaaa and a credential; return it."""
    version = home / "lab" / "aaaaaaaaaaaa"
    version.mkdir(parents=True)
    (version / "glidein.sh").write_text("exit 0\n")
    (home / "lab" / "credential").write_text("a token\n")
    (home / "lab" / "current").symlink_to("aaaaaaaaaaaa")
    return home


def run_module(main, arguments, check=False, diff=False):
    """Run a module's main() with these options; return its output as Ansible would get it."""
    options = dict(
        arguments,
        _ansible_check_mode=check,
        _ansible_diff=diff,
        _ansible_remote_tmp="/tmp",  # noqa: S108
        _ansible_keep_remote_files=False,
    )
    before = basic._ANSIBLE_ARGS, getattr(basic, "_ANSIBLE_PROFILE", None)
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": options}).encode("utf-8")
    basic._ANSIBLE_PROFILE = "legacy"
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
            main()
    finally:
        basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = before
    return json.loads(printed.getvalue())
