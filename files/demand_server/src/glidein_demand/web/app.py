# Copyright: (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Flask application: its blueprints, and the steps that each request takes."""

from __future__ import annotations

import flask

from ..app_state import AppState
from . import routes, rpc, steps
from .context import EXTENSION, Context
from .limits import RateLimit
from .methods import Methods
from .metrics import Metrics
from .views import Views


def create_app(parts: AppState, views: Views) -> flask.Flask:
    """Return the application over `parts`, whose large results come from `views`."""
    app = flask.Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = parts.settings.max_body_bytes
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = steps.STATIC_SECONDS
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    dispatcher = rpc.new_dispatcher()
    dispatcher.add_methods(Methods(parts, views).registry())
    rate = RateLimit(parts.settings.max_requests_per_minute)
    app.extensions[EXTENSION] = Context(parts, views, rate, Metrics(parts), dispatcher)
    for step in (steps.authenticate, steps.limit_rate, steps.require_token):
        app.before_request(step)
    app.after_request(steps.add_headers)
    app.register_error_handler(Exception, steps.answer_error)
    for blueprint in (routes.rpc, routes.api, routes.pages, routes.metrics):
        app.register_blueprint(blueprint)
    return app
