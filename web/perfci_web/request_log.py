"""One log line for each request: caller, path, status and duration. Never a query string, a body or a
token.
"""

from __future__ import annotations

import logging
import time

from flask import Flask, Response, g, request

from perfci_web.request_id import request_id

REQUEST_LOG = logging.getLogger("perfci.requests")

QUIET_PATHS = ("/healthz", "/readyz", "/metrics", "/static/")
"""Polled often: only their failures are logged."""


def init_app(app: Flask) -> None:
    @app.before_request
    def start_timer() -> None:
        g.began = time.monotonic()

    @app.after_request
    def log_request(response: Response) -> Response:
        if response.status_code < 500 and request.path.startswith(QUIET_PATHS):
            return response
        actor = getattr(g.get("actor"), "name", "")
        duration_ms = round((time.monotonic() - g.get("began", time.monotonic())) * 1000, 1)
        REQUEST_LOG.log(
            logging.ERROR if response.status_code >= 500 else logging.INFO,
            "%s %s %d in %.1f ms",
            request.method,
            request.path,
            response.status_code,
            duration_ms,
            extra={
                "request_id": request_id(),
                "method": request.method,
                "path": request.path,
                "actor": actor,
                "endpoint": request.endpoint or "",
                "status": response.status_code,
                "duration_ms": duration_ms,
                "sender": request.remote_addr or "",
                "sent_bytes": response.content_length or 0,
            },
        )
        return response
