# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `glidein-demand`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path

import waitress

from . import __version__, reader
from .auth import read_token
from .config import ConfigError, Settings, load
from .refresh import Refresher
from .state import State
from .web import create_app

DEFAULT_CONFIG = "/etc/glidein-demand/config.toml"


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 when asked to end, 2 when the configuration cannot be used (one line on stderr)."""
    arguments = _parser().parse_args(argv)
    try:
        settings, token = _checked(Path(arguments.config))
        if arguments.command == "check":
            return 0
        return serve(settings, token)
    except ConfigError as error:
        print(f"glidein-demand: {error}", file=sys.stderr)
        return 2


def serve(settings: Settings, token: str) -> int:
    """Refresh in the background and answer requests until SIGTERM or SIGINT."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    # pjrpc logs the parameters of failed calls at INFO: callers' data does not belong in the log.
    logging.getLogger("pjrpc").setLevel(logging.WARNING)
    state = State(settings.max_age_seconds, settings.max_sites)
    app = create_app(state, settings, token)
    try:
        server = waitress.create_server(
            app,
            listen=f"{_listen_host(settings.bind)}:{settings.port}",
            threads=settings.threads,
            ident=None,
            # The application refuses earlier and says so in JSON; this only bounds what is read before that.
            max_request_body_size=4 * settings.max_body_bytes,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"server.bind = {settings.bind!r}, server.port = {settings.port}: cannot listen: {reason}; "
            "must be an address of this host and a free port"
        ) from error
    signal.signal(signal.SIGTERM, _end)
    refresher = Refresher(settings, state, reader.read)
    refresher.start()
    logging.getLogger(__name__).info(
        "version %s listens on %s:%s, refresh every %s s", __version__, settings.bind, settings.port,
        settings.refresh_seconds,
    )  # fmt: skip
    try:
        server.run()
    finally:
        refresher.stop()
        server.close()
    return 0


def _checked(path: Path) -> tuple[Settings, str]:
    """Settings and token, with the constraint tried as well; ConfigError if anything cannot be used."""
    settings = load(path)
    try:
        token = read_token(settings.token_file)
        if settings.constraint:
            reader.read({"what": "check", "constraint": settings.constraint}, settings.query_timeout_seconds)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    except reader.ReadError as error:
        raise ConfigError(
            f"{path}: pool.constraint = {settings.constraint!r}: {error}; must be a ClassAd expression, or empty"
        ) from error
    return settings, token


def _listen_host(bind: str) -> str:
    return f"[{bind}]" if ":" in bind and not bind.startswith("[") else bind


def _end(_signal: int, _frame: object) -> None:
    raise SystemExit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="glidein-demand", description="The demand server of glidein.ops.")
    parser.add_argument("--version", action="version", version=f"glidein-demand {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, purpose in (("serve", "run the server"), ("check", "check the configuration and end")):
        command = commands.add_parser(name, help=purpose)
        command.add_argument("--config", default=DEFAULT_CONFIG, help=f"configuration file ({DEFAULT_CONFIG})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
