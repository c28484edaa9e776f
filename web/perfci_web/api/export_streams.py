"""Streams of whole projects: few at once, in pieces, and not for ever."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

from perfci_web.api.problem_details import ProblemError

MAX_EXPORTS = 2
"""Exports that a process streams at once; each occupies a thread."""

EXPORT_RETRY_S = 30
MAX_EXPORT_S = 1800.0
PIECE_BYTES = 64 * 1024

log = logging.getLogger("perfci.server")


class ExportLimiter:
    """Lets at most ``MAX_EXPORTS`` streams exist; the next one is refused."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free = threading.BoundedSemaphore(MAX_EXPORTS)

    def open_stream(self, chunks: Iterator[bytes]) -> ExportStream:
        """Count a stream until it is closed."""
        if not self._free.acquire(blocking=False):
            raise ProblemError(
                "unavailable",
                f"{MAX_EXPORTS} exports are being sent already: try again in {EXPORT_RETRY_S} s.",
                headers={"Retry-After": str(EXPORT_RETRY_S)},
            )
        return ExportStream(chunks, self._free.release, self._clock)


class ExportStream:
    """The bytes of an export in pieces of one size; it breaks off where its reader takes too long."""

    def __init__(
        self, chunks: Iterator[bytes], on_close: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self._chunks, self._on_close, self._clock = chunks, on_close, clock
        self._ends_at = clock() + MAX_EXPORT_S
        self._rest = bytearray()
        self._is_closed = False

    def __iter__(self) -> ExportStream:
        return self

    def __next__(self) -> bytes:
        if self._clock() > self._ends_at:
            log.warning("an export was broken off: it was not taken within %g minutes", MAX_EXPORT_S / 60)
            raise TimeoutError("The export was not taken in time.")
        while len(self._rest) < PIECE_BYTES and (chunk := next(self._chunks, None)) is not None:
            self._rest += chunk
        if not self._rest:
            self.close()
            raise StopIteration
        piece = bytes(self._rest[:PIECE_BYTES])
        del self._rest[:PIECE_BYTES]
        return piece

    def close(self) -> None:
        """Let the next export begin; called by the server at the end of every answer, begun or not."""
        if not self._is_closed:
            self._is_closed = True
            self._on_close()
