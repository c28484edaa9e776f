"""A name for each request, so that an answer, a log line and an audit row can be found from one another."""

from __future__ import annotations

import re
import secrets

from flask import Flask, Response, g, request

REQUEST_ID_HEADER = "X-Request-Id"
WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{8,64}")
"""What a proxy may have named a request; anything else could be forged lines of a log."""


def request_id() -> str:
    if "request_id" not in g:
        given = request.headers.get(REQUEST_ID_HEADER, "")
        g.request_id = given if WELL_FORMED.fullmatch(given) else new_request_id()
    return str(g.request_id)


def new_request_id() -> str:
    return secrets.token_hex(8)


def init_app(app: Flask) -> None:
    @app.after_request
    def set_header(response: Response) -> Response:
        response.headers[REQUEST_ID_HEADER] = request_id()
        return response
