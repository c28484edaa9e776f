"""Cache row ids, and name the keys under which a store keeps values beside its database."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from sqlalchemy.orm import Session


class IdCache:
    """Row ids by value, so that frequent writers query each only once.

    Each transaction and savepoint has a view of its own, merged into its parent on commit, so a
    rolled-back row never leaves an id behind.
    """

    def __init__(self, parent: IdCache | None = None) -> None:
        self._parent = parent
        self._added: dict[object, int] = {}
        self._levels: tuple[dict[object, int], ...] = (*(parent._levels if parent else ()), self._added)

    def merge_into_parent(self) -> None:
        """Add the new ids to the parent; the oldest ids of a full cache are dropped."""
        assert self._parent is not None
        parent_ids = self._parent._added
        parent_ids.update(self._added)
        if self._parent._parent is None and len(parent_ids) > MAX_CACHED_IDS:
            for key in list(islice(parent_ids, len(parent_ids) - MAX_CACHED_IDS // 2)):
                parent_ids.pop(key, None)

    def clear(self) -> None:
        """Remove all ids, of the parents too."""
        for level in self._levels:
            level.clear()

    def find(self, key: object) -> int | None:
        """Find an id here or in a parent."""
        for level in self._levels:
            if (row_id := level.get(key)) is not None:
                return row_id
        return None

    def add(self, key: object, row_id: int) -> int:
        """Add an id and return it."""
        self._added[key] = row_id
        return row_id

    def get_or_add(self, key: object, find_or_add: Callable[[], int]) -> int:
        """Return the cached id of a key, or call ``find_or_add`` and cache its answer."""
        row_id = self.find(key)
        return self.add(key, find_or_add()) if row_id is None else row_id


MAX_CACHED_IDS = 200_000
"""Ids a store caches: those of some thousand series and their newest results, in about 10 MB."""


def get_id_cache(tx: Session) -> IdCache:
    """Return the id cache of a transaction."""
    cache: IdCache | None = tx.info.get("ids")
    if cache is None:
        cache = tx.info["ids"] = IdCache()
    return cache


SERIES_CACHE = "series read"


MAX_CACHED_SERIES = 50_000
"""Series a store caches for readers, in at most some hundred MB."""


CHANGED_PROJECTS = "touched projects"
