"""Python's search for garbage in cycles, in a process that handles many small values which hold none."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

GC_THRESHOLDS = (100_000, 20, 20)
"""Values that outlive their making before a search begins: more than the uploads hold that are read at once.

At Python's own 700, one upload of 500 processes is searched a dozen times while it is read: a third of its time.
"""


@contextlib.contextmanager
def tune_gc() -> Iterator[None]:
    """Search rarely, and never what is there already, which stays as long as the process does; its children as well."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
