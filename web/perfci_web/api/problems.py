"""What is wrong with a request, told as RFC 9457 wants it: one word, one sentence, never a traceback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flask import Response
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from perfci.net.shapes.problem_details import InvalidField, ProblemDetails

MEDIA_TYPE = "application/problem+json"
PROBLEM_PATH = "/api/problems/"
MAX_FAULTS = 20
"""Faults one answer lists; a body of a million wrong numbers is told the first of them."""


class ProblemKind(NamedTuple):
    status: int
    title: str
    text: str


PROBLEM_KINDS: Mapping[str, ProblemKind] = {
    "bad-request": ProblemKind(
        400, "The request cannot be understood", "It does not have the shape that openapi.json tells."
    ),
    "unauthorized": ProblemKind(401, "Nobody we know", "The token is missing, wrong, expired or revoked."),
    "forbidden": ProblemKind(403, "Not allowed", "You are known, and this is not yours to do."),
    "not-found": ProblemKind(
        404, "Nothing here", "There is nothing of this name, or it is not yours to see."
    ),
    "method": ProblemKind(405, "Not this way", "The address takes other methods: see the header Allow."),
    "conflict": ProblemKind(409, "It does not fit", "What is asked contradicts what is stored, or itself."),
    "stale": ProblemKind(
        412, "Somebody was faster", "It changed meanwhile: look again, and send its revision in If-Match."
    ),
    "too-large": ProblemKind(
        413, "Too large", "A body, or what it unpacks to, is larger than this server takes."
    ),
    "media-type": ProblemKind(
        415, "Another kind of body is needed", "Send JSON, plain or with Content-Encoding gzip."
    ),
    "revision-missing": ProblemKind(428, "A revision is needed", "Send the revision you saw in If-Match."),
    "rate": ProblemKind(429, "Too much at once", "Wait as long as Retry-After says."),
    "broken": ProblemKind(500, "Something broke here", "This is our mistake; its id is in the server's log."),
    "unavailable": ProblemKind(503, "Not now", "The server cannot store or read at this moment: try again."),
}

KIND_BY_STATUS = {word.status: name for name, word in PROBLEM_KINDS.items()}


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
    """What was to be changed has another revision by now; ``current`` is told, so that one can look and try again."""

    def __init__(self, current_revision: int) -> None:
        super().__init__(
            "stale", f"It is at revision {current_revision} by now: look again.", revision=current_revision
        )


def problem_response(error: ProblemError, request_id: str) -> Response:
    word = PROBLEM_KINDS[error.kind]
    document = ProblemDetails(
        type=PROBLEM_PATH + error.kind,
        title=word.title,
        status=word.status,
        detail=error.detail,
        instance=request_id,
        errors=error.errors,
        revision=error.revision,
    )
    headers = {"Cache-Control": "no-store", **_required_headers(word.status), **error.headers}
    text = document.model_dump_json(exclude_none=True)
    return Response(text, word.status, headers=headers, content_type=MEDIA_TYPE)


def convert_http_error(error: HTTPException) -> ProblemError:
    """What the framework refused: an unknown address, a wrong method, a body that broke off."""
    status = error.code or 500
    word = KIND_BY_STATUS.get(status, "bad-request" if status < 500 else "broken")
    headers = {}
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return ProblemError(
        word, ADDRESS_TEXTS.get(status) or error.description or PROBLEM_KINDS[word].text, headers=headers
    )


ADDRESS_TEXTS: Mapping[int, str] = {
    404: "There is nothing at this address: openapi.json lists what there is.",
    405: "The address takes other methods: see the header Allow.",
}
"""What is said of an address where no operation is, or none with this method."""


def convert_validation_error(error: ValidationError, prefix: str) -> ProblemError:
    """A shape that does not fit is 400; a rule that no JSON Schema can say is 409."""
    faults = _drop_consequences(error.errors(include_url=False, include_context=False))
    told = [
        InvalidField(location=_format_fault_path(one), message=one["msg"].removeprefix("Value error, "))
        for one in faults[:MAX_FAULTS]
    ]
    by_rule = all(one["type"] == "value_error" or _is_integral_float(one) for one in faults)
    more = f", and {len(faults) - 1} more faults" if len(faults) > 1 else ""
    sentence = f"{prefix}: {told[0].location}: {told[0].message}{more}."
    return ProblemError("conflict" if by_rule else "bad-request", sentence, errors=told)


def _drop_consequences(faults: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """A list whose items do not fit is told to be too short as well: that goes without saying."""
    inner = {fault["loc"][:depth] for fault in faults for depth in range(len(fault["loc"]))}
    return [fault for fault in faults if fault["type"] != "too_short" or fault["loc"] not in inner]


def _is_integral_float(fault: ErrorDetails) -> bool:
    """Whether a whole number was written with a fraction, ``3.0``: JSON Schema takes it for the same, we do not."""
    return fault["type"] == "int_type" and isinstance(fault["input"], float) and fault["input"].is_integer()


def _format_fault_path(fault: ErrorDetails) -> str:
    """``results[3].unit``: no value of the body is repeated, for a log may keep what a problem says."""
    place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in fault["loc"]).lstrip(".")
    return place[:200] or "document"


def _required_headers(status: int) -> dict[str, str]:
    """Headers that some statuses never come without."""
    return {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}.get(
        status, {}
    )
