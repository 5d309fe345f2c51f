# Copyright (c) 2026, the glidein.ops authors
# GNU General Public License v3.0 or later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The `glidein_*` variables of a host: their values, and those that are misspelt, invalid or cannot be read.

Controller only.
"""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.glidein.ops.plugins.module_utils.batch import SCHEDULERS, scheduler_class
from ansible_collections.glidein.ops.plugins.module_utils.common.errors import InputError
from ansible_collections.glidein.ops.plugins.module_utils.common.names import did_you_mean
from ansible_collections.glidein.ops.plugins.module_utils.common.validation import UNQUOTED, Spec, is_unquoted
from ansible_collections.glidein.ops.plugins.module_utils.controller.variables import VARIABLES

PREFIX = "glidein_"
# glidein_scheduler -> {option: variable}. Made once, in Ansible's main process: each task of a host has a process
# of its own, which would import the batch system again.
OPTION_VARIABLES = {
    scheduler: {
        name: option["variable"]
        for name, option in scheduler_class(scheduler).more_options.items()
        if "variable" in option
    }
    for scheduler in SCHEDULERS
}
_NAMES = ("glidein_site", "glidein_deployment", "glidein_demand_token")
_UNDEFINED = re.compile(r"^'[A-Za-z_][A-Za-z0-9_]*' is undefined\Z|^'[a-z]+ object' has no attribute '[A-Za-z0-9_]+'\Z")
# Configuration of HTCondor, in which {{ begins a nested list.
_WITH_BRACES = ("glidein_gateway_extra_config", "glidein_gateway_routes")
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_VAULT = (
    "the vault that holds it cannot be decrypted: the vault password is missing or wrong (--ask-vault-pass, "
    "--vault-password-file)"
)


def read_variables(host: str, variables: Any, *names: str) -> List[Any]:
    """Return these variables of a host in plain containers, None for a missing one.

    variables: hostvars[host]. Raises InputError, which names host and variable, if one is in a vault that cannot be
    decrypted, or refers to an undefined variable.
    """
    found = [read_variable(variables, name) for name in names]
    errors = [f"{host}: {error}" for _value, error in found if error]
    if errors:
        raise InputError(errors)
    return [value for value, _error in found]


def value_of(variables: Any, name: str) -> Any:
    """Return a variable of a host in plain containers, None if it is missing. Raises InputError."""
    value, error = read_variable(variables, name)
    if error:
        raise InputError(error)
    return value


def scheduler_options(variables: Any, scheduler: Any, options: Any) -> Any:
    """Return glidein_scheduler_options with the options that have variables of their own, such as glidein_ce.

    variables: hostvars[host]; options: the mapping, or None; its keys have precedence. Raises InputError.
    """
    named = {option: value_of(variables, name) for option, name in OPTION_VARIABLES.get(scheduler, {}).items()}
    given = {option: value for option, value in named.items() if value is not None}
    return {**given, **(options or {})} if given and isinstance(options or {}, Mapping) else options


def settings(variables: Any, *names: str) -> Dict[str, Any]:
    """Return variables of a host in their normal form, with their defaults. Raises InputError with all problems.

    variables: hostvars[host].
    """
    values, problems = checked(variables, *names)
    if problems:
        raise InputError(problems)
    return values


def checked(variables: Any, *names: str) -> Tuple[Dict[str, Any], List[str]]:
    """Return (variables of a host in their normal form, with their defaults; errors). variables: hostvars[host]."""
    found = {name: read_variable(variables, name) for name in names}
    problems = [error for _value, error in found.values() if error]
    readable = {name: value for name, (value, error) in found.items() if not error}
    return _spec(tuple(readable)).check(problems, "", readable), problems


@functools.lru_cache(maxsize=None)
def _spec(names: Tuple[str, ...]) -> Spec:
    """Return the Spec of these variables."""
    return Spec({name: VARIABLES[name].argument_spec() for name in names})


def unreadable(variables: Any, *names: str) -> List[str]:
    """Return an error for each of these variables of a host that cannot be read."""
    return [error for _value, error in (read_variable(variables, name) for name in names) if error]


def read_variable(variables: Any, name: str) -> Tuple[Any, Optional[str]]:
    """Return (a variable of a host, why it cannot be read or None)."""
    try:
        value = plain(variables.get(name))
    # Of any type: those of Ansible's versions differ.
    except Exception as error:  # pylint: disable=broad-exception-caught
        # Variables of roles may be secrets, too.
        is_shown = name in VARIABLES and not VARIABLES[name].secret
        return None, f"{name}: {why_unreadable(error, ' '.join(str(error).split()) if is_shown else None)}"
    # ansible-core before 2.19 returns a template with an undefined variable as it is.
    if isinstance(value, str) and "{{" in value and name not in _WITH_BRACES:
        return None, f"{name}: it refers to an undefined variable: {', '.join(_TEMPLATE.findall(value))}"
    return value, None


def why_unreadable(error: Exception, other: Optional[str] = None) -> str:
    """Return the reason why a variable cannot be read.

    other: the text for an error of another kind. By default its text is not shown, because it may quote a secret.
    """
    cause: Optional[BaseException] = error
    while cause is not None:
        # In a filter, ansible-core 2.19 raises an error whose source is a marker of the real one.
        if any("Vault" in type(each).__name__ for each in (cause, getattr(cause, "source", None))):
            return _VAULT
        cause = cause.__cause__ or cause.__context__
    if _UNDEFINED.match(str(error)):
        return f"it refers to an undefined variable: {error}"
    return f"cannot be read ({type(error).__name__}; not shown)" if other is None else other


def plain(value: Any) -> Any:
    """Return a templated value in plain containers. To copy one of Ansible's own copies all variables.

    Raises the errors of values that Ansible decrypts, or reports as undefined, only when they are used.
    """
    if value is None or isinstance(value, (str, bytes, bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    encrypted = getattr(value, "__ENCRYPTED__", False)
    if isinstance(value, Sequence) and not encrypted:
        return [plain(inner) for inner in value]
    text = str(value)
    return text if encrypted else value


def select_hosts(
    hostvars: Any,
    hosts: List[str],
    with_all: Optional[List[str]] = None,
    with_any: Optional[List[str]] = None,
    without: Optional[List[str]] = None,
    warn: Optional[Callable[[str], Any]] = None,
) -> List[str]:
    """Return the hosts whose variables `with_all` are all true, one of `with_any` is, and none of `without` is.

    warn: a function that is called with a text for each host with a variable that cannot be read,
    which is not selected. Without the function, such a variable raises InputError.
    """

    def is_selected(host: str) -> bool:
        # Looked up once: Ansible assembles all variables of a host each time.
        variables = hostvars[host]

        def is_true(name: str) -> bool:
            return truth(read_variables(host, variables, name)[0])

        try:
            return (
                all(map(is_true, with_all or ()))
                and (not with_any or any(map(is_true, with_any)))
                and not any(map(is_true, without or ()))
            )
        except InputError as error:
            if not warn:
                raise
            warn(f"{error}. The host is not selected.")
            return False

    return [host for host in hosts if is_selected(host)]


def truth(value: Any) -> bool:
    """Return a variable as a boolean. On the command line or in an INI inventory it is text, and "false" is false."""
    try:
        return boolean(value)
    except TypeError:
        return bool(value)


def unquoted_names(variables: Any, entries: Any) -> List[str]:
    """Return an error for each name of a host that YAML does not read as text: 012345 is 5349 then.

    variables: hostvars[host]; entries: its glidein_entries. No value is quoted: it may be a token.
    """
    found = [name for name in _NAMES if is_unquoted(read_variable(variables, name)[0])]
    for entry, options in entries.items() if isinstance(entries, dict) else ():
        shapes = options.get("shapes") if isinstance(options, dict) else None
        names = {entry: "glidein_entries", **dict.fromkeys(shapes or (), f"glidein_entries.{entry}.shapes")}
        found += [f"{path}.{name}" for name, path in names.items() if is_unquoted(name)]
    return [f"{path}: not text; {UNQUOTED}" for path in found]


def unknown_of_host(hostvars: Any, host: str, names: Iterable[Any], others: Iterable[str] = ()) -> List[str]:
    """Return one error that lists the unknown `glidein_*` variables of a host; [] if it has none.

    names: the names of the host's variables. A variable to which another variable of the host, or of the hosts in
    `others`, refers is the operator's own.
    """
    unknown = sorted(str(name) for name in names if str(name).startswith(PREFIX) and name not in VARIABLES)
    own = _referred_to(unknown, hostvars, [host, *others]) if unknown else set()
    found = [f"{name}: unknown variable{did_you_mean(name, VARIABLES, PREFIX)}" for name in unknown if name not in own]
    if not found:
        return []
    return [
        f"{'; '.join(found)}. The names that begin with {PREFIX} are those of docs/variables.md; a variable of your "
        "own needs another name, or another variable that refers to it"
    ]


def _referred_to(names: Iterable[str], hostvars: Any, hosts: Iterable[str]) -> Set[str]:
    """Return those of the names that stand in a template of a variable other than themselves."""
    patterns = {name: re.compile(rf"\b{re.escape(name)}\b") for name in names}
    found: Set[str] = set()
    for host in hosts:
        # As they are written, without templating.
        raw = hostvars.raw_get(host) if hasattr(hostvars, "raw_get") else hostvars[host]
        for other in raw:
            for text in _templates(raw[other]):
                found.update(name for name, pattern in patterns.items() if name != other and pattern.search(text))
    return found


def _templates(value: Any) -> Iterator[str]:
    """Yield the texts with templates in a value that has not been templated yet."""
    if isinstance(value, str):
        if "{{" in value or "{%" in value:
            yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _templates(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _templates(inner)
