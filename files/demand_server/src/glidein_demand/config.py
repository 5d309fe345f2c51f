# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file: a msgspec Struct per section has its settings, their defaults and their limits."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta

from .values import NAME, one_line

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_CONFIG = "/etc/glidein-demand/config.toml"


class ConfigError(Exception):
    """A setting is invalid; the message is one line with its name, its value and the allowed values."""


class UnusableError(ConfigError):
    """A file or service that a setting names cannot be used now; a later start may succeed."""


_NODE = r"[A-Za-z0-9_-]+"
Port = Annotated[int, Meta(ge=1, le=65535)]
Line = Annotated[str, Meta(pattern=r"^[^\x00-\x1f\x7f]*\Z")]
Word = Annotated[str, Meta(pattern=r"^[^\s\x00-\x1f\x7f]+\Z")]
Vo = Annotated[str, Meta(pattern=f"^{NAME.pattern}")]
Attribute = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z")]
Attributes = Annotated[
    tuple[Attribute, ...], Meta(description="a list of ClassAd attribute names (letters, digits, underscores)")
]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A section. Times are seconds; an empty text means "not set". Descriptions are parts of error messages."""


class ServerSettings(Section, frozen=True):
    """The section [server]."""

    bind: Annotated[Word, Meta(description="an address of this host, or * for all of IPv4 and IPv6")] = "0.0.0.0"  # noqa: S104 - sites send from other networks
    port: Port = 11001
    threads: Annotated[int, Meta(ge=1, le=256)] = 8
    reading: Annotated[Literal["open", "token"], Meta(description="'open' or 'token'")] = "open"
    max_connections: Annotated[int, Meta(ge=1, le=100000)] = 500


class PoolSettings(Section, frozen=True):
    """The section [pool]."""

    collector: Annotated[
        Line, Meta(description="host or host:port, or empty for this host's HTCondor configuration")
    ] = ""
    schedds: Annotated[
        tuple[Word, ...],
        Meta(description="a list of schedd names as condor_status -schedd shows them; [] is all of the pool"),
    ] = ()
    users: Annotated[
        tuple[Word, ...], Meta(description="a list of user names, with or without @domain; [] is all")
    ] = ()
    constraint: Annotated[Line, Meta(description="a ClassAd expression, or empty")] = ""
    attributes: Attributes = ()
    runtime_attributes: Attributes = ("AllowedExecuteDuration", "AllowedJobDuration")
    vo: Annotated[
        str,
        Meta(pattern=rf"^(?:{NAME.pattern})?\Z", description="the name of a VO (letters, digits, and .-_), or empty"),
    ] = ""
    token_vos: Annotated[dict[Word, Vo], Meta(description="a table of {issuer of tokens = name of a VO}")] = {}
    # Cycles refuse demand that is older than 900 s, and the guard counts readings of 300 s.
    refresh_seconds: Annotated[int, Meta(ge=1, le=300)] = 300
    query_timeout_seconds: Annotated[int, Meta(ge=1, le=3600)] = 60
    silent_seconds: Annotated[int, Meta(ge=60, le=2592000)] = 3600


class StateSettings(Section, frozen=True):
    """The section [state]."""

    database: str = "sqlite:///glidein-demand.db"
    keep_history_days: Annotated[int, Meta(ge=7, le=3660)] = 400


class MetricsSettings(Section, frozen=True):
    """The section [metrics]."""

    graphite_server: Annotated[
        str,
        Meta(
            # An IPv6 address has more than one colon, so that host:port is invalid.
            pattern=r"^(?:[A-Za-z0-9._-]*|[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*)\Z",
            description="the name or address of a host, or empty to send nothing; graphite_port is its port",
        ),
    ] = ""
    graphite_port: Port = 2003
    graphite_prefix: Annotated[
        str,
        Meta(
            pattern=rf"^{_NODE}(\.{_NODE})*\Z", description="names of letters, digits, '_' and '-', separated by dots"
        ),
    ] = "glidein"


class Settings(Section, frozen=True):
    """The checked settings."""

    server: ServerSettings = ServerSettings()
    pool: PoolSettings = PoolSettings()
    state: StateSettings = StateSettings()
    metrics: MetricsSettings = MetricsSettings()

    @property
    def max_age_seconds(self) -> int:
        """Return the age in seconds from which a result is stale: three missed refreshes."""
        return max(3 * self.pool.refresh_seconds, 60)


def load(path: Path | None) -> Settings:
    """Read and check the configuration file at `path`, "-" for standard input; raise ConfigError, with one line.

    None is DEFAULT_CONFIG; without that file, every setting has its default.
    """
    is_named, path = path is not None, path or Path(DEFAULT_CONFIG)
    try:
        text = sys.stdin.buffer.read().decode() if str(path) == "-" else path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not is_named:
            return Settings()
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: not a TOML file: {one_line(error)}") from error
    try:
        return parse(data)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse(data: dict[str, Any]) -> Settings:
    """Check a parsed configuration file, and return its settings with defaults for missing ones."""
    try:
        # Ansible's templates may make text of numbers, which is accepted.
        return msgspec.convert(data, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(one_line(_described(str(error), data))) from error


def _described(message: str, data: dict[str, Any]) -> str:
    """Return msgspec's message about `data` with the setting's name and value, and what is expected."""
    place = re.search(r" - at (?:`key` in )?`\$\.(\w+)(?:\.(\w+))?[^`]*`\Z", message)
    section, setting = (place[1], place[2]) if place else ("", None)
    kind = get_type_hints(Settings)[section] if section else Settings
    unknown = re.match(r"Object contains unknown field `(.*?)`(?: - at `|\Z)", message, re.DOTALL)
    if unknown:
        known, prefix = kind.__struct_fields__, f"{section}." if section else ""
        close = difflib.get_close_matches(unknown[1], known, n=1)
        hint = f"did you mean {prefix}{close[0]}?" if close else f"known: {', '.join(sorted(known))}"
        return f"{prefix}{unknown[1]}: unknown {'setting' if section else 'section'}; {hint}"
    if setting is None:
        return f"{section} = {repr(data[section])[:200]}: must be a section [{section}]"
    rules = getattr(get_type_hints(kind, include_extras=True)[setting], "__metadata__", ())
    expected = next((rule.description for rule in rules if rule.description), None)
    reason = f"must be {expected}" if expected else message.partition(" - at ")[0]
    return f"{section}.{setting} = {repr(data[section][setting])[:200]}: {reason}"
