"""Routes of the API, one for every operation, and its answers to requests that match none of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from functools import partial

from flask import Flask, Request, Response, current_app, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound

from perfci.auth.permissions import Actor
from perfci.config import Settings
from perfci.net.jwks import IssuerKeys
from perfci.service.accounts.repository_ownership import FindAdministeredRepository
from perfci_web.api import problem_details
from perfci_web.api.export_streams import ExportLimiter
from perfci_web.api.operation import API_PREFIX
from perfci_web.api.operation_table import ALL_OPERATIONS
from perfci_web.api.problem_details import ProblemError
from perfci_web.api.rate_limit import RateLimiter
from perfci_web.api.request_pipeline import LARGE_BODY_BYTES, MIB, ApiContext, BodyReader, execute_operation
from perfci_web.application_context import WebContext


def register_api_routes(
    app: Flask,
    context: WebContext,
    *,
    identify: Callable[[Request], Actor],
    find_administered_repository: FindAdministeredRepository,
    settings: Settings,
) -> None:
    """Add a route for every operation of the table."""
    server = settings.server
    api_context = ApiContext(
        store=context.store,
        group_commit=context.group_commit,
        operations=ALL_OPERATIONS,
        identify=identify,
        clock=context.clock,
        settings=settings,
        secret_key=context.authenticator.secret_key,
        issuer_keys=IssuerKeys(settings.access.oidc_issuer),
        find_administered_repository=find_administered_repository,
        body_reader=BodyReader(
            max_wire_bytes=int(server.max_body_mb * MIB), max_inflated_bytes=int(server.max_inflated_mb * MIB)
        ),
        small_body_reader=BodyReader(max_wire_bytes=LARGE_BODY_BYTES, max_inflated_bytes=LARGE_BODY_BYTES),
        request_limiter=context.request_limiter,
        upload_limiter=RateLimiter(server.uploads_per_minute_mb * MIB),
        exports=ExportLimiter(),
    )
    for operation in ALL_OPERATIONS:
        view = partial(execute_operation, api_context, operation)
        methods = [operation.method]
        app.add_url_rule(
            operation.url_path,
            f"api.{operation.name}",
            view,
            methods=methods,
            provide_automatic_options=False,
        )
    for kind in problem_details.PROBLEM_KINDS:
        app.add_url_rule(
            problem_details.PROBLEM_PATH + kind, f"problem.{kind}", partial(_render_problem_page, kind)
        )
    app.register_error_handler(
        ProblemError, lambda error: problem_details.build_problem_response(error, g.request_id)
    )


def is_api_request(incoming: Request) -> bool:
    return incoming.path == API_PREFIX or incoming.path.startswith(API_PREFIX + "/")


def build_http_error_response(error: HTTPException) -> Response:
    """Return an error of the framework below the prefix as a problem document."""
    if isinstance(error, MethodNotAllowed) and not _has_operation(error.valid_methods or ()):
        error = NotFound()
    return problem_details.build_problem_response(problem_details.convert_http_error(error), g.request_id)


def _has_operation(methods: Iterable[str]) -> bool:
    """Whether the current address exists with any of these methods."""
    adapter = current_app.create_url_adapter(request)
    assert adapter is not None
    for method in methods:
        with contextlib.suppress(NotFound, MethodNotAllowed):
            adapter.match(method=method)
            return True
    return False


def _render_problem_page(kind: str) -> Response:
    """Render the page that the ``type`` of a problem document links to."""
    problem = problem_details.PROBLEM_KINDS[kind]
    text = f"{problem.status} {problem.title}\n\n{problem.text}\n"
    return Response(text, content_type="text/plain; charset=utf-8")
