# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of texts that operators write in HTCondor's language: settings of a glidein, and ClassAd expressions.

The settings are `condor_config` of an entry, and `glidein_condor_config`.

A setting that the glidein depends on is refused: it decides who controls the daemons, or how glideins are counted.
"""

import fnmatch
import math
import re

from ansible_collections.glidein.ops.plugins.module_utils.common.validation import Type, invalid

_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
# HTCondor would replace $(X) and $ENV(X): attributes and expressions become part of its configuration.
MACRO = re.compile(r"\$[A-Za-z_]*\(")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MAX_CHARS = 10000

_SECURITY = "it decides who may control the glidein and its jobs"
_COUNTING = "the pool counts and places glideins by it"
_OWN = "the glidein sets it"
# Patterns of names, in capitals, and why they are refused. The first that matches counts. The unit tests compare them
# with the settings that files/glidein writes.
_REFUSED = (
    (("SEC_*", "ALLOW_*", "DENY_*", "HOSTALLOW*", "HOSTDENY*", "AUTH_*", "ENABLE_RUNTIME_CONFIG"), _SECURITY),
    (("ENABLE_PERSISTENT_CONFIG", "SETTABLE_ATTRS*", "LEGACY_ALLOW_SEMANTICS", "RUNBENCHMARKS_*"), _SECURITY),
    (("CONDOR_HOST", "COLLECTOR_*", "CCB_ADDRESS"), "use glidein_collector"),
    (("STARTD_ATTRS", "STARTD_EXPRS", "SYSTEM_*_ATTRS", "MASTER_ATTRS", "SLOT*_ATTRS"), "use attributes"),
    (("GLIDEIN_*", "PYGLIDEIN_*", "IS_GLIDEIN", "MASTER_NAME", "STARTD_NAME"), _COUNTING),
    (("NUM_CPUS", "MEMORY", "DISK", "RESERVED_*", "NUM_SLOTS*", "SLOT_TYPE_*", "SLOT[0-9]*"), "use shapes"),
    (("MACHINE_RESOURCE_*", "COUNT_HYPERTHREAD_CPUS", "DETECTED_*"), "use shapes"),
    (("START", "IS_OWNER", "START_*", "REQUIREMENTS"), "use accept or accept_requirements"),
    (("RANK",), "use rank"),
    (("STARTD_CRON_*",), "use checks"),
    (("USER_JOB_WRAPPER",), "use glidein_job_wrapper or job_setup"),
    (("STARTER_JOB_ENVIRONMENT", "ENVIRONMENT_VALUE_FOR_*"), "use job_environment"),
    (("SINGULARITY*", "DOCKER*"), _OWN),
    (("MAX_*LOG", "MAX_NUM_*LOG", "MAX_HISTORY_*", "LOG", "*_LOG"), "use glidein_log_dir"),
    (("STARTD_NOCLAIM_SHUTDOWN", "DAEMON_SHUTDOWN*", "*_DAEMON_SHUTDOWN*"), "use idle_timeout and retirement"),
    (("LOCAL_*", "*_CONFIG_*", "USER_CONFIG_FILE", "RELEASE_DIR", "SPOOL", "EXECUTE", "LOCK", "RUN", "TMP_DIR"), _OWN),
    (("BIN", "SBIN", "LIB", "LIBEXEC", "ETC", "PROCD*", "USE_PROCD", "*_ADDRESS_FILE", "PREEN"), _OWN),
    (("DAEMON_LIST", "DC_DAEMON_LIST", "MASTER_NEW_BINARY_RESTART", "MASTER_HAD_*", "JAVA"), _OWN),
    (("SUSPEND", "CONTINUE", "PREEMPT", "KILL", "WANT_*", "MAXJOBRETIREMENTTIME", "MACHINEMAXVACATETIME"), _OWN),
    (("USE_SHARED_PORT", "SHARED_PORT_*", "CCB_HEARTBEAT_INTERVAL", "FILESYSTEM_DOMAIN", "CATALOG_SPACE"), _OWN),
    (("CREATE_CORE_FILES", "ENABLE_URL_TRANSFERS", "HISTORY_CONTAINS_JOB_ENVIRONMENT", "STARTD_HISTORY"), _OWN),
    (("RUNBENCHMARKS", "CONSOLE_DEVICES"), _OWN),
)
# Words of condor_config's own syntax.
_KEYWORDS = ("USE", "INCLUDE", "IF", "ELIF", "ELSE", "ENDIF", "ERROR", "WARNING")


def check_condor_config(problems, variable, raw):
    """Return {name in capitals: text} of an operator's settings of HTCondor, whose names are case-insensitive.

    problems: a list that the errors are appended to; raw: {name: text, number or boolean}. A name may begin with that
    of a daemon, such as STARTD.UPDATE_INTERVAL.
    """
    if not isinstance(raw, dict):
        problems.append(invalid(variable, raw, "a mapping from names of HTCondor's settings to values"))
        return {}
    settings = {}
    for name, value in raw.items():
        where = f"{variable}.{name}"
        if not isinstance(name, str) or not _NAME.match(name) or name.upper() in _KEYWORDS:
            expected = "the name of a setting of HTCondor, such as STARTD_DEBUG"
            problems.append(invalid(f"name of {where}", name, expected))
            continue
        reason = refusal(name)
        if reason:
            problems.append(f"{where}: this setting cannot be changed: {reason}")
        if name.upper() in settings:
            problems.append(f"{where}: the setting is there twice, with other capitals; delete one of them")
        settings[name.upper()] = _text(problems, where, value)
    return settings


def refusal(name):
    """Return why an operator cannot change a setting of HTCondor in a glidein, or None."""
    last = name.upper().rsplit(".", 1)[-1]
    for patterns, reason in _REFUSED:
        if any(fnmatch.fnmatchcase(last, pattern) for pattern in patterns):
            return reason
    return None


def _text(problems, where, value):
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, (int, float)) and math.isfinite(value):
        return repr(value)
    text = value.strip() if isinstance(value, str) else None
    if text is None or len(text) > _MAX_CHARS or CONTROL.search(text) or text.endswith("\\"):
        expected = "text without line breaks and without a backslash at its end, a number, true or false"
        problems.append(invalid(where, value, expected))
        return ""
    return text


def config_lines(settings):
    """Return the lines of condor_config for settings ({name: text}), sorted by name."""
    return [f"{name} = {settings[name]}".rstrip() for name in sorted(settings)]


def is_expression(text):
    """Return whether HTCondor's Python library parses a text. Without the library, as on login nodes, return True."""
    try:
        # Here, because most runs of a module check no expression.
        import classad2  # pylint: disable=import-outside-toplevel
    except ImportError:
        return True
    try:
        classad2.ExprTree(text)
    except (ValueError, RecursionError, classad2.ClassAdException):
        return False
    return True


def expression(example):
    """Return the type of ClassAd expressions; the normal form is one line, and None for an empty text.

    HTCondor logs an expression that it cannot parse, and goes on without the configuration that contains it.
    """

    def convert(value):
        if value == "":
            return None
        line = value.replace("\n", " ").strip() if isinstance(value, str) else ""
        if not line or len(line) > _MAX_CHARS or CONTROL.search(line) or MACRO.search(line) or not is_expression(line):
            raise ValueError(value)
        return line

    return Type(f"a ClassAd expression without $(...), such as {example}", convert)
