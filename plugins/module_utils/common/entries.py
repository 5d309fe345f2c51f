# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The specification of a site's entries (glidein_entries, glidein_limits): types, ranges and defaults of all options.

All errors of a site are reported together, each with the variable, its value and what is expected.
"""

import math
import re

from ansible_collections.glidein.ops.plugins.module_utils.common.condor_settings import (
    CONTROL,
    MACRO,
    check_condor_config,
    expression,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import NAME_RULE, is_name
from ansible_collections.glidein.ops.plugins.module_utils.common.quoting import SCRATCH_RULE, scratch_word
from ansible_collections.glidein.ops.plugins.module_utils.common.shapes import (
    RESOURCES,
    SHAPE_OPTIONS,
    WORD,
    entry_shapes,
)
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import (
    ANYTHING,
    Spec,
    Type,
    choice,
    duration,
    integer,
    invalid,
    list_of_texts,
    missing,
    text,
    whole_number,
)

LIMITS = ("queued", "total", "per_cycle")
# Limits on the resources of all glideins together; only the plan applies them.
RESOURCE_LIMITS = ("cores", "gpus")
# The steps of `eagerness`, from as few glideins as possible to waits as short as possible; their numbers are 0, 1, ...
EAGERNESS = ("certain", "roomy", "redundant", "everywhere")
# The most shapes of a site: the demand server accepts no more in a report.
MAX_SHAPES = 1000
DEFAULT_RETIREMENT_S = 600
DEFAULT_IDLE_TIMEOUT_S = 1200
# Idle whole nodes cost more.
WHOLE_NODE_IDLE_TIMEOUT_S = 600
# A glidein that has run jobs and is now empty is surplus: in this time, five negotiations (NEGOTIATOR_INTERVAL is 60 s)
# found no job for it.
DEFAULT_IDLE_AFTER_JOB_S = 300
# The longest time before the end of its walltime at which a glidein begins to stop.
LONGEST_MARGIN_S = 120
# The longest time from the start of a glidein to its first job: registration and one negotiation.
LONGEST_START_S = 120

_IDENTIFIER = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*\Z")
_OWN_ATTRIBUTE = re.compile(r"^(glidein_|is_glidein\Z)", re.IGNORECASE)
_COLLECTOR = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*(:[0-9]+)?\Z")
# HTCondor's list of arguments takes these without quotes.
_CHECK_ARGUMENTS = re.compile(r"^[A-Za-z0-9_./:@%+=,-]+( +[A-Za-z0-9_./:@%+=,-]+)*\Z")


def _name(value):
    if not is_name(value):
        raise ValueError(value)
    return value


def _scratch(value):
    scratch_word(value if isinstance(value, str) else "")
    return value


def _collector(value):
    if not isinstance(value, str) or not _COLLECTOR.match(value):
        raise ValueError(value)
    return value


NAME = Type(NAME_RULE, _name)
COLLECTOR = Type(
    "HOST or HOST:PORT: letters, digits, dots, dashes and underscores, first a letter or digit",
    _collector,
    is_text=True,
)
SCRATCH = Type(SCRATCH_RULE, _scratch)
MODULES = list_of_texts(
    re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.+/=-]*\Z"),
    "a list of names of environment modules: letters, digits and _ . + / = -",
)
# Node properties and features, alone or combined; a shell or a directive reads each as one word.
_CONSTRAINT = text(
    re.compile(r"^[A-Za-z0-9_!(\[][A-Za-z0-9_.,:@+/=&|!*()\[\]<>-]*\Z"),
    "letters, digits and _ . , : @ + / = & | ! * ( ) [ ] < > - without spaces",
)
REPOSITORIES = list_of_texts(
    re.compile(r"^[A-Za-z0-9][A-Za-z0-9.-]*\Z"),
    "a list of names of repositories, such as [icecube.opensciencegrid.org]",
)


def _eagerness(value):
    """Return the number of a step of EAGERNESS, which is given by its name or its number."""
    if value in EAGERNESS:
        return EAGERNESS.index(value)
    number = integer(value)
    if number is None or not 0 <= number < len(EAGERNESS):
        raise ValueError(value)
    return number


_EAGERNESS = Type(f"{', '.join(EAGERNESS)}, or its number from 0 to {len(EAGERNESS) - 1}", _eagerness)


def _limits(**defaults):
    """Return the Spec of `limits` of an entry or a site."""
    options = {key: {"type": whole_number(0), "default": defaults.get(key)} for key in LIMITS + RESOURCE_LIMITS}
    return Spec(dict(options, array={"type": whole_number(1)}))


SITE_LIMITS = _limits()
_SITE = Spec({"glidein_eagerness": {"type": _EAGERNESS, "default": 0}})
# The core-hours that an entry or a site may use in each month or year of UTC; only the plan applies it.
BUDGET = Spec(
    {
        "core_hours": {"type": whole_number(0), "required": True},
        "per": {"type": choice("month", "year"), "default": "month"},
    }
)
_BOUNDS = Spec({"min": {"type": whole_number(0)}, "max": {"type": whole_number(0)}})
_ACCEPT = Spec({resource: {"type": ANYTHING, "options": _BOUNDS} for resource in RESOURCES})
# How the batch system is asked for each resource. Each batch system has its own values.
_RESOURCE_REQUESTS = Spec(
    {
        key: {"type": WORD}
        for key in ("memory", "memory_unit", "disk", "gpus", "gpu_type", "whole_node", "parallel_environment")
    }
)

# The options with ANYTHING and no Spec are checked by _checked_entry.
ENTRY = Spec(
    dict(
        SHAPE_OPTIONS,
        # What the batch system is asked for.
        queue={"type": WORD},
        account={"type": WORD},
        constraint={"type": _CONSTRAINT},
        walltime={"type": duration(60), "required": True},
        resources={"type": ANYTHING, "default": {}, "options": _RESOURCE_REQUESTS},
        directives={"type": ANYTHING, "default": []},
        limits={"type": ANYTHING, "default": {}, "options": _limits(queued=10, total=100, per_cycle=10)},
        budget={"type": ANYTHING, "options": BUDGET},
        priority={"type": whole_number(), "default": 0},
        eagerness={"type": _EAGERNESS},  # None: the site's
        # Which jobs the glideins are for.
        accept={"type": ANYTHING, "default": {}, "options": _ACCEPT},
        accept_requirements={"type": expression('TARGET.Owner == "alice"')},
        rank={"type": expression("TARGET.RequestMemory")},
        attributes={"type": ANYTHING, "default": {}},
        site_resource={"type": NAME},
        # The batch job on the compute node. glidein.sh checks few of these values again: see is_valid in
        # files/glidein/lib/settings.sh.
        environment={"type": ANYTHING, "default": {}},
        modules={"type": MODULES},
        scratch={"type": SCRATCH},
        granted={"type": choice("asked", "auto")},
        gpu_discovery={
            "type": text(
                re.compile(r"^[A-Za-z0-9 ,:._-]+\Z"),
                "arguments of condor_gpu_discovery such as -extra: letters, digits, blanks and , : . _ -",
            )
        },
        cvmfs={"type": REPOSITORIES, "default": []},
        image={
            "type": text(
                re.compile(r"^[A-Za-z0-9/._][A-Za-z0-9/._:@+-]*\Z"),
                "a path or address: letters, digits and / . _ : @ + -",
            )
        },
        job_setup={
            "type": text(
                re.compile(r"^/[A-Za-z0-9 /._,+@%=~-]*\Z"),
                "an absolute path of letters, digits, blanks and /._,+@%=~-",
            )
        },
        job_environment={"type": ANYTHING, "default": {}},
        condor_config={"type": ANYTHING, "default": {}},
        # When a glidein ends, or takes no more jobs.
        retirement={"type": duration(0)},
        idle_timeout={"type": duration(1)},
        idle_after_job={"type": duration(1)},
        fast_failures={"type": whole_number(0), "default": 5},
        checks={"type": ANYTHING, "default": {}},
        require_checks={"type": ANYTHING, "default": []},
    )
)
# Options -> their keys in a normalised entry, in which durations are seconds.
_IN_SECONDS = {
    "walltime": "walltime_s",
    "retirement": "retirement_s",
    "idle_timeout": "idle_timeout_s",
    "idle_after_job": "idle_after_job_s",
}
# Options that other keys of a normalised entry are made of.
_CONSUMED = ("node", "memory_per_core_mb", "memory_overhead_mb")


def normalise_site(deployment, site, entries, limits=None, budget=None, eagerness=None):
    """Return the entries and limits of one site, checked, with all defaults filled in.

    Returns {"deployment", "site", "limits": {queued, total, per_cycle: int or None}, "budget": {core_hours, per} or
    None, "entries": {name: entry}}. An entry has the keys of ENTRY, but durations in seconds (see _IN_SECONDS), without
    those of _CONSUMED, and with "name" and "array", the largest number of tasks of one array job (None: any number).
    eagerness: a step of EAGERNESS or its number, for entries without their own; in an entry it is the number.
    checks: {name: arguments}. None: the site's value applies to modules and scratch; the shape decides on
    idle_timeout_s and idle_after_job_s (see the functions of these names). Limits have cores and gpus only if they are
    given. Raises InputError.
    """
    problems = []
    for variable, value in (("glidein_deployment", deployment), ("glidein_site", site)):
        if not is_name(value):
            problems.append(invalid(variable, value, NAME_RULE))
    site_limits = SITE_LIMITS.check(problems, "glidein_limits", limits)
    site_eagerness = _SITE.check(problems, "", {"glidein_eagerness": eagerness})["glidein_eagerness"]
    site_budget = BUDGET.check(problems, "glidein_budget", budget) if budget not in (None, {}) else None
    if entries is not None and not isinstance(entries, dict):
        problems.append(invalid("glidein_entries", entries, "a mapping from names to entries"))
    elif not entries and not problems:
        problems.append(missing("glidein_entries", "at least one entry"))
    result = {}
    for name, raw in entries.items() if isinstance(entries, dict) else ():
        variable = f"glidein_entries.{name}"
        if not is_name(name):
            problems.append(invalid(f"name of {variable}", name, NAME_RULE))
        result[name] = dict(_entry(problems, variable, raw, site_limits["array"]), name=name)
        if result[name].get("eagerness") is None:
            result[name]["eagerness"] = site_eagerness
    number = sum(len(entry.get("shapes") or ()) for entry in result.values())
    if number > MAX_SHAPES:
        problems.append(
            f"glidein_entries: {number} shapes, counting each size of a range; expected at most {MAX_SHAPES} for a "
            "site. Narrow the ranges, or use single numbers."
        )
    if problems:
        raise InputError(problems)
    return {
        "deployment": deployment,
        "site": site,
        "limits": _given_limits(site_limits),
        "budget": site_budget,
        "entries": result,
    }


def _entry(problems, variable, raw, site_array):
    """Return one normalised entry without its name. With an error, the result is incomplete."""
    known = len(problems)
    entry = ENTRY.check(problems, variable, raw)
    if raw is not None and not isinstance(raw, dict):
        return {}
    entry["directives"] = _directives(problems, f"{variable}.directives", entry["directives"])
    entry["attributes"] = _attributes(problems, f"{variable}.attributes", entry["attributes"])
    entry["environment"] = check_environment(problems, f"{variable}.environment", entry["environment"])
    entry["job_environment"] = check_environment(
        problems, f"{variable}.job_environment", entry["job_environment"], reserved=("_CONDOR_",)
    )
    entry["condor_config"] = check_condor_config(problems, f"{variable}.condor_config", entry["condor_config"])
    entry["checks"] = _checks(problems, f"{variable}.checks", entry["checks"])
    shapes = entry_shapes(problems, variable, entry)
    if len(problems) > known:
        return {}
    _check_required_checks(problems, variable, entry)
    entry["retirement"] = _retirement_s(problems, variable, entry, raw)
    entry["accept"] = _accepted(problems, variable, entry)
    limits = entry["limits"]
    result = {_IN_SECONDS.get(key, key): value for key, value in entry.items() if key not in _CONSUMED}
    result["shapes"] = shapes
    result["resources"] = {key: word for key, word in entry["resources"].items() if word is not None}
    result["limits"] = _given_limits(limits)
    result["array"] = min((array for array in (limits["array"], site_array) if array), default=None)
    return result


def _given_limits(limits):
    """Return limits without `array`, and without cores and gpus if they are not given."""
    return {key: limits[key] for key in LIMITS + RESOURCE_LIMITS if key in LIMITS or limits[key] is not None}


def _retirement_s(problems, variable, entry, raw):
    """Return the retirement time of an entry, which must be shorter than its walltime. raw: the operator's entry."""
    walltime_s, retirement_s = entry["walltime"], entry["retirement"]
    if retirement_s is None:
        return min(DEFAULT_RETIREMENT_S, walltime_s // 4)
    if retirement_s >= walltime_s:
        problems.append(
            invalid(f"{variable}.retirement", raw["retirement"], f"less than the walltime ({walltime_s} s)")
        )
    return retirement_s


def _accepted(problems, variable, entry):
    """Return {resource: {"min", "max"}} of `accept`."""
    accept = {resource: bounds for resource, bounds in entry["accept"].items() if bounds is not None}
    for resource, bounds in accept.items():
        if None not in bounds.values() and bounds["min"] > bounds["max"]:
            problems.append(invalid(f"{variable}.accept.{resource}", bounds, "a min that is not above the max"))
    return accept


def check_environment(problems, variable, raw, reserved=("GLIDEIN_", "_CONDOR_", "CONDOR_")):
    """Return the environment of a batch job, {name: text}.

    problems: a list that the errors are appended to; reserved: beginnings of names that the glidein itself sets.
    """
    if not isinstance(raw, dict):
        problems.append(invalid(variable, raw, "a mapping of environment variables"))
        return {}
    for name, value in raw.items():
        if not isinstance(name, str) or not _IDENTIFIER.match(name):
            problems.append(invalid(f"name of {variable}.{name}", name, "the name of an environment variable"))
        elif name.startswith(reserved):
            names = ", ".join(f"{beginning}..." for beginning in reserved)
            expected = f"another name than {names}, which the glidein sets"
            problems.append(invalid(f"name of {variable}.{name}", name, expected))
        elif isinstance(value, bool) or not isinstance(value, (str, int, float)):
            problems.append(invalid(f"{variable}.{name}", value, "text or a number"))
        elif CONTROL.search(str(value)):
            problems.append(invalid(f"{variable}.{name}", value, "text without line breaks or control characters"))
    return {name: str(value) for name, value in raw.items()}


def _checks(problems, variable, raw):
    """Return {name: arguments} of the option `checks`, a mapping or a list of names."""
    if isinstance(raw, list):
        raw = {name if isinstance(name, str) else repr(name): None for name in raw}
    if not isinstance(raw, dict):
        problems.append(invalid(variable, raw, "a mapping from names to arguments, or a list of names"))
        return {}
    for name, arguments in raw.items():
        if not isinstance(name, str) or not _IDENTIFIER.match(name):
            expected = "the file name of a check: letters, digits and underscores"
            problems.append(invalid(f"name of {variable}.{name}", name, expected))
        elif arguments not in (None, "") and not (isinstance(arguments, str) and _CHECK_ARGUMENTS.match(arguments)):
            expected = "words of letters, digits and _ . / : @ % + = , -"
            problems.append(invalid(f"{variable}.{name}", arguments, expected))
    return {name: arguments or "" for name, arguments in raw.items()}


def _check_required_checks(problems, variable, entry):
    """Append an error unless require_checks is a list of names of `checks`."""
    required = entry["require_checks"]
    if not isinstance(required, list) or not all(
        isinstance(name, str) and name in entry["checks"] for name in required
    ):
        problems.append(invalid(f"{variable}.require_checks", required, "a list of names that are also in checks"))


def _directives(problems, variable, raw):
    """Return the option `directives`. Each batch system checks the directives further."""
    if not isinstance(raw, list):
        problems.append(invalid(variable, raw, "a list of options of the batch system, such as ['-C EGRESS']"))
        return []
    for number, directive in enumerate(raw):
        if not isinstance(directive, str) or not directive.strip() or CONTROL.search(directive):
            expected = "one option of the batch system: text without a line break"
            problems.append(invalid(f"{variable}[{number}]", directive, expected))
    return list(raw)


def _attributes(problems, variable, raw):
    """Return the option `attributes`: ClassAd attributes of the machine ad."""
    if not isinstance(raw, dict):
        problems.append(invalid(variable, raw, "a mapping from names of ClassAd attributes to values"))
        return {}
    for name, value in raw.items():
        where = f"{variable}.{name}"
        if not isinstance(name, str) or not _IDENTIFIER.match(name):
            expected = "a ClassAd attribute name: letters, digits and underscores"
            problems.append(invalid(f"name of {where}", name, expected))
        elif _OWN_ATTRIBUTE.match(name):
            expected = "another name than is_glidein and GLIDEIN_..., which the glidein sets"
            problems.append(invalid(f"name of {where}", name, expected))
        if isinstance(value, str):
            if CONTROL.search(value) or MACRO.search(value):
                problems.append(invalid(where, value, "text without line breaks, control characters or $(...)"))
        elif not isinstance(value, (bool, int, float)) or not math.isfinite(value):
            problems.append(invalid(where, value, "text, a number, true or false"))
    return dict(raw)


def idle_timeout_s(entry, shape):
    """Return the time in seconds after which a glidein of this shape without a job ends."""
    if entry["idle_timeout_s"] is not None:
        return entry["idle_timeout_s"]
    return WHOLE_NODE_IDLE_TIMEOUT_S if shape["whole_node"] else DEFAULT_IDLE_TIMEOUT_S


def idle_after_job_s(entry, shape):
    """Return the time in seconds without a job after which a glidein of this shape that has run one ends."""
    if entry["idle_after_job_s"] is not None:
        return entry["idle_after_job_s"]
    # An idle_timeout of the operator's applies to all glideins.
    timeout_s = idle_timeout_s(entry, shape)
    return timeout_s if entry["idle_timeout_s"] is not None else min(DEFAULT_IDLE_AFTER_JOB_S, timeout_s)


def lasts_s(entry):
    """Return the time in seconds after which a glidein of an entry ends by itself, before its walltime is over.

    It equals TO_DIE in set_times of files/glidein/lib/settings.sh.
    """
    return entry["walltime_s"] - min(LONGEST_MARGIN_S, entry["walltime_s"] // 10)


def longest_job_s(entry):
    """Return the longest runtime in seconds that a job may state for a new glidein of an entry to be ordered for it."""
    lasts = lasts_s(entry)
    return lasts - min(LONGEST_START_S, lasts // 10)
