"""The table of short links: a code, and the page of this server that it leads to."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.tables.base import TableBase, foreign_key, primary_key


class ShortLinkRow(TableBase):
    """A short link; ``target`` is the path of a page of its project and its query."""

    __tablename__ = "short_links"

    id: Mapped[int] = primary_key()
    code: Mapped[str] = mapped_column(String(32), unique=True)
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    target: Mapped[str]
    created_by: Mapped[str]
    created_at: Mapped[datetime]
