# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles of known machines (files/profiles), and the parts of a proposal that come from them.

docs/profiles.md describes the keys of a profile. The unit tests check each profile of the collection.
"""

import difflib
import pathlib
import re
from typing import Any, Dict, List, Optional, Union

from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import Proposal
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.queues import (
    Facts,
    Queue,
    why_unusable,
)

PROFILES_DIR = pathlib.Path(__file__).resolve().parents[4] / "files" / "profiles"
# The disk in MiB for each core of a shape whose documentation states no size. It is an assumption of the collection.
DISK_MB_PER_CPU = 1000
_OPTIONAL: Dict[str, Any] = {"login": None, "scratch": None, "outbound": None, "quirks": (), "queues_without_entry": ()}
_SIMILAR_MOST = 5

Profile = Dict[str, Any]


def profile_names() -> List[str]:
    """Return the names of all profiles, in alphabetical order."""
    return sorted(path.stem for path in PROFILES_DIR.glob("*.yml"))


def load_profile(name: str) -> Profile:
    """Return a profile, whose entries are complete except for the account. Raises InputError if it is unknown.

    The sources of the entries are in `entry_sources`.
    """
    names = profile_names()
    if name not in names:
        parts = [part for part in re.split(r"[^a-z0-9]+", str(name).lower()) if len(part) > 2]
        similar = [known for known in names if any(part in known for part in parts)]
        similar = (similar or difflib.get_close_matches(str(name), names, n=_SIMILAR_MOST))[:_SIMILAR_MOST]
        listed = f"similar names are {', '.join(similar)}; " if similar else ""
        raise InputError(f"profile: {name!r} is unknown; {listed}docs/profiles.md lists all profiles")
    return complete(name, yaml_load((PROFILES_DIR / f"{name}.yml").read_text(encoding="utf-8")))


def complete(name: str, raw: Profile) -> Profile:
    """Return the profile of a file's content, as load_profile does."""
    profile = {**_OPTIONAL, **raw, "name": name, "entries": {}, "entry_sources": {}}
    constraint = (profile["outbound"] or {}).get("constraint")
    for entry_name, options in raw["entries"].items():
        entry = {**({"constraint": constraint} if constraint else {}), **options}
        profile["entry_sources"][entry_name] = entry.pop("source")
        for shape in [entry.get("node"), *entry.get("shapes", {}).values()]:
            if shape and "disk_mb" not in shape:
                cpus = shape["cpus"]
                shape["disk_mb"] = DISK_MB_PER_CPU * (cpus["min"] if isinstance(cpus, dict) else cpus)
        profile["entries"][entry_name] = entry
    return profile


def queues_of_profile(
    proposal: Proposal, facts: Facts, profile: Profile, chosen: List[Queue]
) -> Dict[str, Optional[Queue]]:
    """Return {entry of the profile: its queue in the facts, None if they do not state it}.

    Entries whose queue the login node does not have, or does not let the user use, are left out, and so are the queues
    without an entry. chosen: the queues that would get an entry without the profile.
    """
    known = {queue["name"]: queue for queue in facts["queues"]}
    default = next((queue for queue in facts["queues"] if queue["default"]), None)
    reasons = dict.fromkeys((queue["name"] for queue in chosen), f"profile {profile['name']} has no entry for it")
    reasons.update((each["name"], each["reason"]) for each in profile["queues_without_entry"] if each["name"] in known)
    reasons.update(proposal.left_out)
    found = {}
    for name, options in profile["entries"].items():
        queue = known.get(options["queue"]) if options.get("queue") else default
        queue_name = queue["name"] if queue else options.get("queue")
        reasons.pop(queue_name, None)
        if options.get("queue") and known:
            reason = why_unusable(queue, facts) if queue else f"the queue of profile {profile['name']} does not exist"
            if reason:
                reasons[queue_name] = reason
                continue
        found[name] = queue
    proposal.left_out = dict(sorted(reasons.items()))
    return found


def remarks_of_profile(proposal: Proposal, profile: Profile) -> None:
    """Add what the documentation of the machine states, and its sources, to the end of the file."""
    login, outbound = profile["login"], profile["outbound"]
    quirks = []
    if login and login["two_factor"]:
        prompts = f"; it asks: {', '.join(login['prompts'])}" if login.get("prompts") else ""
        text = f"The login needs a second factor (docs/two-factor.md){prompts}"
        quirks.append({"source": login["source"], "text": text})
    if outbound and not outbound["value"]:
        proxy = f". The proxy is {outbound['proxy']}" if outbound.get("proxy") else ""
        text = f"Compute nodes do not reach the internet: glideins need a route to the pool{proxy}"
        quirks.append({"source": outbound["source"], "text": text})
    quirks += profile["quirks"]
    sources = [(key, f"{source['says']} ({source['url']})") for key, source in profile["sources"].items()]
    sources.append(("disk_mb", f"{DISK_MB_PER_CPU} MB for each core where no source states the disk"))
    proposal.remarks = [
        (
            f"What an operator of {profile['title']} must know:",
            [(_keys(each["source"]), each["text"]) for each in quirks],
        ),
        (f"Sources of profile {profile['name']}, read on {profile['read']}:", sources),
    ]
    proposal.notes.append(f"The end of the file states what the documentation of {profile['title']} says.")


def source_text(profile: Profile, keys: Union[str, List[str]]) -> str:
    """Return the comment of a value of a profile. keys: of its sources."""
    return f"profile {profile['name']}: {_keys(keys)}"


def _keys(source: Union[str, List[str]]) -> str:
    return source if isinstance(source, str) else ", ".join(source)
