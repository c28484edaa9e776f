"""Serve a request to the API: authenticate, authorize, parse, run the handler, always in this order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Any, get_origin

from flask import Request, Response
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError

from perfci.auth.permissions import (
    AccessDecision,
    AccessDenied,
    AccessRequirement,
    Actor,
    authorize,
    authorize_without_project,
)
from perfci.config import Settings, check_project_name
from perfci.model import PerfciError
from perfci.net.jwks import IssuerKeys
from perfci.net.shapes import InvalidField, RequestShape
from perfci.report.escaping import make_printable
from perfci.service.accounts.projects_and_members import ensure_project
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.projects import Project, find_project
from perfci.store.writes.group_commit import GroupCommitter, StoreUnavailable
from perfci_web.api.calls import Call, Reply
from perfci_web.api.etags import build_etag, matches_etag
from perfci_web.api.operation import Operation
from perfci_web.api.problems import KIND_BY_STATUS, ProblemError, convert_validation_error
from perfci_web.api.rate_limit import RateLimiter
from perfci_web.api.request_body import BodyReader, RawBody, parse_body

NO_BODY = RawBody(b"", 0)


class EmptyQuery(RequestShape):
    """The query of an operation that takes none."""


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What all operations share: the store, the clock, the limits and the table of operations."""

    store: Store
    group_commit: GroupCommitter
    operations: tuple[Operation, ...]
    identify: Callable[[Request], Actor]
    clock: Callable[[], datetime]
    settings: Settings
    issuer_keys: IssuerKeys
    body_reader: BodyReader
    request_limiter: RateLimiter
    upload_limiter: RateLimiter


def handle_request(
    context: ApiContext, operation: Operation, request: Request, path: Mapping[str, Any], request_id: str
) -> Response:
    """Serve one request; refusals are raised as ``ProblemError``."""
    actor = _identify_actor(context, request)
    audit_context = AuditContext(actor, context.clock(), request_id)
    project = None
    if operation.is_project_scoped:
        project = _require_project(context, audit_context, str(path["project"]), operation.need)
    else:
        _require_allowed(authorize_without_project(actor, operation.need))
    etag = build_etag(project, request, actor) if operation.etag and project else ""
    if etag and matches_etag(etag, request):
        return _set_cache_headers(Response(status=304), etag)
    query = _parse_query(operation, request)
    headers = {name: request.headers[name] for name in operation.headers if name in request.headers}
    with ExitStack() as stack:
        raw = stack.enter_context(context.body_reader.read_body(request)) if operation.body else NO_BODY
        call = Call(
            store=context.store,
            group_commit=context.group_commit,
            actor=actor,
            project=project,
            path=path,
            query=query,
            body=parse_body(raw.body, operation.body) if operation.body else None,
            now=audit_context.at,
            request_id=request_id,
            require_project=lambda slug, need: _require_project(
                context, audit_context, slug, need, raw.wire_bytes, may_create=True
            ),
            raw_body=raw.body,
            headers=headers,
            revision=_parse_revision(request) if operation.revision else 0,
            settings=context.settings,
            find_signing_key=context.issuer_keys.get_key,
            operations=context.operations,
        )
        return _set_cache_headers(_build_response(_run_handler(operation, call)), etag)


def _identify_actor(context: ApiContext, request: Request) -> Actor:
    """Identify the caller and count the request against their rate limit."""
    address = f"address:{request.remote_addr}"
    try:
        actor = context.identify(request)
    except AccessDenied as error:
        _take_allowance(context.request_limiter, address)
        raise ProblemError(KIND_BY_STATUS[error.status], str(error)) from None
    if actor.kind != "local":
        _take_allowance(context.request_limiter, actor.name or address)
    return actor


def _take_allowance(limiter: RateLimiter, caller: str, amount: float = 1.0) -> None:
    if wait := limiter.take_or_wait_s(caller, amount):
        raise ProblemError(
            "rate-limited",
            f"Too much in one minute: try again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )


def _require_project(
    context: ApiContext,
    audit_context: AuditContext,
    slug: str,
    need: AccessRequirement,
    body_bytes: int = 0,
    *,
    may_create: bool = False,
) -> Project:
    """Return a project if the actor may do this with it.

    ``may_create`` adds a project that an upload names first.
    """
    with context.store.read() as tx:
        project = find_project(tx, slug)
    if (
        project is None
        and may_create
        and need is AccessRequirement.WRITE_RESULTS
        and authorize(audit_context.actor, None, AccessRequirement.SERVER).allowed
    ):
        name = check_project_name(slug)
        project = context.group_commit.submit(lambda tx: ensure_project(tx, audit_context, name))
    _require_allowed(authorize(audit_context.actor, project, need))
    assert project is not None
    if need is AccessRequirement.WRITE_RESULTS and audit_context.actor.kind != "local":
        _take_allowance(context.upload_limiter, slug, body_bytes)
    return project


def _require_allowed(decision: AccessDecision) -> None:
    if not decision.allowed:
        raise ProblemError(KIND_BY_STATUS[decision.status], decision.reason)


def _parse_query(operation: Operation, request: Request) -> BaseModel:
    shape = operation.query or EmptyQuery
    try:
        return shape.model_validate(_query_values(shape, request))
    except ValidationError as error:
        raise convert_validation_error(error, "The query does not fit") from None


def _query_values(model: type[BaseModel], request: Request) -> dict[str, Any]:
    """Return the query as values; refuse unknown names, and repeated ones of single values."""
    if unknown := [name for name in request.args if name not in model.model_fields]:
        known_names = ", ".join(model.model_fields) or "nothing"
        field = InvalidField(
            location=make_printable(unknown[0], 60), message=f"is no name here, this takes {known_names}"
        )
        detail = f"The query does not fit: {field.location} {field.message}."
        raise ProblemError("bad-request", detail, errors=[field])
    values: dict[str, Any] = {}
    for name, texts in request.args.lists():
        if get_origin(model.model_fields[name].annotation) in (tuple, list):
            values[name] = texts
        elif len(texts) == 1:
            values[name] = texts[0]
        else:
            raise ProblemError("bad-request", "The query does not fit: a name is given twice.")
    return values


def _parse_revision(request: Request) -> int:
    header = request.headers.get("If-Match", "")
    if not header:
        raise ProblemError(
            "revision-missing", 'The header If-Match: "<revision>" is missing: send the one you saw.'
        )
    text = header.strip('"')
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ProblemError("bad-request", 'The header If-Match was expected to be a revision such as "3".')
    return int(text)


def _run_handler(operation: Operation, call: Call) -> Reply:
    try:
        return operation.handler(call)
    except StoreUnavailable as error:
        wait = {"Retry-After": str(math.ceil(error.retry_after))}
        detail = call.store.hide_address(str(error), "of this server")
        raise ProblemError("unavailable", detail, headers=wait) from error
    except AccessDenied as error:
        raise ProblemError(KIND_BY_STATUS[error.status], str(error)) from error
    except PerfciError as error:
        # A database that is gone or busy for a moment is no mistake of the client.
        kind = "unavailable" if isinstance(error.__cause__, SQLAlchemyError) else "conflict"
        raise ProblemError(kind, call.store.hide_address(str(error), "of this server")) from error


def _build_response(reply: Reply) -> Response:
    if reply.value is None:
        return Response(status=204 if reply.status == 200 else reply.status, headers=dict(reply.headers))
    if isinstance(reply.value, BaseModel):
        body: Any = reply.value.model_dump_json(exclude_none=True)
    else:
        body = reply.value
    streams = not isinstance(body, str | bytes)
    return Response(
        body,
        reply.status,
        headers=dict(reply.headers),
        content_type=reply.content_type,
        direct_passthrough=streams,
    )


def _set_cache_headers(response: Response, etag: str) -> Response:
    """Keep answers out of shared caches; an ETag allows revalidation."""
    if etag and response.status_code in (200, 304):
        response.set_etag(etag, weak=True)
        response.headers.setdefault("Cache-Control", "private, no-cache")
    else:
        response.headers.setdefault("Cache-Control", "no-store")
    response.vary.update(("Authorization", "Cookie"))
    return response
