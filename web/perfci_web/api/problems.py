"""What is wrong with a request, told as RFC 9457 wants it: one word, one sentence, never a traceback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flask import Response
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from perfci.net.shapes.problem_details import Fault, Problem

MEDIA_TYPE = "application/problem+json"
PAGES = "/api/problems/"
MOST_FAULTS = 20
"""Faults one answer lists; a body of a million wrong numbers is told the first of them."""


class Word(NamedTuple):
    status: int
    title: str
    text: str


WORDS: Mapping[str, Word] = {
    "bad-request": Word(400, "The request cannot be understood", "It does not have the shape that openapi.json tells."),
    "unauthorized": Word(401, "Nobody we know", "The token is missing, wrong, expired or revoked."),
    "forbidden": Word(403, "Not allowed", "You are known, and this is not yours to do."),
    "not-found": Word(404, "Nothing here", "There is nothing of this name, or it is not yours to see."),
    "method": Word(405, "Not this way", "The address takes other methods: see the header Allow."),
    "conflict": Word(409, "It does not fit", "What is asked contradicts what is stored, or itself."),
    "stale": Word(412, "Somebody was faster", "It changed meanwhile: look again, and send its revision in If-Match."),
    "too-large": Word(413, "Too large", "A body, or what it unpacks to, is larger than this server takes."),
    "media-type": Word(415, "Another kind of body is needed", "Send JSON, plain or with Content-Encoding gzip."),
    "revision-missing": Word(428, "A revision is needed", "Send the revision you saw in If-Match."),
    "rate": Word(429, "Too much at once", "Wait as long as Retry-After says."),
    "broken": Word(500, "Something broke here", "This is our mistake; its id is in the server's log."),
    "unavailable": Word(503, "Not now", "The server cannot store or read at this moment: try again."),
}

OF_STATUS = {word.status: name for name, word in WORDS.items()}


class Declined(Exception):
    """A request that is answered by a problem document."""

    def __init__(
        self,
        word: str,
        detail: str,
        *,
        errors: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        revision: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.word, self.detail, self.errors, self.revision = word, detail, tuple(errors), revision
        self.headers = dict(headers or {})


class Stale(Declined):
    """What was to be changed has another revision by now; ``current`` is told, so that one can look and try again."""

    def __init__(self, current: int) -> None:
        super().__init__("stale", f"It is at revision {current} by now: look again.", revision=current)


def response_of(problem: Declined, request_id: str) -> Response:
    word = WORDS[problem.word]
    document = Problem(
        type=PAGES + problem.word,
        title=word.title,
        status=word.status,
        detail=problem.detail,
        instance=request_id,
        errors=problem.errors,
        revision=problem.revision,
    )
    headers = {"Cache-Control": "no-store", **_always(word.status), **problem.headers}
    text = document.model_dump_json(exclude_none=True)
    return Response(text, word.status, headers=headers, content_type=MEDIA_TYPE)


def of_http(error: HTTPException) -> Declined:
    """What the framework refused: an unknown address, a wrong method, a body that broke off."""
    status = error.code or 500
    word = OF_STATUS.get(status, "bad-request" if status < 500 else "broken")
    headers = {}
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    return Declined(word, OF_ADDRESS.get(status) or error.description or WORDS[word].text, headers=headers)


OF_ADDRESS: Mapping[int, str] = {
    404: "There is nothing at this address: openapi.json lists what there is.",
    405: "The address takes other methods: see the header Allow.",
}
"""What is said of an address where no operation is, or none with this method."""


def of_faults(error: ValidationError, what: str) -> Declined:
    """A shape that does not fit is 400; a rule that no JSON Schema can say is 409."""
    faults = _causes(error.errors(include_url=False, include_context=False))
    told = [Fault(place=_place(one), message=one["msg"].removeprefix("Value error, ")) for one in faults[:MOST_FAULTS]]
    by_rule = all(one["type"] == "value_error" or _is_whole(one) for one in faults)
    more = f", and {len(faults) - 1} more faults" if len(faults) > 1 else ""
    sentence = f"{what}: {told[0].place}: {told[0].message}{more}."
    return Declined("conflict" if by_rule else "bad-request", sentence, errors=told)


def _causes(faults: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """A list whose items do not fit is told to be too short as well: that goes without saying."""
    inner = {fault["loc"][:depth] for fault in faults for depth in range(len(fault["loc"]))}
    return [fault for fault in faults if fault["type"] != "too_short" or fault["loc"] not in inner]


def _is_whole(fault: ErrorDetails) -> bool:
    """Whether a whole number was written with a fraction, ``3.0``: JSON Schema takes it for the same, we do not."""
    return fault["type"] == "int_type" and isinstance(fault["input"], float) and fault["input"].is_integer()


def _place(fault: ErrorDetails) -> str:
    """``results[3].unit``: no value of the body is repeated, for a log may keep what a problem says."""
    place = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in fault["loc"]).lstrip(".")
    return place[:200] or "document"


def _always(status: int) -> dict[str, str]:
    """Headers that some statuses never come without."""
    return {401: {"WWW-Authenticate": "Bearer"}, 429: {"Retry-After": "1"}, 503: {"Retry-After": "1"}}.get(status, {})
