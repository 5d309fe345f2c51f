# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file: its settings, their checks, and one-line errors."""

from __future__ import annotations

import difflib
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from .values import NAME

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


DEFAULT_CONFIG = "/etc/glidein-demand/config.toml"


class ConfigError(Exception):
    """A setting is invalid; the message is one line with its name, its value and the allowed values."""


class UnusableError(ConfigError):
    """A file or service that a setting names cannot be used now; a later start may succeed."""


@dataclass(frozen=True)
class Settings:
    """The checked settings. Times are seconds; an empty string means "not set"."""

    bind: str
    port: int
    threads: int
    reading: str
    allow_anonymous_monitoring: bool
    max_connections: int
    database: str
    keep_history_days: int
    collector: str
    schedds: tuple[str, ...]
    users: tuple[str, ...]
    constraint: str
    attributes: tuple[str, ...]
    runtime_attributes: tuple[str, ...]
    vo: str
    token_vos: dict[str, str]
    refresh_seconds: int
    query_timeout_seconds: int
    silent_seconds: int
    job_history_seconds: int
    graphite_server: str
    graphite_port: int
    graphite_prefix: str

    @property
    def max_age_seconds(self) -> int:
        """Return the age in seconds from which a result is stale: three missed refreshes."""
        return max(3 * self.refresh_seconds, 60)


@dataclass(frozen=True)
class _Rule:
    default: Any
    allowed: str
    accepts: Callable[[Any], bool]


def _integer(default: int, low: int, high: int) -> _Rule:
    # Python counts bool as int; a configuration file must not.
    return _Rule(
        default,
        f"an integer from {low} to {high}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value <= high,
    )


def _line(default: str, allowed: str) -> _Rule:
    return _Rule(default, allowed, lambda value: isinstance(value, str) and value.isprintable())


def _flag(default: bool) -> _Rule:
    return _Rule(default, "true or false", lambda value: isinstance(value, bool))


def _choice(default: str, *others: str) -> _Rule:
    allowed = (default, *others)
    return _Rule(default, " or ".join(map(repr, allowed)), lambda value: value in allowed)


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value != "" and value.isprintable() and " " not in value


def _is_vo(value: Any) -> bool:
    return isinstance(value, str) and NAME.match(value) is not None


def _words(default: tuple[str, ...], allowed: str) -> _Rule:
    return _Rule(default, allowed, lambda value: isinstance(value, list) and all(map(_is_word, value)))


def _attribute_names(default: tuple[str, ...]) -> _Rule:
    return _Rule(
        default,
        "a list of ClassAd attribute names (letters, digits, underscores)",
        lambda value: isinstance(value, list) and all(isinstance(name, str) and name.isidentifier() for name in value),
    )


_GRAPHITE_NODE = r"[A-Za-z0-9_-]+"
_GRAPHITE_PREFIX = re.compile(rf"{_GRAPHITE_NODE}(\.{_GRAPHITE_NODE})*")
# An IPv6 address has more than one colon, so that host:port is invalid.
_GRAPHITE_SERVER = re.compile(r"[A-Za-z0-9._-]*|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*")


RULES: dict[str, dict[str, _Rule]] = {
    "server": {
        "bind": _Rule("0.0.0.0", "an address of this host, or * for all of IPv4 and IPv6", _is_word),  # noqa: S104
        "port": _integer(11001, 1, 65535),
        "threads": _integer(8, 1, 256),
        "reading": _choice("open", "token"),
        "allow_anonymous_monitoring": _flag(True),
        "max_connections": _integer(500, 1, 100000),
    },
    "pool": {
        "collector": _line("", "host or host:port, or empty for this host's HTCondor configuration"),
        "schedds": _words((), "a list of schedd names as condor_status -schedd shows them; [] is all of the pool"),
        "users": _words((), "a list of user names, with or without @domain; [] is all"),
        "constraint": _line("", "a ClassAd expression, or empty"),
        "attributes": _attribute_names(()),
        "runtime_attributes": _attribute_names(("AllowedExecuteDuration", "AllowedJobDuration")),
        "vo": _Rule(
            "", "the name of a VO (letters, digits, and .-_), or empty", lambda value: value == "" or _is_vo(value)
        ),
        "token_vos": _Rule(
            {},
            "a table of {issuer of tokens = name of a VO}",
            lambda value: isinstance(value, dict) and all(map(_is_word, value)) and all(map(_is_vo, value.values())),
        ),
        # Cycles refuse demand that is older than 900 s, and the guard counts readings of 300 s.
        "refresh_seconds": _integer(300, 1, 300),
        "query_timeout_seconds": _integer(60, 1, 3600),
        "silent_seconds": _integer(3600, 60, 2592000),
        "job_history_seconds": _integer(300, 0, 86400),
    },
    "state": {
        "database": _line("sqlite:////var/lib/glidein-demand/state.db", "a database URL such as sqlite:////path"),
        "keep_history_days": _integer(400, 7, 3660),
    },
    "metrics": {
        "graphite_server": _Rule(
            "",
            "the name or address of a host, or empty to send nothing; graphite_port is its port",
            lambda value: isinstance(value, str) and _GRAPHITE_SERVER.fullmatch(value) is not None,
        ),
        "graphite_port": _integer(2003, 1, 65535),
        "graphite_prefix": _Rule(
            "glidein",
            "names of letters, digits, '_' and '-', separated by dots",
            lambda value: isinstance(value, str) and _GRAPHITE_PREFIX.fullmatch(value) is not None,
        ),
    },
}


def load(path: Path) -> Settings:
    """Read and check the configuration file at `path`, "-" for standard input; raise ConfigError, with one line."""
    try:
        text = sys.stdin.buffer.read().decode() if str(path) == "-" else path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {_one_line(error)}") from error
    try:
        return parse(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse(data: dict[str, Any]) -> Settings:
    """Check a parsed configuration file, and return its settings with defaults for missing ones."""
    _reject_unknown("section", "", data, RULES)
    values: dict[str, Any] = {}
    for section, rules in RULES.items():
        given = data.get(section, {})
        if not isinstance(given, dict):
            raise ConfigError(f"{section} = {_shown(given)}: must be a section [{section}]")
        _reject_unknown("setting", f"{section}.", given, rules)
        for name, rule in rules.items():
            value = given.get(name, rule.default)
            if name in given and not rule.accepts(value):
                raise ConfigError(f"{section}.{name} = {_shown(value)}: must be {rule.allowed}")
            values[name] = tuple(value) if isinstance(value, list) else value
    return Settings(**values)


def _reject_unknown(kind: str, prefix: str, given: dict[str, Any], known: dict[str, Any]) -> None:
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {prefix}{close[0]}?" if close else f"known: {', '.join(sorted(known))}"
            raise ConfigError(f"{prefix}{name}: unknown {kind}; {hint}")


def _shown(value: Any) -> str:
    return _one_line(repr(value))[:200]


def _one_line(value: object) -> str:
    return " ".join(str(value).split())
