# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `glidein-demand`."""

from __future__ import annotations

import argparse
import contextlib
import grp
import json
import os
import pwd
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, Sequence

from sqlalchemy.exc import SQLAlchemyError

from . import __version__
from .config import DEFAULT_CONFIG, ConfigError, Settings, UnusableError, load
from .store.database import Database, driver_text, parse_url
from .store.leases import LeaseLimits, LimitError, Pause
from .store.tokens import TokenError, Tokens

LONGEST_REASON = 300


class UsageError(Exception):
    """An argument or the standard input is invalid; the message is one line and has no secret."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status: 0 after success or SIGTERM; 2 after an error (one line on stderr).

    `serve` returns 1 if the database cannot be used now, so that systemd starts it again.
    """
    arguments = _parser().parse_args(argv)
    path, serves = Path(arguments.config or DEFAULT_CONFIG), arguments.run is _serve
    command = shlex.join([*program(), *(sys.argv[1:] if argv is None else argv)])
    try:
        settings = load(path if arguments.config else None)
        try:
            if arguments.run is not _check:
                _require_owner(settings.state.database, command)
            if arguments.run in (_check, _serve):
                arguments.run(settings)
            else:
                if not arguments.config:
                    _require_file(settings.state.database)
                with _database(settings.state.database, arguments.only_read) as database:
                    arguments.run(arguments, database)
            return 0
        except ConfigError as error:
            raise type(error)(f"{path}: {error}") from error
    except (ConfigError, LimitError, TokenError, UsageError) as error:
        retry = isinstance(error, UnusableError) and serves
        return _failed(f"{error}{_advice(error, path, command)}", status=1 if retry else 2)
    except SQLAlchemyError as error:
        return _failed(f"{path}: state.database: {driver_text(error)}", status=1 if serves else 2)
    except KeyboardInterrupt:
        return _failed("interrupted")


def program() -> list[str]:
    """Return the arguments that start this program as it was started. The role's wrapper gives Python its file."""
    name = sys.argv[0]
    return [name] if os.access(name, os.X_OK) else [sys.executable, name]


def _require_owner(url: str, command: str) -> None:
    """Raise UsageError or UnusableError if the database's directory is another's: root would make its own files."""
    file = _file_of(url)
    if file is None or not os.path.exists(file.parent):  # noqa: PTH110 - False if this user may not look
        return
    owner = file.parent.stat().st_uid
    is_usable = os.geteuid() != 0 and os.access(file.parent, os.R_OK | os.W_OK | os.X_OK)
    if owner != os.geteuid() and not is_usable:
        name = _user(owner)
        text = f"state.database: {file.parent} belongs to {name}"
        if owner == 0:  # perhaps its file system is not mounted yet
            raise UnusableError(text)
        raise UsageError(f"{text}; run this with: sudo -u {name} {command}")


def _require_file(url: str) -> None:
    """Raise UsageError if the SQLite file is named relative to the current directory and does not exist there."""
    file = _file_of(url)
    if file and not Path(str(parse_url(url).database)).is_absolute() and not file.exists():
        raise UsageError(
            f"state.database: {file} does not exist; run this where the server was started, or name the server's "
            "configuration with --config"
        )


@contextlib.contextmanager
def _database(url: str, only_read: bool) -> Iterator[Database]:
    """Open the database. only_read: if its file does not exist, do not make it, but open an empty database."""
    file = _file_of(url)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/empty.db" if only_read and file and not file.exists() else url)
        with contextlib.closing(database):
            yield database


def _serve(settings: Settings) -> None:
    # Imported here and below, because the other commands start faster without HTTP and HTCondor.
    from . import service

    service.run(settings)


def _check(settings: Settings) -> None:
    # The processes of queries start in the current directory. With sudo, it may be one that this user may not enter.
    if not os.access(".", os.X_OK):
        os.chdir("/")
    from . import service

    service.check(settings)


def _pause(arguments: argparse.Namespace, database: Database) -> None:
    if arguments.only_read:
        print(json.dumps(Pause(database).state()))
        return
    reason = arguments.reason
    if len(reason) > LONGEST_REASON or not reason.isprintable():
        raise UsageError(f"--reason must be one line of at most {LONGEST_REASON} characters")
    Pause(database).set(reason, os.environ.get("SUDO_USER") or _user(os.getuid()))
    print("paused: every lease is zero until `glidein-demand resume`")


def _resume(_arguments: argparse.Namespace, database: Database) -> None:
    Pause(database).clear()
    print("resumed: leases are granted")


def _token_create(arguments: argparse.Namespace, database: Database) -> None:
    secret = Tokens(database).create(arguments.name, arguments.kind)
    print(f"the token of the {arguments.kind} {arguments.name}; it cannot be shown again:", file=sys.stderr)
    print(secret)


def _token_revoke(arguments: argparse.Namespace, database: Database) -> None:
    Tokens(database).revoke(arguments.name)
    print(f"revoked: {arguments.name}")


def _token_list(arguments: argparse.Namespace, database: Database) -> None:
    rows = Tokens(database).rows()
    print(json.dumps(rows, indent=2) if arguments.json else token_table(rows, time.time()))


def _token_sync(arguments: argparse.Namespace, database: Database) -> None:
    wanted = parse_sites(sys.stdin.buffer.read())
    print(json.dumps(Tokens(database).install(wanted, check=arguments.only_read)))


def _lease_limits(arguments: argparse.Namespace, database: Database) -> None:
    wanted = parse_sites(sys.stdin.buffer.read(), "jobs")
    print(json.dumps(LeaseLimits(database).install(wanted, check=arguments.only_read)))


def parse_sites(text: bytes, value: str = "token") -> dict[str, Any]:
    """Return the {site: value} of a JSON text. Raise UsageError for invalid text, without any part of the text."""
    try:
        pairs = json.loads(text, object_pairs_hook=tuple)  # a dict would hide a repeated name
    except (ValueError, RecursionError) as error:
        raise UsageError(f"standard input must be JSON: {{site: {value}}}") from error
    if not isinstance(pairs, tuple):
        raise UsageError(f"standard input must be a JSON object: {{site: {value}}}")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UsageError("standard input has a site twice")
    return found


def token_table(rows: Sequence[dict[str, Any]], now: float) -> str:
    """Return rows of Tokens.rows() as a table, at most 100 columns wide."""
    cells = [("NAME", "KIND", "ORIGIN", "CREATED", "USED")]
    for row in rows:
        created = time.strftime("%Y-%m-%d", time.gmtime(row["created"]))
        cells.append((row["name"], row["kind"], row["origin"], created, _used(row["last_used"], now)))
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return "\n".join("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip() for line in cells)


def _used(last_used: int | None, now: float) -> str:
    """Return how long ago a token was used, in at most five characters."""
    if last_used is None:
        return "never"
    days = max(int(now - last_used), 0) // 86400
    return f"{days} d" if days < 1000 else f"{days // 365} y"


def _file_of(url: str) -> Path | None:
    """Return the SQLite file of the database at `url`; None for a database server. Raise ConfigError."""
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite" or parsed.database is None:
        return None
    return Path(parsed.database).absolute()


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _advice(error: Exception, path: Path, command: str) -> str:
    """Return the advice to use sudo if a file cannot be read: the role gives the directory the service's group."""
    if not isinstance(error.__cause__, PermissionError):
        return ""
    try:
        name = grp.getgrgid(path.parent.stat().st_gid).gr_name
    except (OSError, KeyError):
        name = "root"
    if name == "root":
        return "; run this as the service's user"
    return f"; run this as the service's user, with: sudo -u {name} {command}"


def _failed(message: str, status: int = 2) -> int:
    print(f"glidein-demand: {message}", file=sys.stderr)
    return status


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"glidein-demand: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="glidein-demand", description="The demand server of glidein.ops.")
    parser.add_argument("--version", action="version", version=f"glidein-demand {__version__}")
    parser.add_argument("--config", help=f"configuration file ({DEFAULT_CONFIG}, if it exists)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _command(commands, "serve", _serve, "run the server")
    _command(commands, "check", _check, "check the configuration")
    pause = _command(commands, "pause", _pause, "set every lease to zero, so that no more glideins are submitted")
    pause.add_argument("--reason", default="", metavar="TEXT", help="shown on the status page")
    pause.add_argument("--show", dest="only_read", action="store_true", help="only print the state as JSON")
    _command(commands, "resume", _resume, "grant leases again")
    token = commands.add_parser("token", help="create, revoke and list the tokens of sites and readers")
    actions = token.add_subparsers(required=True, metavar="ACTION")
    create = _command(actions, "create", _token_create, "create a token and print it, only this once")
    create.add_argument("name", metavar="NAME", help="the site's name, or the reader's")
    create.add_argument(
        "--reader", dest="kind", action="store_const", const="reader", default="site",
        help="a token that may read all data, and may not lease or report",
    )  # fmt: skip
    revoke = _command(actions, "revoke", _token_revoke, "revoke a token")
    revoke.add_argument("name", metavar="NAME")
    listing = _command(actions, "list", _token_list, "list the tokens")
    listing.add_argument("--json", action="store_true", help="print JSON")
    sync = _command(
        actions, "sync", _token_sync,
        'read {"site": "token"} from standard input, and install exactly these tokens; '
        "null revokes a site's token, also one made by hand",
    )  # fmt: skip
    limits = _command(
        commands, "lease-limits", _lease_limits,
        'read {"site": jobs} from standard input: the most jobs that each site may lease; no limit for other sites',
    )  # fmt: skip
    for command in (sync, limits):
        command.add_argument("--check", dest="only_read", action="store_true", help="only print the change")
    return parser


def _command(commands: Any, name: str, run: Any, purpose: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=purpose, description=purpose)
    command.set_defaults(run=run, only_read=False)
    # Allowed after the command, too. Without it there, a --config before the command counts.
    command.add_argument("--config", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return command
