"""Garbage collector settings of long-running processes that allocate many acyclic values."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

GC_THRESHOLDS = (100_000, 20, 20)
"""Thresholds of ``gc.set_threshold``; the first exceeds the objects of a batch of uploads.

With Python's default of 700, reading one upload of 500 processes triggers a dozen collections, a third of
its time.
"""


@contextlib.contextmanager
def tune_gc() -> Iterator[None]:
    """Collect rarely, and exclude objects that exist already, in this process and in its forked children."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
