# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes of a gateway: its job router makes a batch job of a pilot that states only what it needs.

A pilot has the attributes of an HTCondor-CE's pilots: maxMemory (MB), xcount (cores), maxWallTime (minutes), queue.
Sources: the manual's pages of the job router and of job transforms; blahp's *_submit.sh; tests with 23.9.6 and Slurm.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers import SCHEDULERS
from ansible_collections.glidein.ops.plugins.module_utils.site.schedulers.gateway import BATCH_SYSTEMS
from ansible_collections.glidein.ops.plugins.module_utils.validation import (
    Spec,
    choice,
    duration,
    invalid,
    list_of_texts,
    text,
    whole_number,
)

# Of LSF, blahp does not request the cores of one host.
_BATCH_SYSTEMS = tuple(name for name in BATCH_SYSTEMS if name != "lsf")
# Batch systems of which blahp requests any number of GPUs in the same way.
_WITH_GPUS = ("slurm", "htcondor")

_VARIABLE = "glidein_gateway_routes"
# JOB_ROUTER_ROUTE_NAMES is the list of routes.
_NAME = re.compile(r"^(?!names\Z)[a-z][a-z0-9_]{0,30}\Z")
_NAME_RULE = "a name of lower case letters, digits and underscores, which begins with a letter, other than names"
# blahp passes these texts to a shell without quotes.
_WORD = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.,:/=+@%-]*\Z")
_WORD_RULE = "letters, digits and _ . , : / = + @ % -"
_DIRECTIVE = re.compile(r"^-[A-Za-z0-9 _.,:/=+@%-]*\Z")

_ROUTE = Spec(
    {
        "batch_system": {"type": choice(*_BATCH_SYSTEMS), "required": True},
        "walltime": {"type": duration(60), "required": True},
        "cpus": {"type": whole_number(1), "default": 1},
        "memory_mb": {"type": whole_number(1), "default": 2000},
        "max_walltime": {"type": duration(60)},
        "max_cpus": {"type": whole_number(1)},
        "max_memory_mb": {"type": whole_number(1)},
        "max_gpus": {"type": whole_number(0), "default": 0},
        "queues": {"type": list_of_texts(_WORD, f"a list of names of {_WORD_RULE}"), "default": []},
        "account": {"type": text(_WORD, _WORD_RULE)},
        "directives": {
            "type": list_of_texts(_DIRECTIVE, f"a list of options that begin with - and have blanks, {_WORD_RULE}"),
            "default": [],
        },
    }
)


def router_config(routes):
    """Return lines of HTCondor's configuration with the routes, in their order. Raises InputError.

    routes: glidein_gateway_routes, {name: route}.
    """
    problems = []
    checked = _checked(problems, routes)
    if problems:
        raise InputError(problems)
    lines = [f"JOB_ROUTER_ROUTE_NAMES = {' '.join(checked)}"]
    for name, route in checked.items():
        lines += [f"JOB_ROUTER_ROUTE_{name} @=route", *(f"  {line}" for line in _transform(route)), "@route"]
    return lines


def _checked(problems, routes):
    """Return the routes with their defaults; append the errors to `problems`."""
    if not isinstance(routes, dict):
        problems.append(invalid(_VARIABLE, routes, "a mapping of names to routes"))
        return {}
    checked = {}
    for name, route in routes.items():
        if not isinstance(name, str) or not _NAME.match(name):
            problems.append(invalid(_VARIABLE, name, _NAME_RULE))
            continue
        before = len(problems)
        checked[name] = _ROUTE.check(problems, f"{_VARIABLE}.{name}", route)
        if len(problems) == before:
            problems += _problems(name, checked[name])
    return checked


def _problems(name, route):
    """Return one error for each value of a route that does not fit the other values."""
    where = f"{_VARIABLE}.{name}"
    problems = []
    for key in ("walltime", "cpus", "memory_mb"):
        limit = route[f"max_{key}"]
        if limit is not None and route[key] > limit:
            unit = " s" if key == "walltime" else ""
            problems.append(invalid(f"{where}.{key}", route[key], f"at most max_{key}, {limit}{unit}"))
    kind = SCHEDULERS[route["batch_system"]]()
    with_directives = "directives" in kind.blahp.options
    possible = {"queues": "queue" in kind.blahp.requests, "account": "account" in kind.blahp.requests}
    for key, is_possible in dict(possible, directives=with_directives).items():
        if route[key] and not is_possible:
            problems.append(invalid(f"{where}.{key}", route[key], f"no value: blahp cannot request it of {kind.name}"))
    if route["max_gpus"] and route["batch_system"] not in _WITH_GPUS:
        expected = f"0: blahp cannot request GPUs of {kind.name}"
        problems.append(invalid(f"{where}.max_gpus", route["max_gpus"], expected))
    if with_directives:
        found = kind.check_directives({"name": name, "directives": route["directives"], "resources": {}})
        problems += [problem.replace("glidein_entries.", f"{_VARIABLE}.", 1) for problem in found]
    return problems


def _transform(route):
    """Return the lines of a route: the requirements of jobs that it accepts, and what it changes in their copies."""
    kind = SCHEDULERS[route["batch_system"]]()
    cpus = f"MY.xcount ?: int(max({{MY.RequestCpus ?: 1, {route['cpus']}}}))"
    memory = f"MY.maxMemory ?: int(max({{MY.RequestMemory ?: 0, {route['memory_mb']}}}))"
    minutes = f"MY.maxWallTime ?: {-(-route['walltime'] // 60)}"
    most_minutes = None if route["max_walltime"] is None else -(-route["max_walltime"] // 60)
    queues = ["MY.queue is undefined", *(f"MY.queue is {classad_literal(queue)}" for queue in route["queues"])]
    accepted = [
        f"({' || '.join(queues)})",
        *_within(cpus, 1, route["max_cpus"]),
        *_within(memory, 1, route["max_memory_mb"]),
        *_within(minutes, 1, most_minutes),
        # Nodes with GPUs are kept for jobs that use them.
        *_within("MY.RequestGPUs ?: 0", min(1, route["max_gpus"]), route["max_gpus"]),
    ]
    directives = " ".join([kind.directive_prefix, *route["directives"]]) if route["directives"] else None
    return [
        f"REQUIREMENTS {' && '.join(accepted)}",
        "TargetUniverse = 9",
        f'GridResource = "batch {kind.blahp.name}"',
        # Cancelled pilots are failures to the job router, which then routes fewer: never.
        "FailureRateThreshold = 1000000",
        f"EVALSET RequestCpus {cpus}",
        # Of one node.
        "EVALSET NodeNumber MY.RequestCpus",
        "EVALSET SMPGranularity MY.RequestCpus",
        f"EVALSET RequestMemory {memory}",
        f"EVALSET BatchRuntime 60 * ({minutes})",
        f"EVALSET BatchQueue MY.queue ?: {classad_literal(route['queues'][0])}"
        if route["queues"]
        else "DELETE BatchQueue",
        _set_or_delete("BatchProject", route["account"]),
        _set_or_delete("BatchExtraSubmitArgs", directives),
    ]


def _within(expression, least, most):
    """Return the conditions for an expression that is a whole number of a range. most: None for no limit."""
    found = [f"isInteger({expression})", f"({expression}) >= {least}"]
    return found if most is None else [*found, f"({expression}) <= {most}"]


def _set_or_delete(attribute, value):
    return f"DELETE {attribute}" if value is None else f"SET {attribute} {classad_literal(value)}"


def with_defaults(routes):
    """Return valid routes with their defaults, durations in seconds."""
    return {name: _ROUTE.check([], f"{_VARIABLE}.{name}", route) for name, route in routes.items()}
