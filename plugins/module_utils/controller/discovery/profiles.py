# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Profiles of known machines (files/profiles), their schema, and the parts of a proposal that come from them.

Controller only. docs/profiles.md describes the keys of a profile.
"""

import copy
import datetime
import difflib
import functools
import pathlib
import re
from typing import Any, Dict, List, Optional, Tuple, Union

from ansible.module_utils.common.yaml import yaml_load
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.proposal import Proposal
from ansible_collections.glidein.ops.plugins.module_utils.controller.discovery.queues import why_unusable
from ansible_collections.glidein.ops.plugins.module_utils.entries import NAME, SCRATCH, normalise_site
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.names import did_you_mean
from ansible_collections.glidein.ops.plugins.module_utils.shapes import WORD
from ansible_collections.glidein.ops.plugins.module_utils.validation import (
    ANYTHING,
    BOOLEAN,
    Spec,
    Type,
    invalid,
    list_of_texts,
    missing,
    text,
)

PROFILES_DIR = pathlib.Path(__file__).resolve().parents[4] / "files" / "profiles"
# The disk in MiB for each core of a shape whose documentation states no size. It is an assumption of the collection.
DISK_MB_PER_CPU = 1000
_SIMILAR_MOST = 5

_TEXT = text(re.compile(r"^\S(.*\S)?\Z", re.DOTALL), "text that does not begin or end with blanks")
_URL = text(re.compile(r"^https?://[^\s/]+\S*\Z"), "an address that begins with https:// or http://")
# Without a user or a password.
_PROXY = text(re.compile(r"^https?://[A-Za-z0-9.-]+(:[0-9]+)?/?\Z"), "http://HOST:PORT")
_HOSTS = list_of_texts(re.compile(r"^[A-Za-z0-9.-]+\Z"), "a list of host names")
_TEXTS = list_of_texts(re.compile(r"^\S"), "a list of texts")


def _date(value: Any) -> str:
    # YAML reads a date without quotes as a date.
    value = value.isoformat() if isinstance(value, datetime.date) else value
    if not isinstance(value, str) or not re.match(r"^\d{4}-\d{2}-\d{2}\Z", value):
        raise ValueError(value)
    datetime.datetime.strptime(value, "%Y-%m-%d")
    return value


def _source(value: Any) -> List[str]:
    value = [value] if isinstance(value, str) else value
    if not value or not isinstance(value, list) or not all(isinstance(key, str) for key in value):
        raise ValueError(value)
    return value


_DATE = Type("a date such as 2026-11-22", _date)
_SOURCE = Type("a key of `sources`, or a list of them", _source)


def _fact(**options: Dict[str, Any]) -> Spec:
    """Return the Spec of a fact: its options, and the required key `source`."""
    return Spec(
        dict({key: dict(option) for key, option in options.items()}, source={"type": _SOURCE, "required": True})
    )


_REQUIRED_TEXT = {"type": _TEXT, "required": True}
_PROFILE = Spec(
    {
        "name": {"type": NAME, "required": True},
        "title": _REQUIRED_TEXT,
        "organisation": _REQUIRED_TEXT,
        "documentation": {"type": _URL, "required": True},
        "login_hosts": {"type": _HOSTS, "default": []},
        "scheduler": {"type": WORD, "required": True},
        "read": {"type": _DATE, "required": True},
        "sources": {"type": ANYTHING, "required": True},
        "login": {"type": ANYTHING},
        "scratch": {"type": ANYTHING},
        "outbound": {"type": ANYTHING},
        "quirks": {"type": ANYTHING, "default": []},
        "entries": {"type": ANYTHING, "required": True},
        "queues_without_entry": {"type": ANYTHING, "default": []},
    }
)
_SOURCE_OF_FACTS = Spec({"url": {"type": _URL, "required": True}, "says": _REQUIRED_TEXT})
_FACTS = {
    "login": _fact(two_factor={"type": BOOLEAN, "required": True}, prompts={"type": _TEXTS, "default": []}),
    "scratch": _fact(value={"type": SCRATCH, "required": True}),
    "outbound": _fact(value={"type": BOOLEAN, "required": True}, constraint={"type": WORD}, proxy={"type": _PROXY}),
}
_LISTED_FACTS = {
    "quirks": _fact(text=_REQUIRED_TEXT),
    "queues_without_entry": _fact(name=_REQUIRED_TEXT, reason=_REQUIRED_TEXT),
}


def profile_names(directory: Union[str, pathlib.Path] = PROFILES_DIR) -> List[str]:
    """Return the names of all profiles, in alphabetical order."""
    return sorted(path.stem for path in pathlib.Path(directory).glob("*.yml"))


@functools.lru_cache(maxsize=None)
def load_profile(name: str, directory: Union[str, pathlib.Path] = PROFILES_DIR) -> Dict[str, Any]:
    """Return a profile, checked. Raises InputError. Callers do not change the result.

    The entries of the result are complete except for the account. Their sources are in `entry_sources`.
    """
    names = profile_names(directory)
    if name not in names:
        raise InputError(_unknown(name, names))
    file = pathlib.Path(directory) / f"{name}.yml"
    try:
        raw = yaml_load(file.read_text(encoding="utf-8"))
    # Of any type: the exceptions of PyYAML cannot be imported where it is missing.
    except Exception as error:  # pylint: disable=broad-exception-caught
        raise InputError(f"{_shown(name)}: cannot be read: {error}") from error
    return check_profile(name, raw)


def check_profile(name: str, raw: Any) -> Dict[str, Any]:
    """Return a profile as load_profile does. name: of its file; raw: the content. Raises InputError with all errors."""
    problems = []
    if not isinstance(raw, dict):
        raise InputError(f"{_shown(name)}: {invalid('content', raw, 'a mapping')}")
    known = {key: value for key, value in raw.items() if key in _PROFILE.options}
    problems += [
        f"{key}: unknown key{did_you_mean(key, _PROFILE.options)}; docs/profiles.md lists the keys"
        for key in raw
        if key not in known
    ]
    profile = _PROFILE.check(problems, "", known)
    if profile["name"] is not None and profile["name"] != name:
        problems.append(invalid("name", profile["name"], f"the file's name, {name}"))
    sources = _mapping(problems, "sources", profile["sources"])
    for key, source in sources.items():
        _SOURCE_OF_FACTS.check(problems, f"sources.{key}", source)
    used = set()
    for key, spec in _FACTS.items():
        if profile[key] is not None:
            profile[key] = spec.check(problems, key, profile[key])
            used.update(_check_sources(problems, key, profile[key]["source"], sources))
    for key, spec in _LISTED_FACTS.items():
        if not isinstance(profile[key], list):
            problems.append(invalid(key, profile[key], "a list"))
            profile[key] = []
        profile[key] = [spec.check(problems, f"{key}[{number}]", fact) for number, fact in enumerate(profile[key])]
        for number, fact in enumerate(profile[key]):
            used.update(_check_sources(problems, f"{key}[{number}]", fact["source"], sources))
    constraint = (profile["outbound"] or {}).get("constraint")
    entries = _mapping(problems, "entries", profile["entries"])
    profile["entries"], profile["entry_sources"] = {}, {}
    for entry, value in entries.items():
        entry_sources, options = _entry(problems, f"entries.{entry}", value, sources, constraint)
        used.update(entry_sources)
        profile["entries"][entry], profile["entry_sources"][entry] = options, entry_sources
    problems += [
        f"sources.{key}: is the source of no fact; remove it, or name it in `source`"
        for key in sources
        if key not in used
    ]
    if not problems:
        _check_entries(problems, name, profile["entries"])
    if problems:
        raise InputError([f"{_shown(name)}: {problem}" for problem in problems])
    return profile


def _shown(name: str) -> str:
    return f"files/profiles/{name}.yml"


def _unknown(name: str, names: List[str]) -> str:
    """Return the error for an unknown name of a profile."""
    parts = [part for part in re.split(r"[^a-z0-9]+", str(name).lower()) if len(part) > 2]
    similar = [known for known in names if any(part in known for part in parts)]
    similar = (similar or difflib.get_close_matches(str(name), names, n=_SIMILAR_MOST))[:_SIMILAR_MOST]
    listed = f"similar names are {', '.join(similar)}; " if similar else ""
    return f"profile: {name!r} is unknown; {listed}docs/profiles.md lists all profiles"


def _mapping(problems: List[str], variable: str, value: Any) -> Dict[str, Any]:
    """Return a mapping with at least one key; {} with an error appended to problems."""
    if isinstance(value, dict) and value:
        return value
    # The Spec has reported a missing key.
    if value is not None:
        problems.append(invalid(variable, value, "a mapping with at least one key"))
    return {}


def _check_sources(problems: List[str], variable: str, keys: Optional[List[str]], sources: Dict[str, Any]) -> List[str]:
    """Append an error for each key that is not in sources. Return the keys."""
    for key in keys or ():
        if key not in sources:
            problems.append(invalid(f"{variable}.source", key, f"a key of `sources`: {', '.join(sources)}"))
    return keys or []


def _entry(
    problems: List[str], variable: str, raw: Any, sources: Dict[str, Any], constraint: Optional[str]
) -> Tuple[List[str], Dict[str, Any]]:
    """Return the sources of an entry, and the entry without them, complete except for the account."""
    if not isinstance(raw, dict):
        problems.append(invalid(variable, raw, "a mapping"))
        return [], {}
    keys = []
    try:
        keys = _check_sources(problems, variable, _source(raw.get("source")), sources)
    except ValueError:
        problems.append(missing(f"{variable}.source", _SOURCE.expected))
    entry = {key: copy.deepcopy(value) for key, value in raw.items() if key != "source"}
    if "account" in entry:
        problems.append(invalid(f"{variable}.account", entry["account"], "no account: it is the operator's"))
    if constraint:
        own = entry.setdefault("constraint", constraint)
        if constraint not in str(own):
            problems.append(
                invalid(f"{variable}.constraint", own, f"one that includes outbound.constraint, {constraint}")
            )
    shapes = entry.get("shapes")
    for shape in [entry.get("node"), *(shapes.values() if isinstance(shapes, dict) else ())]:
        if isinstance(shape, dict) and shape.get("disk_mb") is None:
            cpus = shape.get("cpus")
            cpus = cpus.get("min") if isinstance(cpus, dict) else cpus
            shape["disk_mb"] = DISK_MB_PER_CPU * cpus if isinstance(cpus, int) else DISK_MB_PER_CPU
    return keys, entry


def _check_entries(problems: List[str], name: str, entries: Dict[str, Any]) -> None:
    """Append the errors that an operator with these entries would get."""
    try:
        normalise_site("glidein", name, entries)
    except InputError as error:
        problems += [problem.replace("glidein_entries.", "entries.", 1) for problem in error.problems]


def queues_of_profile(proposal: Proposal, facts: dict, profile: dict, chosen: list) -> dict:
    """Return {entry of the profile: its queue in the facts, None if they do not state it}.

    Entries whose queue the login node does not have, or does not let the user use, are left out, and so are the queues
    without an entry. chosen: the queues that would get an entry without the profile.
    """
    known = {queue["name"]: queue for queue in facts["queues"]}
    default = next((queue for queue in facts["queues"] if queue["default"]), None)
    reasons = dict.fromkeys((queue["name"] for queue in chosen), f"profile {profile['name']} has no entry for it")
    reasons.update((each["name"], each["reason"]) for each in profile["queues_without_entry"] if each["name"] in known)
    reasons.update((each["queue"], each["reason"]) for each in proposal.left_out)
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
    proposal.left_out = [{"queue": name, "reason": reason} for name, reason in sorted(reasons.items())]
    return found


def remarks_of_profile(proposal: Proposal, profile: dict) -> None:
    """Add what the documentation of the machine states, and its sources, to the end of the file."""
    login, outbound = profile["login"], profile["outbound"]
    quirks = [(", ".join(each["source"]), each["text"]) for each in profile["quirks"]]
    if outbound and not outbound["value"]:
        proxy = f". The proxy is {outbound['proxy']}" if outbound["proxy"] else ""
        text = f"Compute nodes do not reach the internet: glideins need a route to the pool{proxy}"
        quirks.insert(0, (", ".join(outbound["source"]), text))
    if login and login["two_factor"]:
        prompts = f"; it asks: {', '.join(login['prompts'])}" if login["prompts"] else ""
        text = f"The login needs a second factor (docs/two-factor.md){prompts}"
        quirks.insert(0, (", ".join(login["source"]), text))
    sources = [(key, f"{source['says']} ({source['url']})") for key, source in profile["sources"].items()]
    sources.append(("disk_mb", f"{DISK_MB_PER_CPU} MB for each core where no source states the disk"))
    proposal.remarks = [
        (f"What an operator of {profile['title']} must know:", quirks),
        (f"Sources of profile {profile['name']}, read on {profile['read']}:", sources),
    ]
    proposal.notes.append(f"The end of the file states what the documentation of {profile['title']} says.")


def source_text(profile: dict, keys: list) -> str:
    """Return the comment of a value of a profile. keys: of its sources."""
    return f"profile {profile['name']}: {', '.join(keys)}"
