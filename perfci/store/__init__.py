"""What was measured and decided, remembered: tables, named queries and migrations."""

from perfci.store.engine import Store, open_store

__all__ = ["Store", "open_store"]
