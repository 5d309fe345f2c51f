# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Flask application: the server of its settings, the blueprints and the request hooks."""

from __future__ import annotations

import time
from typing import Callable

import flask

from ..config import Settings
from ..server import Server
from ..values import MAX_BODY_BYTES
from . import request_hooks, routes
from .current import EXTENSION
from .errors import errors


def create_app(settings: Settings, clock: Callable[[], float] = time.time) -> flask.Flask:
    """Return the application of a new Server, `app.extensions[EXTENSION]`, whose periodic work does not run yet.

    Raise ConfigError if the database cannot be used.
    """
    app = flask.Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = request_hooks.STATIC_SECONDS
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    app.extensions[EXTENSION] = Server(settings, clock)
    for hook in (request_hooks.authenticate, request_hooks.require_token):
        app.before_request(hook)
    app.after_request(request_hooks.add_headers)
    for blueprint in (errors, routes.json_rpc, routes.api, routes.pages, routes.metrics):
        app.register_blueprint(blueprint)
    return app
