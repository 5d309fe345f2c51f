# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The server of the current Flask application."""

from __future__ import annotations

import flask

from ..server import Server

EXTENSION = "glidein_demand"


def current_server() -> Server:
    """Return the server of the current Flask application."""
    server: Server = flask.current_app.extensions[EXTENSION]
    return server
