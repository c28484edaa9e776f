"""The body of a request: bounded before it is read, strict before it is believed.

The order matters. The size comes first, then the inflating in steps, then how much is in it and how deep; only then
pydantic, whose reader takes several hundred bytes for an empty list, and as many for each thing that is wrong.
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

from perfci.formats.json_limits import TooMuch, require_bounded
from perfci.model import PerfciError
from perfci.net.shapes import Asked
from perfci_web.api.problems import Declined, of_faults

MIB = 1024 * 1024
STEP = 64 * 1024
ONE_GZIP_MEMBER = 31  # zlib's window bits for gzip and nothing else
BIG = MIB
"""A body of this size becomes some ten times as much in Python: only a few are unpacked at once."""
BIG_AT_ONCE = 2
DRAIN = 4
"""A refused body is read to its end, so that the client sees the answer, up to so many times the limit."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A body as it was meant, and how many bytes it took on the wire."""

    body: bytes
    wire: int


class Bodies:
    """Reads bodies within limits that hold for the whole process."""

    def __init__(self, *, wire: int, inflated: int) -> None:
        self._wire, self._inflated = wire, inflated
        self._big = threading.BoundedSemaphore(BIG_AT_ONCE)

    @contextlib.contextmanager
    def reading(self, request: Request) -> Iterator[Raw]:
        """The body, while it is being handled: the memory of a big one is given back at the end of the block."""
        with contextlib.ExitStack() as held:
            wire = self._received(request)
            packed = _coding(request) == "gzip"
            yield Raw(self._unpacked(wire, held) if packed else self._counted(wire, held), len(wire))

    def _received(self, request: Request) -> bytes:
        if request.mimetype != "application/json":
            self._drain(request)
            raise Declined("media-type", f"A body of type application/json was expected, found {_shown(request)}.")
        _coding(request)
        if (request.content_length or 0) > self._wire:
            self._drain(request)
            raise self._too_large()
        try:
            body = request.stream.read(self._wire + 1)
        except ClientDisconnected:
            raise Declined("bad-request", "The body broke off before its announced end.") from None
        if len(body) > self._wire:
            self._drain(request)
            raise self._too_large()
        return body

    def _drain(self, request: Request) -> None:
        left = DRAIN * self._wire
        with contextlib.suppress(ClientDisconnected, OSError):
            while left > 0 and (chunk := request.stream.read(min(STEP, left))):
                left -= len(chunk)

    def _too_large(self) -> Declined:
        return Declined("too-large", f"A body of at most {self._wire / MIB:g} MiB is taken.")

    def _unpacked(self, wire: bytes, held: contextlib.ExitStack) -> bytes:
        """Inflate in steps; one member, and nothing behind it."""
        unpacker = zlib.decompressobj(ONE_GZIP_MEMBER)
        parts: list[bytes] = []
        size = 0
        for start in range(0, len(wire), STEP):
            for chunk in _inflated(unpacker, wire[start : start + STEP]):
                before, size = size, size + len(chunk)
                if before <= BIG < size:
                    self._take_turn(held)
                if size > self._inflated:
                    raise Declined("too-large", f"A body may unpack to at most {self._inflated / MIB:g} MiB.")
                parts.append(chunk)
            if unpacker.eof:
                if unpacker.unused_data or start + STEP < len(wire):
                    raise Declined("bad-request", "The gzip body goes on behind its end.")
                return b"".join(parts)
        raise Declined("bad-request", "The gzip body breaks off before its end.")

    def _counted(self, wire: bytes, held: contextlib.ExitStack) -> bytes:
        if len(wire) > BIG:
            self._take_turn(held)
        return wire

    def _take_turn(self, held: contextlib.ExitStack) -> None:
        if not self._big.acquire(blocking=False):
            raise Declined("unavailable", "Other large bodies are being read: try again.")
        held.callback(self._big.release)


def _inflated(unpacker: Any, piece: bytes) -> Iterator[bytes]:
    """What one piece of a packed body inflates to, never more than a step of it in memory."""
    try:
        while True:
            chunk = unpacker.decompress(piece, STEP)
            piece = unpacker.unconsumed_tail
            yield chunk
            if unpacker.eof or (not piece and len(chunk) < STEP):
                return
    except zlib.error:
        raise Declined("bad-request", "The body is no gzip, though Content-Encoding says so.") from None


def parsed(raw: bytes, shape: type[BaseModel]) -> BaseModel:
    """A body as its class; whatever is wrong with it is told with its place."""
    if issubclass(shape, Asked) and len(raw) > BIG:
        raise Declined("too-large", f"A body of this kind may have at most {BIG // MIB} MiB.")
    _require_bounded(raw)
    try:
        return shape.model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise of_faults(error, "The body does not fit") from None


def _require_bounded(raw: bytes) -> None:
    try:
        require_bounded(raw, "The body")
    except TooMuch as error:
        raise Declined("too-large", str(error)) from None
    except PerfciError as error:
        raise Declined("bad-request", str(error)) from None


def _coding(request: Request) -> str:
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("identity", "gzip"):
        raise Declined("media-type", "A body is taken plain or with Content-Encoding gzip.")
    return coding


def _shown(request: Request) -> str:
    return request.mimetype[:80] or "none"
