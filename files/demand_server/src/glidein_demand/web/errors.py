# Copyright (c) 2026, the glidein.ops authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The responses to failed requests, by the type of the exception: one line of text, or a JSON-RPC error."""

from __future__ import annotations

import flask
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, MethodNotAllowed, RequestEntityTooLarge

from ..values import MAX_BODY_BYTES
from . import methods, responses

errors = flask.Blueprint("errors", __name__)


@errors.app_errorhandler(HTTPException)
def http_error(error: HTTPException) -> flask.Response:
    """Return the error that Flask or Werkzeug raised, such as 404."""
    return responses.error(error.code or 500, error.name)


@errors.app_errorhandler(MethodNotAllowed)
def method_not_allowed(error: MethodNotAllowed) -> flask.Response:
    """Return the error 405 with the methods that the path allows."""
    response = http_error(error)
    response.headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
    return response


@errors.app_errorhandler(RequestEntityTooLarge)
def too_large(_error: RequestEntityTooLarge) -> flask.Response:
    """Return the error 413 with the limit."""
    return responses.error(413, f"the request is larger than {MAX_BODY_BYTES} bytes")


@errors.app_errorhandler(SQLAlchemyError)
def database_error(error: SQLAlchemyError) -> flask.Response:
    """Log the database's message, and return the error 503."""
    flask.current_app.logger.error("database: %s", " ".join(str(error).split())[:300])
    return responses.unavailable(methods.NO_DATABASE)


@errors.app_errorhandler(Exception)
def internal_error(_error: Exception) -> flask.Response:
    """Log the traceback, and return the error 500 without details."""
    flask.current_app.logger.exception("request failed: %s %s", flask.request.method, ascii(flask.request.path)[:200])
    return responses.error(500, "Internal Server Error")
