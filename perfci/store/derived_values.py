"""Values derived from a project that readers share until something of the project changes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables.measurements import CommitRow, ProcessRow, ProjectRow, ResultRow, RunRow, SeriesRow

DERIVED_VALUES, DATA_STATES = "derived values", "data states"
"""Keys of ``Session.info`` under which a read transaction has the values of its store, and the states of
projects that it has read."""

MAX_DERIVED_VALUES = 64
"""Values a store keeps: some for each of the projects that are read most."""

ValueT = TypeVar("ValueT")

_newest_row_ids = (
    sa.select(sa.func.max(table.id)).scalar_subquery()
    for table in (CommitRow, RunRow, SeriesRow, ResultRow, ProcessRow)
)
# Writers of one store may add rows without a new version of the project: a local run does.
SELECT_STATE = sa.select(ProjectRow.version, *_newest_row_ids)


class DerivedValues:
    """The values of one store by project and name, each with the state of the data that it was derived of.

    The values that were not read for the longest time are dropped.
    """

    def __init__(self) -> None:
        self._values: OrderedDict[Hashable, tuple[Hashable, object]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Hashable, state: Hashable) -> tuple[object] | None:
        """Find the value of a state."""
        with self._lock:
            stored = self._values.get(key)
            if stored is None or stored[0] != state:
                return None
            self._values.move_to_end(key)
            return (stored[1],)

    def keep(self, key: Hashable, state: Hashable, value: object) -> None:
        """Keep a value in place of that of another state."""
        with self._lock:
            self._values[key] = (state, value)
            self._values.move_to_end(key)
            while len(self._values) > MAX_DERIVED_VALUES:
                self._values.popitem(last=False)

    def clear(self) -> None:
        """Forget all values."""
        with self._lock:
            self._values.clear()


def load_data_state(tx: Session, project: str) -> tuple[int, ...] | None:
    """Load what differs whenever the data of a project do; None without the project.

    A read transaction, which sees one moment, reads it once.
    """
    states = tx.info.setdefault(DATA_STATES, {}) if DERIVED_VALUES in tx.info else {}
    if project not in states:
        row = tx.connection().execute(SELECT_STATE.where(ProjectRow.slug == project)).first()
        states[project] = None if row is None else tuple(row)
    state: tuple[int, ...] | None = states[project]
    return state


def load_or_derive(tx: Session, project: str, name: str, derive: Callable[[], ValueT]) -> ValueT:
    """Return a value of a project that nobody changes, derived anew after each change of the project.

    Only what depends on its series, commits, runs and results may be kept so. A write transaction, which may
    see what is never committed, derives every time.
    """
    return _find_or_derive(tx, project, name, derive, lambda: load_data_state(tx, project))


def load_or_derive_of_series(tx: Session, project: str, name: str, derive: Callable[[], ValueT]) -> ValueT:
    """Return a value that depends on nothing but which series a project has: only a new one makes it anew.

    A series never changes, and after a deletion a store forgets all its values.
    """
    newest = sa.select(sa.func.max(SeriesRow.id))
    return _find_or_derive(tx, project, name, derive, lambda: tx.connection().scalar(newest))


def _find_or_derive(
    tx: Session, project: str, name: str, derive: Callable[[], ValueT], load_state: Callable[[], Hashable]
) -> ValueT:
    values: DerivedValues | None = tx.info.get(DERIVED_VALUES)
    if values is None:
        return derive()
    state = load_state()
    kept = values.find((project, name), state)
    if kept is not None:
        return cast(ValueT, kept[0])
    value = derive()
    values.keep((project, name), state, value)
    return value
