"""The steps of a request to the API, always in this order: identify, authorize, parse, run, respond."""

from __future__ import annotations

import math
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import Any, NoReturn, get_origin

from flask import Request, Response, g, request
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import ClientDisconnected

from perfci import __version__
from perfci.auth.permissions import (
    ANONYMOUS,
    AccessDenied,
    AccessRequirement,
    Actor,
    decide_access,
    decide_access_before_body,
)
from perfci.config import Settings, check_project_name
from perfci.formats.run_document import JsonTooLarge, require_json_limits
from perfci.model import PerfciError
from perfci.net.api_schemas import InvalidField, RequestShape
from perfci.net.jwks import IssuerKeys
from perfci.report.escaping import make_printable
from perfci.service.accounts.projects_members_tokens import ensure_project
from perfci.service.accounts.repository_ownership import FindAdministeredRepository
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.projects import Project, find_project
from perfci.store.transactions import StoreUnavailable
from perfci.store.writes.group_commit import GroupCommitter
from perfci_web.api.export_streams import ExportLimiter
from perfci_web.api.operation import Call, Operation, Reply
from perfci_web.api.problem_details import KIND_BY_STATUS, ProblemError, convert_validation_error
from perfci_web.api.rate_limit import RateLimiter

MIB = 1024 * 1024
CHUNK_BYTES = 64 * 1024
GZIP_WINDOW_BITS = 31  # zlib's code for: gzip format only
LARGE_BODY_BYTES = MIB
"""Bodies beyond this size take about ten times as much memory in Python: only a few are parsed at once."""
MAX_LARGE_BODIES = 2
DRAIN_FACTOR = 4
"""A refused body is read up to this multiple of the limit: closing earlier would reset the connection, and
the client would not see the answer."""

EXPORT_NEEDS_LOGIN = (
    "An export is for those who send a token or log in: it takes long. "
    "Setting [access] public_exports gives it to everybody."
)


@dataclass(frozen=True, slots=True)
class ApiContext:
    """What all operations share: the store, the clock, the limits and the table of operations."""

    store: Store
    group_commit: GroupCommitter
    operations: tuple[Operation, ...]
    identify: Callable[[Request], Actor]
    clock: Callable[[], datetime]
    settings: Settings
    secret_key: str
    issuer_keys: IssuerKeys
    find_administered_repository: FindAdministeredRepository
    body_reader: BodyReader
    small_body_reader: BodyReader
    request_limiter: RateLimiter
    upload_limiter: RateLimiter
    exports: ExportLimiter


def execute_operation(context: ApiContext, operation: Operation, **path: Any) -> Response:
    """Execute an operation for the current request; refusals are raised as ``ProblemError``."""
    actor = _identify_actor(context, operation)
    if operation.is_export and actor.kind == "anonymous" and not context.settings.access.public_exports:
        raise ProblemError("unauthorized", EXPORT_NEEDS_LOGIN)
    audit_context = AuditContext(actor, context.clock(), g.request_id)
    project, etag = None, ""
    if "project" in path:
        project = _require_project(context, audit_context, path["project"], operation.need)
        etag = _build_etag(project, actor) if operation.etag else ""
        if etag and request.if_none_match.contains_weak(etag):
            return _build_response(Reply(None, 304), etag)
    elif not (decision := decide_access_before_body(actor, operation.need)).allowed:
        raise ProblemError(KIND_BY_STATUS[decision.status], decision.reason)
    query = _parse_query(operation)
    # Runs may be large; what else is sent is small.
    is_small = operation.body is not None and issubclass(operation.body, RequestShape)
    reader = context.small_body_reader if is_small else context.body_reader
    with reader.read_body(request) if operation.body else nullcontext(NO_BODY) as raw:
        call = Call(
            store=context.store,
            group_commit=context.group_commit,
            audit_context=audit_context,
            project=project,
            path=path,
            query=query,
            body=parse_json_body(raw.body, operation.body) if operation.body else None,
            require_project=lambda slug, need: _require_project(
                context, audit_context, slug, need, raw.wire_bytes, may_create=True
            ),
            raw_body=raw.body,
            headers={name: request.headers[name] for name in operation.headers if name in request.headers},
            revision=_parse_revision() if operation.revision else 0,
            settings=context.settings,
            secret_key=context.secret_key,
            find_signing_key=context.issuer_keys.get_key,
            find_administered_repository=context.find_administered_repository,
            operations=context.operations,
        )
        reply = _run_handler(operation, call)
        if operation.is_export and isinstance(reply.value, Iterator):
            reply = replace(reply, value=context.exports.open_stream(reply.value))
        return _build_response(reply, etag)


def _identify_actor(context: ApiContext, operation: Operation) -> Actor:
    """Identify the caller and count the request against their rate limit."""
    address = f"address:{request.remote_addr}"
    try:
        actor = context.identify(request)
    except AccessDenied as error:
        context.request_limiter.require_allowance(address)
        is_unknown = error.status == 401 and "Authorization" not in request.headers
        if is_unknown and operation.serves_unknown:
            return ANONYMOUS
        raise ProblemError(KIND_BY_STATUS[error.status], str(error)) from None
    if actor.kind != "local":
        context.request_limiter.require_allowance(actor.name or address)
    return actor


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
    actor = audit_context.actor
    with context.store.read() as tx:
        project = find_project(tx, slug)
    is_upload = need is AccessRequirement.WRITE_RESULTS
    if (
        project is None
        and may_create
        and is_upload
        and decide_access(actor, None, AccessRequirement.SERVER).allowed
    ):
        name = check_project_name(slug)
        project = context.group_commit.submit(lambda tx: ensure_project(tx, audit_context, name))
    decision = decide_access(actor, project, need)
    if not decision.allowed:
        raise ProblemError(KIND_BY_STATUS[decision.status], decision.reason)
    assert project is not None
    if is_upload and actor.kind != "local":
        context.upload_limiter.require_allowance(slug, body_bytes)
    return project


def _build_etag(project: Project, actor: Actor) -> str:
    """Build the tag of a project's version, of the request, and of what its caller may see.

    The version stands for the data of the project, which is not read for a tag.
    """
    key = "\n".join(
        (__version__, request.full_path, request.headers.get("Accept", ""), actor.visibility_cache_key)
    )
    return f"{project.version}-{sha256(key.encode()).hexdigest()[:16]}"


class EmptyQuery(RequestShape):
    """The query of an operation that takes none."""


def _parse_query(operation: Operation) -> BaseModel:
    """Parse the query; unknown names, and repeated ones of single values, are refused."""
    shape = operation.query or EmptyQuery
    if unknown := [name for name in request.args if name not in shape.model_fields]:
        known_names = ", ".join(shape.model_fields) or "nothing"
        field = InvalidField(
            location=make_printable(unknown[0], 60), message=f"is no name here, this takes {known_names}"
        )
        detail = f"The query does not fit: {field.location} {field.message}."
        raise ProblemError("bad-request", detail, errors=[field])
    values: dict[str, Any] = {}
    for name, texts in request.args.lists():
        if get_origin(shape.model_fields[name].annotation) in (tuple, list):
            values[name] = texts
        elif len(texts) == 1:
            values[name] = texts[0]
        else:
            raise ProblemError("bad-request", "The query does not fit: a name is given twice.")
    try:
        return shape.model_validate(values)
    except ValidationError as error:
        raise convert_validation_error(error, "The query does not fit") from None


def parse_json_body(raw: bytes, model: type[BaseModel]) -> BaseModel:
    """Parse a body into its model; faults are reported with their location."""
    try:
        # Before pydantic, whose parser takes several hundred bytes for an empty list, and for each fault.
        require_json_limits(raw, "The body")
        return model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise convert_validation_error(error, "The body does not fit") from None
    except JsonTooLarge as error:
        raise ProblemError("too-large", str(error)) from None
    except PerfciError as error:
        raise ProblemError("bad-request", str(error)) from None


def _parse_revision() -> int:
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
    except AccessDenied as error:
        raise ProblemError(KIND_BY_STATUS[error.status], str(error)) from error
    except PerfciError as error:
        kind, headers = "conflict", {}
        if isinstance(error, StoreUnavailable):
            kind, headers = "unavailable", {"Retry-After": str(math.ceil(error.retry_after))}
        elif isinstance(error.__cause__, SQLAlchemyError):
            # A database that is gone or busy for a moment is no mistake of the client.
            kind = "unavailable"
        detail = call.store.hide_address(str(error), "of this server")
        raise ProblemError(kind, detail, headers=headers) from error


def _build_response(reply: Reply, etag: str) -> Response:
    """Build the response; it stays out of shared caches, and with an ETag it can be revalidated."""
    body: Any = reply.value
    if isinstance(body, BaseModel):
        body = body.model_dump_json(exclude_none=True)
    if body is None:
        response = Response(status=204 if reply.status == 200 else reply.status, headers=dict(reply.headers))
    else:
        response = Response(
            body,
            reply.status,
            headers=dict(reply.headers),
            content_type=reply.content_type,
            direct_passthrough=not isinstance(body, str | bytes),
        )
    if etag and response.status_code in (200, 304):
        response.set_etag(etag, weak=True)
        response.headers.setdefault("Cache-Control", "private, no-cache")
    else:
        response.headers.setdefault("Cache-Control", "no-store")
    response.vary.update(("Authorization", "Cookie"))
    return response


@dataclass(frozen=True, slots=True)
class RawBody:
    """An inflated body, and its size on the wire in bytes."""

    body: bytes
    wire_bytes: int


NO_BODY = RawBody(b"", 0)


class BodyReader:
    """Reads bodies within limits that hold for the whole process: of their size first, then of what they
    inflate to.
    """

    def __init__(self, *, max_wire_bytes: int, max_inflated_bytes: int) -> None:
        self._wire, self._inflated = max_wire_bytes, max_inflated_bytes
        self._big = threading.BoundedSemaphore(MAX_LARGE_BODIES)

    @contextmanager
    def read_body(self, request: Request) -> Iterator[RawBody]:
        """Yield the body; a large one holds its slot until the end of the block."""
        if request.mimetype != "application/json":
            sent_type = request.mimetype[:80] or "none"
            self._refuse(
                request, "media-type", f"A body of type application/json was expected, found {sent_type}."
            )
        encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise ProblemError("media-type", "A body is taken plain or with Content-Encoding gzip.")
        too_large = f"A body of at most {self._wire / MIB:g} MiB is taken."
        if (request.content_length or 0) > self._wire:
            self._refuse(request, "too-large", too_large)
        try:
            wire = request.stream.read(self._wire + 1)
        except ClientDisconnected:
            raise ProblemError("bad-request", "The body ended before its Content-Length.") from None
        except OSError:
            raise ProblemError("bad-request", "The body is incomplete.") from None
        if len(wire) < (request.content_length or 0):  # gunicorn leaves it to us to notice
            raise ProblemError("bad-request", "The body ended before its Content-Length.")
        if len(wire) > self._wire:
            self._refuse(request, "too-large", too_large)
        with ExitStack() as stack:
            plain = wire
            if encoding == "gzip":
                plain = self._inflate(wire, stack)
            elif len(wire) > LARGE_BODY_BYTES:
                self._reserve_large_slot(stack)
            yield RawBody(plain, len(wire))

    def _refuse(self, request: Request, kind: str, detail: str) -> NoReturn:
        """Refuse a body after reading on, up to ``DRAIN_FACTOR`` times the limit."""
        left = DRAIN_FACTOR * self._wire
        with suppress(ClientDisconnected, OSError):
            while left > 0 and (chunk := request.stream.read(min(CHUNK_BYTES, left))):
                left -= len(chunk)
        raise ProblemError(kind, detail)

    def _inflate(self, wire: bytes, stack: ExitStack) -> bytes:
        """Inflate in steps; one gzip member, and nothing after it."""
        unpacker = zlib.decompressobj(GZIP_WINDOW_BITS)
        parts: list[bytes] = []
        size = 0
        for start in range(0, len(wire), CHUNK_BYTES):
            for chunk in _inflate_chunks(unpacker, wire[start : start + CHUNK_BYTES]):
                before, size = size, size + len(chunk)
                if size > self._inflated:
                    raise ProblemError(
                        "too-large", f"A body may unpack to at most {self._inflated / MIB:g} MiB."
                    )
                if before <= LARGE_BODY_BYTES < size:
                    self._reserve_large_slot(stack)
                parts.append(chunk)
            if unpacker.eof:
                if unpacker.unused_data or start + CHUNK_BYTES < len(wire):
                    raise ProblemError("bad-request", "There is data after the end of the gzip body.")
                return b"".join(parts)
        raise ProblemError("bad-request", "The gzip body is incomplete.")

    def _reserve_large_slot(self, stack: ExitStack) -> None:
        if not self._big.acquire(blocking=False):
            raise ProblemError("unavailable", "Other large bodies are being read: try again.")
        stack.callback(self._big.release)


def _inflate_chunks(unpacker: Any, packed: bytes) -> Iterator[bytes]:
    """Inflate one chunk, yielding at most ``CHUNK_BYTES`` at a time."""
    try:
        while True:
            chunk = unpacker.decompress(packed, CHUNK_BYTES)
            packed = unpacker.unconsumed_tail
            yield chunk
            if unpacker.eof or (not packed and len(chunk) < CHUNK_BYTES):
                return
    except zlib.error:
        raise ProblemError("bad-request", "The body is no gzip, though Content-Encoding says so.") from None
