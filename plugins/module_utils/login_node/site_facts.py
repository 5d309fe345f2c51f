# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a site, read on its login node: its batch system and its environment. Nothing is changed."""

import os
import shutil
import time

from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS, scheduler_class
from ansible_collections.glidein.ops.plugins.module_utils.batch.detection import READERS, find_schedulers
from ansible_collections.glidein.ops.plugins.module_utils.batch.facts import Reader, no_facts
from ansible_collections.glidein.ops.plugins.module_utils.common.command import clean_environment
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import invalid
from ansible_collections.glidein.ops.plugins.module_utils.login_node.environment import (
    login_environment,
    parse_address,
    read_environment,
    read_mounts,
    responsive_path,
)

# The part of the time in which PATH is checked and batch systems are looked for, each.
_SEARCH_SHARE = 0.2
# The part of the time that commands of the batch system may take; the rest is for the environment.
_SCHEDULER_SHARE = 0.75


def check_options(options):
    """Raise InputError for invalid options of the module site_facts."""
    problems = []
    if options["timeout"] < 1:
        problems.append(invalid("timeout", options["timeout"], "a whole number of at least 1"))
    if options["scheduler"] is not None and options["scheduler"] not in READERS:
        expected = f"one of {', '.join(sorted(READERS))}"
        if options["scheduler"] in SCHEDULERS:
            expected += ": this host does not show the queues of a site behind a gateway or an HTCondor-CE"
        problems.append(invalid("scheduler", options["scheduler"], expected))
    for name, argv in sorted(options["commands"].items()):
        if not isinstance(argv, list) or not argv or not all(isinstance(word, str) and word for word in argv):
            problems.append(invalid(f"commands.{name}", argv, "an argument list, such as [/opt/bin/COMMAND]"))
    for address in options["connect"]:
        try:
            parse_address(address)
        except ValueError:
            problems.append(invalid("connect", address, "host:port, or an http or https URL"))
    if problems:
        raise InputError(problems)


def read_site(options, user, home, shell, environ):
    """Return the facts of this login node. Raises InputError for invalid options.

    options: scheduler (None: the first one found), commands, controller_time, connect, timeout; environ: the variables
    of this process. A value that cannot be read is a gap in the facts, not an error.
    """
    check_options(options)
    read_at = time.time()
    offset_s = None if options["controller_time"] is None else round(read_at - options["controller_time"], 1)
    deadline = time.monotonic() + options["timeout"]
    search_s = options["timeout"] * _SEARCH_SHARE
    merged, gaps = login_environment(environ, shell, options["timeout"])
    mounts = read_mounts()
    merged["PATH"], path_gaps = responsive_path(merged, search_s, mounts)
    found, search_gaps = find_schedulers(clean_environment(merged), options["commands"], search_s)
    gaps += path_gaps + search_gaps
    name = options["scheduler"] or (found[0] if found else None)
    facts = {
        "read_at": int(read_at),
        "scheduler": name,
        "others": [other for other in found if other != name],
        "commands": {},
        "user": user,
    }
    if name is None:
        facts.update(no_facts())
    else:
        kind, module = scheduler_class(name), READERS[name]
        environment = clean_environment(merged, kind.scrub_prefixes, kind.keep)
        left_s = (deadline - time.monotonic()) * _SCHEDULER_SHARE
        reader = Reader(environment, options["commands"], left_s)
        facts.update(module.read(reader, user))
        facts["commands"] = commands_of_login_shell(kind, environ, merged, options["commands"])
        gaps += reader.gaps
    left_s = deadline - time.monotonic()
    node, node_gaps = read_environment(clean_environment(merged), left_s, mounts, home, user, options["connect"])
    facts["environment"] = dict(node, clock_offset_s=offset_s)
    facts["gaps"] = gaps + node_gaps
    return _valid_texts(facts)


def _valid_texts(value):
    """Return facts with a ? for each byte that is not UTF-8, which Python has as a surrogate."""
    if isinstance(value, dict):
        return {_valid_texts(key): _valid_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_valid_texts(item) for item in value]
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def commands_of_login_shell(kind, environ, merged, commands):
    """Return {name: argument list} of the commands that need what only a login shell has: its PATH, or variables.

    They are values for glidein_scheduler_options.commands. kind: subclass of Scheduler; environ, merged: the variables
    of this process, and with those of a login shell; commands: those of the options.
    """
    responsive = merged["PATH"].split(os.pathsep)
    own = [directory for directory in environ.get("PATH", os.defpath).split(os.pathsep) if directory in responsive]
    needed = [name for name in kind.keep if name in merged and name not in environ]
    variables = ["env", *(f"{name}={merged[name]}" for name in needed)] if needed else []
    result = {}
    for name in sorted(kind.commands):
        path = shutil.which(name, path=merged["PATH"])
        is_outside = path and shutil.which(name, path=os.pathsep.join(own)) is None
        if name in commands:
            result[name] = commands[name]
        elif is_outside or (path and variables):
            result[name] = [*variables, path if is_outside else name]
    return result
