"""Every operation becomes a route; nothing else is below the prefix but where GitHub posts what happened."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

from flask import Flask, Request, Response, current_app, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from perfci.auth.permissions import Actor
from perfci.config import Settings
from perfci.net.jwks import IssuerKeys
from perfci.store import Store
from perfci_web.api import problems
from perfci_web.api.dispatch import Serving, Writer, answer
from perfci_web.api.operation import PREFIX, Operation
from perfci_web.api.operation_table import ALL
from perfci_web.api.path_parameters import CONVERTERS
from perfci_web.api.problems import Declined
from perfci_web.api.rate_limit import Allowance
from perfci_web.api.request_body import MIB, Bodies
from perfci_web.request_id import request_id


def install(
    app: Flask,
    store: Store,
    *,
    identify: Callable[[Request], Actor],
    clock: Callable[[], datetime],
    settings: Settings,
) -> None:
    """Serve every operation of the table from a store."""
    server = settings.server
    serving = Serving(
        store=store,
        group=Writer(store),
        identify=identify,
        clock=clock,
        settings=settings,
        keys=IssuerKeys(settings.access.issuer, clock),
        bodies=Bodies(wire=int(server.max_body_mb * MIB), inflated=int(server.max_inflated_mb * MIB)),
        requests=Allowance(server.requests_per_minute),
        uploads=Allowance(server.uploads_per_minute_mb * MIB),
    )
    app.extensions["perfci_api"] = serving
    app.url_map.converters |= CONVERTERS
    for operation in ALL:
        view = partial(_view, serving, operation)
        methods = [operation.method]
        app.add_url_rule(
            operation.path, f"api.{operation.name}", view, methods=methods, provide_automatic_options=False
        )
    for word in problems.WORDS:
        app.add_url_rule(problems.PAGES + word, f"problem.{word}", partial(_explained, word))
    app.register_error_handler(Declined, lambda error: problems.response_of(error, request_id()))


def is_api(asked: Request) -> bool:
    return asked.path == PREFIX or asked.path.startswith(PREFIX + "/")


def http_problem(error: HTTPException) -> Response:
    """What the framework refused below the prefix, in the words of the API."""
    if isinstance(error, MethodNotAllowed) and not _is_address(error.valid_methods or ()):
        error = NotFound()
    return problems.response_of(problems.of_http(error), request_id())


def _is_address(methods: Iterable[str]) -> bool:
    """Whether the address exists with any of these methods: a name that is misspelt in it is told only then."""
    adapter = current_app.create_url_adapter(request)
    assert adapter is not None
    for method in methods:
        with contextlib.suppress(NotFound, MethodNotAllowed):
            adapter.match(method=method)
            return True
    return False


def problem(word: str, detail: str) -> Response:
    return problems.response_of(Declined(word, detail), request_id())


def _view(serving: Serving, operation: Operation, **path: Any) -> Response:
    return answer(serving, operation, request, path, request_id())


def _explained(word: str) -> Response:
    """The page that the type of a problem names."""
    about = problems.WORDS[word]
    return Response(f"{about.status} {about.title}\n\n{about.text}\n", content_type="text/plain; charset=utf-8")
