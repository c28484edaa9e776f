"""Share compiled SQL statements between the engines of a test process."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from sqlalchemy.util import LRUCache

STATEMENTS = 5_000
"""More than all tests of a worker compile; SQLAlchemy keeps 500 for an engine."""


class SharedStatementCache(LRUCache[Hashable, Any]):
    """A statement cache that asks which kind of database a dialect speaks, and not which engine owns it."""

    def __init__(self) -> None:
        super().__init__(STATEMENTS)

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(by_kind(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(by_kind(key), compiled)


def by_kind(key: tuple[Any, ...]) -> Hashable:
    dialect, *statement = key
    return (dialect.name, *statement)
