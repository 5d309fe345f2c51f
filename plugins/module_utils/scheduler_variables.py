# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a batch system that are variables of the inventory beside glidein_scheduler_options."""

from collections.abc import Mapping

# glidein_scheduler -> {option: variable}. An inventory sets them for one host or for a group of hosts, which a key of
# a mapping cannot do.
VARIABLES = {
    "htcondor_ce": {
        "ce": "glidein_ce",
        "token_file": "glidein_ce_token_file",
        "token_command": "glidein_ce_token_command",
        "queue_wait": "glidein_queue_wait",
    },
}


def with_variables(scheduler, options, variable):
    """Return glidein_scheduler_options (a dict or None) with the options that are variables of their own.

    variable: a function of a variable's name that returns its value, or None. A key of the mapping has precedence.
    """
    given = {}
    for option, name in VARIABLES.get(scheduler, {}).items():
        value = variable(name)
        if value is not None:
            given[option] = value
    if not given or not isinstance(options or {}, Mapping):
        return options
    return dict(given, **(options or {}))


def named_by_variable(scheduler, problems, mapping):
    """Return errors that name the variable of an option. mapping: the path of options in the errors."""
    renamed = []
    for problem in problems:
        for option, name in VARIABLES.get(scheduler, {}).items():
            if problem.startswith(f"{mapping}.{option}:"):
                problem = name + problem[len(f"{mapping}.{option}") :]
        renamed.append(problem)
    return renamed
