# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Flask application: its blueprints, request hooks and JSON-RPC methods."""

from __future__ import annotations

import flask

from ..app_state import AppState
from ..graphite_exporter import GraphiteExporter
from . import request_hooks, routes
from .app_services import EXTENSION, AppServices
from .errors import errors
from .methods import Methods
from .metrics import Metrics
from .operation_metrics import OperationMetrics
from .rate_limit import RateLimit
from .read_results import ReadResults


def create_app(parts: AppState, results: ReadResults, graphite: GraphiteExporter) -> flask.Flask:
    """Return the Flask application for the server's state, `parts`, and its cached results."""
    app = flask.Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = parts.settings.max_body_bytes
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = request_hooks.STATIC_SECONDS
    app.jinja_options = {"trim_blocks": True, "lstrip_blocks": True}
    operation = OperationMetrics(parts, results, graphite)
    rate = RateLimit(parts.settings.max_requests_per_minute)
    methods = Methods(parts, results)
    app.extensions[EXTENSION] = AppServices(parts, results, rate, Metrics(parts, operation), methods)
    for hook in (request_hooks.authenticate, request_hooks.limit_rate, request_hooks.require_token):
        app.before_request(hook)
    app.after_request(request_hooks.add_headers)
    for blueprint in (errors, routes.json_rpc, routes.api, routes.pages, routes.metrics):
        app.register_blueprint(blueprint)
    return app
