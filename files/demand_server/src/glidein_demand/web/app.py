# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Flask application: the server of its settings, the blueprints and the request hooks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Callable

import flask

from .. import background, config
from ..server import Server
from . import request_hooks, routes
from .current import EXTENSION
from .errors import errors


def create_app(settings: config.Settings, clock: Callable[[], float] = time.time) -> flask.Flask:
    """Return the application of a new Server, `app.extensions[EXTENSION]`, whose periodic work does not run yet.

    Raise ConfigError if the database cannot be used.
    """
    app = flask.Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = request_hooks.STATIC_SECONDS
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.extensions[EXTENSION] = Server(settings, clock)
    for hook in (request_hooks.authenticate, request_hooks.require_token):
        app.before_request(hook)
    app.after_request(request_hooks.add_headers)
    for blueprint in (errors, routes.json_rpc, routes.api, routes.pages, routes.metrics):
        app.register_blueprint(blueprint)
    return app


def wsgi() -> flask.Flask:
    """Return the application for a WSGI runner with one process and several threads; its periodic work runs.

    The environment variable GLIDEIN_DEMAND_CONFIG names the configuration file. If the database is lost, the process
    ends with status 1.
    """
    app = create_app(config.load(Path(os.environ.get("GLIDEIN_DEMAND_CONFIG", config.DEFAULT_CONFIG))))
    server: Server = app.extensions[EXTENSION]
    server.start(background.threads(server, on_lost=lambda: os._exit(1)))
    return app
