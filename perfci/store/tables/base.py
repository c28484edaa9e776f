"""Column types, keys and naming conventions of all tables, portable between SQLite and PostgreSQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import (
    BigInteger,
    Dialect,
    Double,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

ABSENT = -1
"""Stands for "none" in unique constraints, where SQL treats NULLs as different."""


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


MILLISECOND = timedelta(milliseconds=1)


def as_ms(moment: datetime) -> int:
    """Convert a moment to whole milliseconds since the epoch."""
    since = moment - EPOCH
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


class UtcMs(TypeDecorator[datetime]):
    """A UTC moment in whole milliseconds, stored as an integer."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        """Convert a moment to milliseconds."""
        return None if value is None else as_ms(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:
        """Convert milliseconds to a UTC moment."""
        return None if value is None else EPOCH + value * MILLISECOND


as_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class JsonText(TypeDecorator[Any]):
    """A small JSON value as compact text, byte for byte equal on every database."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Convert a value to JSON text."""
        return None if value is None else as_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Convert JSON text to a value."""
        if value == "[]":  # most values are, and a list of thousands is read for one page
            return []
        return None if value is None else json.loads(value)


def to_column_value(value: Any) -> Any:
    """Convert a value for SQL that bypasses SQLAlchemy's column types."""
    if isinstance(value, datetime):
        return as_ms(value)
    return as_json(value) if isinstance(value, (tuple, list, dict)) else value


Id = BigInteger().with_variant(Integer, "sqlite")


class TableBase(DeclarativeBase):
    """The base of all tables: a numeric primary key and named constraints."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {
        datetime: UtcMs,
        float: Double,
        str: Text,
        bytes: LargeBinary,
    }


def primary_key() -> Mapped[int]:
    """Declare the numeric primary key."""
    return mapped_column(Id, primary_key=True)


def foreign_key(column: str, *, index: bool = False, nullable: bool = False) -> Mapped[Any]:
    """Declare a foreign key to a numeric primary key."""
    return mapped_column(Id, ForeignKey(column), index=index, nullable=nullable)


def core_table(row: type[TableBase]) -> sa.Table:
    """Return the plain table of a mapped class: statements on it skip the overhead of the ORM."""
    return cast(sa.Table, row.__table__)
