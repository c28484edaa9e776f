"""Runs and projects as they travel."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from perfci.net.shapes import Asked, Key, Page, Shape

Visibility = Literal["public", "private"]


class ProjectShape(Shape):
    """``version`` grows with every change of the project's data, and the ETag of its lists with it."""

    project: str
    visibility: Visibility
    version: int
    archived: bool = False


class ProjectPage(Page):
    items: tuple[ProjectShape, ...]


class NewProject(Asked):
    project: Annotated[str, Field(min_length=1, max_length=200)]
    visibility: Visibility = "private"


class Receipt(Shape):
    """What became of an upload; ``stored`` is false where the same run with the same content was there already."""

    key: Key
    project: str
    stored: bool
    results: int
    samples: int
