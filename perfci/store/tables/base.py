"""The base of all tables: keys and naming conventions, portable between SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from perfci.store.column_conversions import UtcMs

Id = sa.BigInteger().with_variant(sa.Integer, "sqlite")


class TableBase(DeclarativeBase):
    """The base of all tables: a numeric primary key and named constraints."""

    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {
        datetime: UtcMs,
        float: sa.Double,
        str: sa.Text,
        bytes: sa.LargeBinary,
    }

    if TYPE_CHECKING:
        __table__: ClassVar[sa.Table]  # SQLAlchemy promises only a FromClause


def primary_key() -> Mapped[int]:
    """Declare the numeric primary key."""
    return mapped_column(Id, primary_key=True)


def foreign_key(column: str, *, index: bool = False, nullable: bool = False) -> Mapped[Any]:
    """Declare a foreign key to a numeric primary key."""
    return mapped_column(Id, sa.ForeignKey(column), index=index, nullable=nullable)
