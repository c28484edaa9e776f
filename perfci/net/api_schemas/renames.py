"""API schemas of benchmarks and machines that go on under other names."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from perfci.net.api_schemas import VISIBLE_LINE_PATTERN, RequestShape, Shape

Name = Annotated[str, Field(min_length=1, max_length=500, pattern=VISIBLE_LINE_PATTERN)]


class NewRename(RequestShape):
    """What goes on as ``new``; ``defaults`` are values of parameters for the results that lack them."""

    kind: Literal["benchmark", "machine"]
    old: Name
    new: Name
    defaults: Annotated[dict[Name, Name], Field(max_length=64)] = {}
    dry_run: bool = False


class RenameShape(Shape):
    """A rename, and how many series lie under the old name."""

    kind: Literal["benchmark", "machine"]
    old: str
    new: str
    defaults: dict[str, str]
    series: int


class RenameList(Shape):
    items: tuple[RenameShape, ...]


class RenameResult(Shape):
    """What a rename moved, or would move; ``joined`` series had a history under the new name before."""

    series: int
    results: int
    joined: int
    dry_run: bool
