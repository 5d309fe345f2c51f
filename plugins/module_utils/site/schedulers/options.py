# Copyright: (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""glidein_scheduler_options: how a site's batch system is reached, checked and completed."""

from ansible_collections.glidein.ops.plugins.module_utils.command import DEFAULT_TIMEOUT_S
from ansible_collections.glidein.ops.plugins.module_utils.errors import InputError

KEYS = ("commands", "count_commands", "grace", "rerunnable_arrays", "timeout")
COUNTS = ("queued", "running")
_VARIABLE = "glidein_scheduler_options"


def check_options(kind, options):
    """Return glidein_scheduler_options with the defaults of `kind`, a subclass of Scheduler. Raises InputError.

    Returns {"commands": {name: [str]}, "count_commands": {} or {"queued": [str], "running": [str]}, "grace": seconds,
    "rerunnable_arrays": bool, "timeout": seconds}.
    """
    options = dict(options or {})
    problems = [
        f"{_VARIABLE}.{key}: no such key here; the keys are {', '.join(KEYS)}" for key in options if key not in KEYS
    ]
    commands = {name: list(argv) for name, argv in kind.commands.items()}
    commands.update(_commands(problems, "commands", options.get("commands"), sorted(commands)))
    counts = _commands(problems, "count_commands", options.get("count_commands"), COUNTS)
    if counts and len(counts) < len(COUNTS) and not problems:
        problems.append(f"{_VARIABLE}.count_commands: needs both of {', '.join(COUNTS)}")
    result = {
        "commands": commands,
        "count_commands": counts,
        "grace": _seconds(problems, "grace", options.get("grace", kind.grace_s)),
        "rerunnable_arrays": _rerunnable_arrays(problems, kind, options.get("rerunnable_arrays", False)),
        "timeout": _seconds(problems, "timeout", options.get("timeout", DEFAULT_TIMEOUT_S)),
    }
    if problems:
        raise InputError(problems)
    return result


def _seconds(problems, key, value):
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        problems.append(f"{_VARIABLE}.{key}: {value!r} is not accepted; allowed: whole seconds, 1 or more")
    return value


def _rerunnable_arrays(problems, kind, value):
    where = f"{_VARIABLE}.rerunnable_arrays: {value!r} is not accepted"
    if str(value).lower() not in ("true", "false"):
        problems.append(f"{where}; allowed: true, false")
        return False
    value = str(value).lower() == "true"
    if value and not kind.arrays_are_rerunnable:
        problems.append(f"{where} with {kind.name}, which submits arrays without it; remove it")
    return value


def _commands(problems, key, given, names):
    if given is None:
        return {}
    if not isinstance(given, dict):
        problems.append(f"{_VARIABLE}.{key}: {given!r} is not accepted; allowed: a mapping")
        return {}
    for name, argv in given.items():
        where = f"{_VARIABLE}.{key}.{name}"
        if name not in names:
            problems.append(f"{where}: no such command; the commands are {', '.join(names)}")
        elif not isinstance(argv, list) or not argv or not all(isinstance(word, str) and word for word in argv):
            problems.append(f"{where}: {argv!r} is not accepted; allowed: an argument list such as [/opt/bin/{name}]")
        elif any("\0" in word for word in argv):
            problems.append(f"{where}: a NUL character is not accepted in an argument")
    return {name: list(argv) for name, argv in given.items() if isinstance(argv, list)}
