"""An id for each request, which its answer, its log line and its audit entries share."""

from __future__ import annotations

import re
import secrets

from flask import Flask, Response, g, request

REQUEST_ID_HEADER = "X-Request-Id"
WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{8,64}")
"""An id accepted from a proxy; anything else could forge log lines."""


def request_id() -> str:
    if "request_id" not in g:
        sent_id = request.headers.get(REQUEST_ID_HEADER, "")
        g.request_id = sent_id if WELL_FORMED.fullmatch(sent_id) else new_request_id()
    return str(g.request_id)


def new_request_id() -> str:
    return secrets.token_hex(8)


def init_app(app: Flask) -> None:
    @app.after_request
    def set_header(response: Response) -> Response:
        response.headers[REQUEST_ID_HEADER] = request_id()
        return response
