"""Pydantic schemas of API requests and responses, shared by the client and the server."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError


class Shape(BaseModel):
    """What the server answers. A newer server may say more than this program knows: that is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class RequestShape(BaseModel):
    """What a client asks: a query or a body. A misspelt name would lose what it holds, so it is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


MAX_PAGE_SIZE = 500
"""Items one answer lists at most; more come with the cursor."""

DEFAULT_PAGE_SIZE = 100
"""Items an answer lists where nobody says otherwise."""

HexKey = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
"""A hash that names a run or a series."""


VISIBLE_LINE_PATTERN = r"^[^\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+$"
"""One line, nothing invisible, nothing that turns the reading direction."""
DisplayName = Annotated[str, Field(min_length=1, max_length=100, pattern=VISIBLE_LINE_PATTERN)]


def _parse_timestamp(value: object) -> object:
    """A bare number is no date, though some readers take it for the seconds since 1970."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not RFC3339_PATTERN.fullmatch(value):
        raise PydanticCustomError(
            "datetime_parsing", "a date and time such as 2026-03-01T12:00:00Z was expected"
        )
    return datetime.fromisoformat(value.upper())  # which takes no small z


RFC3339_PATTERN = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
"""As RFC 3339 writes it, and with it the format "date-time" of JSON Schema."""
AwareTimestamp = Annotated[AwareDatetime, BeforeValidator(_parse_timestamp)]
"""When something is or was, as a query or a body says it."""


Cursor = Annotated[str, Field(pattern=r"^[0-9]{1,18}$")]
"""Where a list goes on: what the answer before gave as ``next``."""


class PageQuery(RequestShape):
    """Which page of a list: ``cursor`` is what the answer before gave as ``next``."""

    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE)] = DEFAULT_PAGE_SIZE


class Page(Shape):
    """One page of a list; ``next`` is the cursor of the next one and absent on the last."""

    items: tuple[Any, ...]
    next: str | None = None


class InvalidField(Shape):
    """One thing that is wrong, and where: ``results[3].unit`` of a body, ``limit`` of a query."""

    location: str
    message: str


class ProblemDetails(Shape):
    """``type`` is a page that explains the word, ``detail`` one sentence, ``instance`` the request's id in
    the logs.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: tuple[InvalidField, ...] = ()
    revision: int | None = None
