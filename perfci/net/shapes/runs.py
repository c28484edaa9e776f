"""Runs and projects as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from perfci.net.shapes import AwareTimestamp, HexKey, Page, PageQuery, RequestShape, Shape
from perfci.net.shapes.project_tables import ProjectTablesShape
from perfci.net.shapes.series import OptionalShaPrefix, SearchText

Visibility = Literal["public", "private"]


class ProjectShape(Shape):
    """``version`` grows with every change of the project's data, and the ETag of its lists with it."""

    project: str
    visibility: Visibility
    version: int
    archived: bool = False
    settings: ProjectTablesShape = ProjectTablesShape()


class ProjectPage(Page):
    items: tuple[ProjectShape, ...]


class NewProject(RequestShape):
    project: Annotated[str, Field(min_length=1, max_length=200)]
    visibility: Visibility = "private"


class RunShape(Shape):
    """A run as a list shows it; the whole of it is a ``perfci.run/1`` document under its key."""

    key: str
    session: str
    kind: str
    commit: str
    dirty: bool
    machine: str
    suite: str
    harness: str
    started_at: datetime
    finished_at: datetime | None = None


class RunQuery(PageQuery):
    commit: OptionalShaPrefix = ""
    suite: SearchText = ""
    session: SearchText = ""
    since: AwareTimestamp | None = None
    until: AwareTimestamp | None = None


class RunPage(Page):
    items: tuple[RunShape, ...]


class UploadReceipt(Shape):
    """What became of an upload; ``stored`` is false where the same run with the same content was there
    already.
    """

    key: HexKey
    project: str
    stored: bool
    results: int
    samples: int
