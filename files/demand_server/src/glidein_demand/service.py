# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run of the server, and the check of its configuration."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import flask

from . import __version__, background
from .config import DEFAULT_CONFIG, ConfigError, Settings, load
from .pool.queries import QueryError
from .pool.queries import run as run_query
from .server import Server
from .store.database import check_url
from .web.app import EXTENSION, create_app
from .web.http_server import HttpServer

log = logging.getLogger(__name__)


def check(settings: Settings) -> None:
    """Raise ConfigError if the constraint or the URL of the database is invalid. Open neither database nor port."""
    check_url(settings.state.database)
    if settings.pool.constraint:
        try:
            run_query({"type": "check", "constraint": settings.pool.constraint}, settings.pool.query_timeout_seconds)
        except QueryError as error:
            raise ConfigError(
                f"pool.constraint = {settings.pool.constraint!r}: {error}; must be a ClassAd expression, or empty"
            ) from error


def run(settings: Settings) -> int:
    """Query the pool in the background, serve requests until SIGTERM or SIGINT, and return 0. Raise ConfigError."""
    log_to_stderr()
    check(settings)
    app = create_app(settings)
    server: Server = app.extensions[EXTENSION]
    try:
        http = HttpServer(app, settings)
        log.info(
            "version %s listens on %s:%s, refresh every %s s",
            __version__, settings.server.bind, settings.server.port, settings.pool.refresh_seconds,
        )  # fmt: skip
        server.start(background.threads(server))
        http.run()
    finally:
        server.stop()
    return 0


def wsgi() -> flask.Flask:
    """Return the application for a WSGI runner with one process and several threads; its periodic work runs.

    The environment variable GLIDEIN_DEMAND_CONFIG names the configuration file.
    """
    app = create_app(load(Path(os.environ.get("GLIDEIN_DEMAND_CONFIG", DEFAULT_CONFIG))))
    server: Server = app.extensions[EXTENSION]
    server.start(background.threads(server))
    return app


def log_to_stderr() -> None:
    """Log to stderr from level INFO on; systemd adds the time."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    # It logs a line for each invalid request.
    logging.getLogger("waitress").setLevel(logging.ERROR)
