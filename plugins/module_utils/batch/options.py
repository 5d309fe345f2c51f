# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The specification of glidein_scheduler_options: how the commands of a site's batch system are run."""

from ansible_collections.glidein.ops.plugins.module_utils.command import DEFAULT_TIMEOUT_S
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.scheduler_variables import named_by_variable
from ansible_collections.glidein.ops.plugins.module_utils.validation import (
    ANYTHING,
    BOOLEAN,
    Spec,
    Type,
    invalid,
    whole_number,
)

_VARIABLE = "glidein_scheduler_options"


def _argument_list(value):
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise ValueError(value)
    if any("\0" in word for word in value):
        raise ValueError(value)
    return list(value)


ARGUMENT_LIST = Type("an argument list without NUL characters, such as [/opt/bin/COMMAND]", _argument_list)


def check_options(kind, options):
    """Return glidein_scheduler_options with the defaults of `kind`, a subclass of Scheduler. Raises InputError.

    Returns {"commands": {name: [str]}, "grace": seconds, "rerunnable_arrays": bool, "timeout": seconds}, and the keys
    of more_options of `kind`.
    """
    commands = {name: {"type": ARGUMENT_LIST, "default": argv} for name, argv in sorted(kind.commands.items())}
    spec = Spec(
        {
            "commands": {"type": ANYTHING, "default": {}, "options": Spec(commands)},
            "grace": {"type": whole_number(1), "default": kind.grace_s},
            "rerunnable_arrays": {"type": BOOLEAN, "default": False},
            "timeout": {"type": whole_number(1), "default": DEFAULT_TIMEOUT_S},
            **kind.more_options,
        }
    )
    problems = []
    result = spec.check(problems, _VARIABLE, options)
    if result["rerunnable_arrays"] and not kind.arrays_are_rerunnable:
        expected = f"false with {kind.name}, whose arrays do not need it: remove it"
        problems.append(invalid(f"{_VARIABLE}.rerunnable_arrays", True, expected))
    if problems:
        raise InputError(named_by_variable(kind.name, problems, _VARIABLE))
    return result
