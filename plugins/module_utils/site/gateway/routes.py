# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes of a gateway: its job router makes a batch job of a pilot that states only what it needs.

A pilot has the attributes of an HTCondor-CE's pilots: maxMemory (MB), xcount (cores), maxWallTime (minutes), queue.
Sources: the manual's pages of the job router and of job transforms; blahp's *_submit.sh; tests with 23.9.6 and Slurm.
"""

import re

from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS
from ansible_collections.glidein.ops.plugins.module_utils.batch.htcondor.gateway import BATCH_SYSTEMS
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.quoting import classad_literal
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway import accounts as account_tables
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway import transforms as transform_chains
from ansible_collections.glidein.ops.plugins.module_utils.site.gateway.transforms import (
    NAME,
    NAME_RULE,
    WORD,
    WORD_RULE,
)
from ansible_collections.glidein.ops.plugins.module_utils.validation import (
    BOOLEAN,
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
# By the name that blahp gives a batch system: the option for the account where blahp has no attribute for it. For
# HTCondor it is a line of the submit description.
_ACCOUNT_OPTIONS = {"sge": "-P ", "condor": "accounting_group = "}

_VARIABLE = "glidein_gateway_routes"
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
        "queues": {"type": list_of_texts(WORD, f"a list of names of {WORD_RULE}"), "default": []},
        "account": {"type": text(WORD, WORD_RULE)},
        "require_account": {"type": BOOLEAN, "default": False},
        "max_jobs": {"type": whole_number(1)},
        "max_idle_jobs": {"type": whole_number(1)},
        "directives": {
            "type": list_of_texts(_DIRECTIVE, f"a list of options that begin with - and have blanks, {WORD_RULE}"),
            "default": [],
        },
    }
)


def router_config(routes, transforms=None, accounts=None):
    """Return lines of HTCondor's configuration with the routes and transforms, in their order. Raises InputError.

    routes: glidein_gateway_routes, {name: route}; transforms: glidein_gateway_transforms; accounts:
    glidein_gateway_accounts.
    """
    problems = []
    checked = _checked(problems, routes, accounts or {})
    lines = account_tables.account_config(problems, accounts or {})
    lines += transform_chains.transform_config(problems, transforms or {})
    for variable, value in ((transform_chains.VARIABLE, transforms), (account_tables.VARIABLE, accounts)):
        if value and not routes:
            problems.append(invalid(variable, value, f"no value without {_VARIABLE}"))
    if problems:
        raise InputError(problems)
    lines.append(f"JOB_ROUTER_ROUTE_NAMES = {' '.join(checked)}")
    for name, route in checked.items():
        body = _transform(route, accounts or {})
        lines += [f"JOB_ROUTER_ROUTE_{name} @=route", *(f"  {line}" for line in body), "@route"]
    return lines


def _checked(problems, routes, accounts):
    """Return the routes with their defaults; append the errors to `problems`."""
    if not isinstance(routes, dict):
        problems.append(invalid(_VARIABLE, routes, "a mapping of names to routes"))
        return {}
    checked = {}
    for name, route in routes.items():
        # JOB_ROUTER_ROUTE_NAMES is the list of routes.
        if not isinstance(name, str) or not NAME.match(name) or name == "names":
            problems.append(invalid(_VARIABLE, name, f"{NAME_RULE}, other than names"))
            continue
        before = len(problems)
        checked[name] = _ROUTE.check(problems, f"{_VARIABLE}.{name}", route)
        if len(problems) == before:
            problems += _problems(name, checked[name], accounts)
    return checked


def _problems(name, route, accounts):
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
    for key, is_possible in (("queues", "queue" in kind.blahp.requests), ("directives", with_directives)):
        if route[key] and not is_possible:
            problems.append(invalid(f"{where}.{key}", route[key], f"no value: blahp cannot request it of {kind.name}"))
    if route["max_gpus"] and route["batch_system"] not in _WITH_GPUS:
        expected = f"0: blahp cannot request GPUs of {kind.name}"
        problems.append(invalid(f"{where}.max_gpus", route["max_gpus"], expected))
    if route["require_account"] and not accounts:
        expected = f"false without {account_tables.VARIABLE}"
        problems.append(invalid(f"{where}.require_account", True, expected))
    if route["require_account"] and route["account"]:
        problems.append(invalid(f"{where}.account", route["account"], "no value with require_account"))
    if with_directives:
        found = kind.check_directives({"name": name, "directives": route["directives"], "resources": {}})
        problems += [problem.replace("glidein_entries.", f"{_VARIABLE}.", 1) for problem in found]
    return problems


def _transform(route, accounts):
    """Return the lines of a route: the requirements of jobs that it accepts, and what it changes in their copies."""
    kind = SCHEDULERS[route["batch_system"]]()
    # Without MY.: the job router also evaluates requirements in an ad of its own, with the job as TARGET.
    cpus = f"xcount ?: int(max({{RequestCpus ?: 1, {route['cpus']}}}))"
    memory = f"maxMemory ?: int(max({{RequestMemory ?: 0, {route['memory_mb']}}}))"
    minutes = f"maxWallTime ?: {-(-route['walltime'] // 60)}"
    most_minutes = None if route["max_walltime"] is None else -(-route["max_walltime"] // 60)
    queues = ["queue is undefined", *(f"queue is {classad_literal(queue)}" for queue in route["queues"])]
    accepted = [
        f"({' || '.join(queues)})",
        *_within(cpus, 1, route["max_cpus"]),
        *_within(memory, 1, route["max_memory_mb"]),
        *_within(minutes, 1, most_minutes),
        # Nodes with GPUs are kept for jobs that use them.
        *_within("RequestGPUs ?: 0", min(1, route["max_gpus"]), route["max_gpus"]),
    ]
    if accounts:
        mapped = account_tables.mapped_account(accounts)
        accepted.append(f"isString({mapped})" if route["require_account"] else f"!isError({mapped})")
    return [
        f"REQUIREMENTS {' && '.join(accepted)}",
        "TargetUniverse = 9",
        f'GridResource = "batch {kind.blahp.name}"',
        # Cancelled pilots are failures to the job router, which then routes fewer: never.
        "FailureRateThreshold = 1000000",
        *(
            f"{name} = {route[key]}"
            for key, name in (("max_jobs", "MaxJobs"), ("max_idle_jobs", "MaxIdleJobs"))
            if route[key]
        ),
        f"EVALSET RequestCpus {cpus}",
        # Of one node.
        "EVALSET NodeNumber RequestCpus",
        "EVALSET SMPGranularity RequestCpus",
        f"EVALSET RequestMemory {memory}",
        f"EVALSET BatchRuntime 60 * ({minutes})",
        # A transform may have set another queue.
        f"EVALSET BatchQueue {_queue(route['queues'])}" if route["queues"] else "DELETE BatchQueue",
        *_account_lines(kind, route, accounts),
    ]


def _queue(queues):
    listed = ", ".join(map(classad_literal, queues))
    return f"member(queue, {{{listed}}}) is true ? queue : {classad_literal(queues[0])}"


def _account_lines(kind, route, accounts):
    """Return the lines that set the account, and the further options of the batch system."""
    option = _ACCOUNT_OPTIONS.get(kind.blahp.name)
    options = [kind.directive_prefix, *route["directives"]] if route["directives"] else []
    if not accounts:
        if route["account"] and option:
            options = [*(options or [kind.directive_prefix]), option + route["account"]]
        return [
            _set_or_delete("BatchProject", None if option else route["account"]),
            _set_or_delete("BatchExtraSubmitArgs", " ".join(options).strip() or None),
        ]
    account = account_tables.mapped_account(accounts)
    if route["account"]:
        account += f" ?: {classad_literal(route['account'])}"
    if not option:
        # Undefined without an account.
        return [
            f"EVALSET BatchProject {account}",
            _set_or_delete("BatchExtraSubmitArgs", " ".join(options) or None),
        ]
    start = " ".join([*(options or [kind.directive_prefix]), option]).lstrip()
    without = classad_literal(" ".join(options)) if options else "undefined"
    return [
        # It reads the pilot's choice, which is deleted next.
        f"EVALSET BatchExtraSubmitArgs strcat({classad_literal(start)}, {account}) ?: {without}",
        "DELETE BatchProject",
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
