"""What went wrong with a request, as RFC 9457 describes it."""

from __future__ import annotations

from perfci.net.shapes import Shape


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
