"""Problem documents (RFC 9457): the kinds of errors, and the conversion of exceptions into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flask import Response
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from perfci.net.api_schemas import InvalidField, ProblemDetails

MEDIA_TYPE = "application/problem+json"
PROBLEM_PATH = "/api/problems/"
MAX_FAULTS = 20
"""The most faults of a body that one answer lists."""


class ProblemKind(NamedTuple):
    """The status, title and general description of one kind of problem."""

    status: int
    title: str
    text: str


PROBLEM_KINDS: Mapping[str, ProblemKind] = {
    "bad-request": ProblemKind(
        400, "The request cannot be understood", "It does not have the shape that openapi.json describes."
    ),
    "unauthorized": ProblemKind(401, "Not authenticated", "The token is missing, wrong, expired or revoked."),
    "forbidden": ProblemKind(403, "Not allowed", "You are authenticated but lack the role for this."),
    "not-found": ProblemKind(404, "Not found", "There is nothing of this name, or you may not see it."),
    "method-not-allowed": ProblemKind(
        405, "Method not allowed", "The address takes other methods: see the header Allow."
    ),
    "conflict": ProblemKind(409, "Conflict", "The request contradicts what is stored, or itself."),
    "stale": ProblemKind(
        412, "Stale revision", "It changed meanwhile: read it again, and send its revision in If-Match."
    ),
    "too-large": ProblemKind(
        413, "Too large", "A body, or what it unpacks to, is larger than this server takes."
    ),
    "media-type": ProblemKind(
        415, "Unsupported media type", "Send JSON, plain or with Content-Encoding gzip."
    ),
    "revision-missing": ProblemKind(428, "A revision is needed", "Send the revision you saw in If-Match."),
    "rate-limited": ProblemKind(429, "Rate limit exceeded", "Wait as long as Retry-After says."),
    "internal-error": ProblemKind(500, "Internal error", "The request id is in the server's log."),
    "unavailable": ProblemKind(
        503, "Temporarily unavailable", "The server cannot store or read at this moment: try again."
    ),
}

KIND_BY_STATUS = {kind.status: name for name, kind in PROBLEM_KINDS.items()}

REQUIRED_HEADERS: Mapping[int, Mapping[str, str]] = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
}
"""The headers that RFC 9110 wants with a status."""

ADDRESS_TEXTS: Mapping[int, str] = {
    404: "There is nothing at this address: openapi.json lists what there is.",
    405: "The address takes other methods: see the header Allow.",
}
"""Details of an address without an operation, or without one for the method."""


class ProblemError(Exception):
    """A request that is answered by a problem document."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        errors: Sequence[InvalidField] = (),
        headers: Mapping[str, str] | None = None,
        revision: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.errors, self.revision = kind, detail, tuple(errors), revision
        self.headers = dict(headers or {})


class RevisionMismatch(ProblemError):
    """The object to change has another revision by now, which the answer names."""

    def __init__(self, current_revision: int) -> None:
        super().__init__(
            "stale", f"It is at revision {current_revision} by now: read it again.", revision=current_revision
        )


def build_problem_response(error: ProblemError, request_id: str) -> Response:
    kind = PROBLEM_KINDS[error.kind]
    document = ProblemDetails(
        type=PROBLEM_PATH + error.kind,
        title=kind.title,
        status=kind.status,
        detail=error.detail,
        instance=request_id,
        errors=error.errors,
        revision=error.revision,
    )
    headers = {"Cache-Control": "no-store", **REQUIRED_HEADERS.get(kind.status, {}), **error.headers}
    text = document.model_dump_json(exclude_none=True)
    return Response(text, kind.status, headers=headers, content_type=MEDIA_TYPE)


def convert_http_error(error: HTTPException) -> ProblemError:
    """Convert an error of the framework: an unknown address, a wrong method, an incomplete body."""
    status = error.code or 500
    kind = KIND_BY_STATUS.get(status, "bad-request" if status < 500 else "internal-error")
    headers = {}
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    detail = ADDRESS_TEXTS.get(status) or error.description or PROBLEM_KINDS[kind].text
    return ProblemError(kind, detail, headers=headers)


def convert_validation_error(error: ValidationError, prefix: str) -> ProblemError:
    """Convert a validation error: 400 for a wrong shape, 409 for a rule that JSON Schema cannot express."""
    reported = error.errors(include_url=False, include_context=False)
    # pydantic reports a list whose items are invalid as too short in addition.
    containers = {fault["loc"][:depth] for fault in reported for depth in range(len(fault["loc"]))}
    faults = [fault for fault in reported if fault["type"] != "too_short" or fault["loc"] not in containers]
    fields = [
        InvalidField(location=_format_fault_path(fault), message=fault["msg"].removeprefix("Value error, "))
        for fault in faults[:MAX_FAULTS]
    ]
    by_rule = all(fault["type"] == "value_error" or _is_integral_float(fault) for fault in faults)
    more = f", and {len(faults) - 1} more faults" if len(faults) > 1 else ""
    sentence = f"{prefix}: {fields[0].location}: {fields[0].message}{more}."
    return ProblemError("conflict" if by_rule else "bad-request", sentence, errors=fields)


def _is_integral_float(fault: ErrorDetails) -> bool:
    """Whether an integer was written as ``3.0``, which JSON Schema accepts and strict parsing does not."""
    return fault["type"] == "int_type" and isinstance(fault["input"], float) and fault["input"].is_integer()


def _format_fault_path(fault: ErrorDetails) -> str:
    """Format where a fault is, ``results[3].unit``; values of the body are not repeated, as logs keep
    problems.
    """
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in fault["loc"]).lstrip(".")
    return path[:200] or "document"
