"""Read and parse request bodies within limits.

The order matters: size first, then inflating in steps, then counting and depth of the JSON, and pydantic
last, as its parser takes several hundred bytes for an empty list, and as many for each fault.
"""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flask import Request
from pydantic import BaseModel, ValidationError
from werkzeug.exceptions import ClientDisconnected

from perfci.formats.json_limits import JsonTooLarge, require_json_limits
from perfci.model import PerfciError
from perfci.net.shapes import RequestShape
from perfci_web.api.problems import ProblemError, convert_validation_error

MIB = 1024 * 1024
CHUNK_BYTES = 64 * 1024
GZIP_WINDOW_BITS = 31  # zlib's code for: gzip format only
LARGE_BODY_BYTES = MIB
"""Bodies beyond this size take about ten times as much memory in Python: only a few are parsed at once."""
MAX_LARGE_BODIES = 2
DRAIN_FACTOR = 4
"""A refused body is read up to this multiple of the limit: closing earlier would reset the connection, and
the client would not see the answer."""


@dataclass(frozen=True, slots=True)
class RawBody:
    """An inflated body, and its size on the wire in bytes."""

    body: bytes
    wire_bytes: int


class BodyReader:
    """Reads bodies within limits that hold for the whole process."""

    def __init__(self, *, max_wire_bytes: int, max_inflated_bytes: int) -> None:
        self._wire, self._inflated = max_wire_bytes, max_inflated_bytes
        self._big = threading.BoundedSemaphore(MAX_LARGE_BODIES)

    @contextlib.contextmanager
    def read_body(self, request: Request) -> Iterator[RawBody]:
        """Yield the body; a large one holds its slot until the end of the block."""
        with contextlib.ExitStack() as stack:
            wire = self._receive(request)
            plain = wire
            if _content_encoding(request) == "gzip":
                plain = self._inflate(wire, stack)
            elif len(wire) > LARGE_BODY_BYTES:
                self._reserve_large_slot(stack)
            yield RawBody(plain, len(wire))

    def _receive(self, request: Request) -> bytes:
        if request.mimetype != "application/json":
            self._drain(request)
            raise ProblemError(
                "media-type",
                f"A body of type application/json was expected, found {_mimetype_text(request)}.",
            )
        _content_encoding(request)
        if (request.content_length or 0) > self._wire:
            self._drain(request)
            raise self._too_large()
        try:
            body = request.stream.read(self._wire + 1)
        except ClientDisconnected:
            raise ProblemError("bad-request", "The body ended before its Content-Length.") from None
        if len(body) > self._wire:
            self._drain(request)
            raise self._too_large()
        return body

    def _drain(self, request: Request) -> None:
        left = DRAIN_FACTOR * self._wire
        with contextlib.suppress(ClientDisconnected, OSError):
            while left > 0 and (chunk := request.stream.read(min(CHUNK_BYTES, left))):
                left -= len(chunk)

    def _too_large(self) -> ProblemError:
        return ProblemError("too-large", f"A body of at most {self._wire / MIB:g} MiB is taken.")

    def _inflate(self, wire: bytes, stack: contextlib.ExitStack) -> bytes:
        """Inflate in steps; one gzip member, and nothing after it."""
        unpacker = zlib.decompressobj(GZIP_WINDOW_BITS)
        parts: list[bytes] = []
        size = 0
        for start in range(0, len(wire), CHUNK_BYTES):
            for chunk in _inflate_chunks(unpacker, wire[start : start + CHUNK_BYTES]):
                before, size = size, size + len(chunk)
                if before <= LARGE_BODY_BYTES < size:
                    self._reserve_large_slot(stack)
                if size > self._inflated:
                    raise ProblemError(
                        "too-large", f"A body may unpack to at most {self._inflated / MIB:g} MiB."
                    )
                parts.append(chunk)
            if unpacker.eof:
                if unpacker.unused_data or start + CHUNK_BYTES < len(wire):
                    raise ProblemError("bad-request", "There is data after the end of the gzip body.")
                return b"".join(parts)
        raise ProblemError("bad-request", "The gzip body is incomplete.")

    def _reserve_large_slot(self, stack: contextlib.ExitStack) -> None:
        if not self._big.acquire(blocking=False):
            raise ProblemError("unavailable", "Other large bodies are being read: try again.")
        stack.callback(self._big.release)


def _inflate_chunks(unpacker: Any, packed: bytes) -> Iterator[bytes]:
    """Inflate one chunk, yielding at most ``CHUNK_BYTES`` at a time."""
    try:
        while True:
            chunk = unpacker.decompress(packed, CHUNK_BYTES)
            packed = unpacker.unconsumed_tail
            yield chunk
            if unpacker.eof or (not packed and len(chunk) < CHUNK_BYTES):
                return
    except zlib.error:
        raise ProblemError("bad-request", "The body is no gzip, though Content-Encoding says so.") from None


def parse_body(raw: bytes, model: type[BaseModel]) -> BaseModel:
    """Parse a body into its model; faults are reported with their location."""
    if issubclass(model, RequestShape) and len(raw) > LARGE_BODY_BYTES:
        raise ProblemError(
            "too-large", f"A body of this kind may have at most {LARGE_BODY_BYTES // MIB} MiB."
        )
    try:
        require_json_limits(raw, "The body")
        return model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise convert_validation_error(error, "The body does not fit") from None
    except JsonTooLarge as error:
        raise ProblemError("too-large", str(error)) from None
    except PerfciError as error:
        raise ProblemError("bad-request", str(error)) from None


def _content_encoding(request: Request) -> str:
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip"):
        raise ProblemError("media-type", "A body is taken plain or with Content-Encoding gzip.")
    return coding


def _mimetype_text(request: Request) -> str:
    return request.mimetype[:80] or "none"
