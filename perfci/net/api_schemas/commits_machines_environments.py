"""API schemas of commits, and of the machines and environments that measured them."""

from __future__ import annotations

from datetime import datetime

from perfci.net.api_schemas import (
    HexKey,
    Page,
    PageQuery,
    Shape,
)
from perfci.net.api_schemas.series import SearchText


class CommitShape(Shape):
    commit: str
    dirty: bool
    subject: str = ""
    author: str = ""
    committed_at: datetime | None = None
    parents: tuple[str, ...] = ()
    branch: str = ""
    tags: tuple[str, ...] = ()
    position: int | None = None


class CommitQuery(PageQuery):
    branch: SearchText = ""


class CommitPage(Page):
    items: tuple[CommitShape, ...]


class MachineShape(Shape):
    id: HexKey
    label: str
    cpu: str = ""
    cores: int | None = None
    memory_gb: int | None = None
    accelerator: str = ""
    accelerators: int = 0
    name: str = ""


class MachinePage(Page):
    items: tuple[MachineShape, ...]


class EnvironmentShape(Shape):
    id: HexKey
    values: dict[str, str]


class EnvironmentPage(Page):
    items: tuple[EnvironmentShape, ...]
