"""Encode names as URL path segments: every name has exactly one spelling, and no two names share one."""

from __future__ import annotations

import re
from collections.abc import Collection

FORMAT_SUFFIXES = ("json", "csv", "svg", "png", "atom", "md")
"""The suffixes that choose another form of a page; no encoded name ends in one."""

ESCAPE_SEQUENCE = re.compile(b"~([0-9A-F]{2})")
PLAIN_NAME = re.compile(r"[A-Za-z0-9._-]+")
VALID_SEGMENT = re.compile("~|(?:[A-Za-z0-9._:-]|~[0-9A-F]{2})+")


def encode_segment(name: str, reserved: Collection[str] = ()) -> str:
    """Encode a name: a slash becomes a colon, what a URL may not hold becomes ``~HH``, the rest stays
    readable.

    ``reserved`` are segments with another meaning in the same place; they are spelled with an escape instead.
    """
    # An empty segment would vanish from the address, so an empty name has a spelling too.
    text = name if PLAIN_NAME.fullmatch(name) else "".join(map(_encode_character, name)) or "~"
    stem, dot, suffix = text.rpartition(".")
    # Browsers resolve dots, even as %2E: https://url.spec.whatwg.org/#double-dot-path-segment
    if text in {".", ".."} or (dot and suffix in FORMAT_SUFFIXES):
        text = f"{stem.replace('.', '~2E') if text == '..' else stem}~2E{suffix}"
    return f"~{ord(text[0]):02X}{text[1:]}" if text in reserved else text


def decode_segment(text: str, reserved: Collection[str] = ()) -> str:
    """Decode a segment; anything but the one spelling of a name is refused with ``ValueError``."""
    if not VALID_SEGMENT.fullmatch(text):
        raise ValueError(f"{text!r} is not the encoding of a name")
    raw = b"" if text == "~" else text.replace(":", "/").encode()
    decoded = ESCAPE_SEQUENCE.sub(lambda match: bytes([int(match[1], 16)]), raw).decode(
        "utf-8", "surrogatepass"
    )
    if encode_segment(decoded, reserved) != text:
        raise ValueError(f"{text!r} is not the encoding of a name")
    return decoded


def _encode_character(character: str) -> str:
    if character == "/":
        return ":"
    if character.isascii() and (character.isalnum() or character in "._-"):
        return character
    # Names of files may hold lone surrogates, which UTF-8 alone refuses.
    return "".join(f"~{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
