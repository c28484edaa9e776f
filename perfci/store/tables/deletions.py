"""The table of deletions: what somebody asked to delete, until nothing of it is left."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import JsonText
from perfci.store.tables.base import Id, TableBase, foreign_key, primary_key


class DeletionRow(TableBase):
    """A deletion that is not finished; while there is one, the verdicts of its project may be deleted.

    ``row_id`` is the id of a run, a series or the project itself. ``run_keys`` name runs whose series have
    to be judged again afterwards.
    """

    __tablename__ = "deletions"

    id: Mapped[int] = primary_key()
    project_id: Mapped[int] = foreign_key("projects.id", index=True)
    kind: Mapped[str]
    row_id: Mapped[int] = mapped_column(Id)
    run_keys: Mapped[Any] = mapped_column(JsonText)
    requested_at: Mapped[datetime]
