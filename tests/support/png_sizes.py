"""The size of a PNG picture, from its header."""

from __future__ import annotations

import struct


def read_png_size(picture: bytes) -> tuple[int, int]:
    """Return width and height in pixels; raise where the bytes are no PNG."""
    if picture[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("a PNG was expected")
    width, height = struct.unpack(">II", picture[16:24])
    return width, height
