"""Answer errors: to a browser as a page, to the API and to whoever asks for JSON as a problem document."""

from __future__ import annotations

from flask import Flask, Request, Response, g, render_template, request
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import BadRequest, HTTPException, MethodNotAllowed, NotFound, TooManyRequests

from perfci.auth.permissions import AccessDenied
from perfci.model import PerfciError
from perfci.store import Store
from perfci_web import page_access, url_lookups
from perfci_web.api import routes as api
from perfci_web.api.problem_details import KIND_BY_STATUS, ProblemError, build_problem_response
from perfci_web.application_context import web_context
from perfci_web.url_lookups import PageNotFound

ErrorAnswer = Response | tuple[str, int] | tuple[str, int, dict[str, str]]

PAGE_TYPES = ("text/html", "application/json", "application/problem+json")
"""What an error is answered in; where all are welcome, as a page."""


def wants_json(received: Request) -> bool:
    """Whether the address is that of a JSON document, or the header Accept prefers JSON to a page."""
    return received.path.endswith(".json") or received.accept_mimetypes.best_match(PAGE_TYPES) not in (
        "text/html",
        None,
    )


def build_json_error(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    """Build the problem document of an error outside the API."""
    kind = KIND_BY_STATUS.get(status, "bad-request" if status < 500 else "internal-error")
    return build_problem_response(ProblemError(kind, text, headers=headers), g.request_id)


def register_error_handlers(app: Flask, store: Store) -> None:
    """Register the answers to refused requests, missing pages, an unreadable store and errors of HTTP."""
    app.register_error_handler(AccessDenied, _answer_denied)
    app.register_error_handler(PageNotFound, _answer_not_found)
    app.register_error_handler(HTTPException, _answer_http_error)
    app.register_error_handler(ParseException, _answer_malformed_body)

    @app.errorhandler(NotFound)
    def answer_unknown_path(error: NotFound) -> ErrorAnswer:
        if api.is_api_request(request):
            return api.build_http_error_response(error)
        if request.path.startswith("/static/"):
            return Response(f"{error.description}\n", 404, content_type="text/plain; charset=utf-8")
        return _answer_not_found(url_lookups.build_unknown_path_error(store, request.path))

    @app.errorhandler(PerfciError)
    def answer_perfci_error(error: PerfciError) -> ErrorAnswer:
        text = store.hide_address(str(error), "behind this dashboard")
        if api.is_api_request(request) or wants_json(request):
            return build_json_error(503, text)
        return render_template("layout/error.html", title="The store cannot be read", text=text), 503


def _answer_denied(error: AccessDenied) -> ErrorAnswer:
    if wants_json(request):
        return build_json_error(error.status, str(error))
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    title = "Not logged in" if error.status == 401 else "Not allowed"
    text = render_template("layout/error.html", title=title, text=str(error), status=error.status)
    return text, error.status, headers


def _answer_not_found(error: PageNotFound) -> ErrorAnswer:
    """Answer 404; a page has the tabs of the project that the path lies in."""
    context = web_context()
    page_access.charge_for_missing_page(context)
    if wants_json(request):
        return build_json_error(404, error.text)
    project = url_lookups.find_visible_project_of_path(context.store, request.path)
    links = url_lookups.build_project_links(project) if project else None
    return render_template("layout/not_found.html", error=error, project_name=project, links=links), 404


def _answer_http_error(error: HTTPException) -> ErrorAnswer | HTTPException:
    if error.code is None or error.code < 400:
        return error
    if api.is_api_request(request):
        return api.build_http_error_response(error)
    text = error.description or ""
    headers = {"Retry-After": str(error.retry_after)} if isinstance(error, TooManyRequests) else {}
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    if wants_json(request):
        return build_json_error(error.code, text, headers)
    if error.code in (403, 429):
        return Response(f"{text}\n", error.code, headers, content_type="text/plain; charset=utf-8")
    return render_template("layout/error.html", title=error.name, text=text), error.code, headers


def _answer_malformed_body(error: ParseException) -> ErrorAnswer | HTTPException:
    """Answer a body whose chunks are none, which shows only as it is read."""
    return _answer_http_error(BadRequest("The body is malformed."))
