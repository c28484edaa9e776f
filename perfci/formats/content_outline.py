"""Outline the beginning of a file: which keys its JSON has, and where. Formats are detected by it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

KeyPath = tuple[str, ...]
"""The keys that lead to a key, and it; ``[]`` is each item of a list."""

TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"(?:\s*:)?|\\?\Z)|[{}\[\]]', re.DOTALL)
"""A bracket, or a string with the colon behind it if it is a key; a string may be cut off at the end. Numbers
and commas need no reading."""

MAX_DEPTH = 4
"""Keys that are nested deeper say nothing about the format."""

MAX_KEYS = 5_000
"""Different keys; a file with more of them is none that an outline helps with."""


@dataclass(frozen=True)
class ContentOutline:
    """The beginning of a file's content, decompressed, and the keys in it; ``head`` may end anywhere.

    Of a list at the top, or of a file with an object on each line, every object counts as if it stood alone.
    """

    head: bytes

    @cached_property
    def is_json(self) -> bool:
        """Whether it begins like a JSON object or list."""
        return self.head.lstrip()[:1] in (b"{", b"[")

    @cached_property
    def is_list(self) -> bool:
        """Whether it begins like a list of objects."""
        return re.match(rb"\s*\[\s*\{", self.head) is not None

    @cached_property
    def keys(self) -> dict[KeyPath, str]:
        """All keys by their path, with the value of those whose value is text, otherwise empty."""
        keys: dict[KeyPath, str] = {}
        for path, text in _iter_keys(self.head) if self.is_json else ():
            keys[path] = keys.get(path) or text
            if len(keys) > MAX_KEYS:
                break
        return keys

    def has_keys(self, *paths: str) -> bool:
        """Whether all of these are keys, written as ``results/[]/command``."""
        return all(tuple(path.split("/")) in self.keys for path in paths)

    def has_path_ending(self, *end: str) -> bool:
        """Whether a key has a path that ends so."""
        return any(path[-len(end) :] == end for path in self.keys)


def _iter_keys(head: bytes) -> Iterator[tuple[KeyPath, str]]:
    """Yield the path of each key as it comes, and again with its value where that is text."""
    open_brackets: list[tuple[bytes, KeyPath]] = []
    key: KeyPath = ()
    for match in TOKEN.finditer(head):
        token = match[0]
        if token in (b"{", b"["):
            open_brackets.append((token, _path_inside(open_brackets, key)))
        elif token in (b"}", b"]"):
            del open_brackets[-1:]
        elif open_brackets and open_brackets[-1][0] == b"{":
            if token.endswith(b":"):
                key = (*open_brackets[-1][1], _decode(token.rstrip(b" \t\r\n:")))
            if key and len(key) <= MAX_DEPTH:
                yield key, "" if token.endswith(b":") else _decode(token)


def _path_inside(open_brackets: list[tuple[bytes, KeyPath]], key: KeyPath) -> KeyPath:
    """The path of an object or a list that begins, given the brackets around it and the key before it."""
    if not open_brackets:
        return ()
    bracket, path = open_brackets[-1]
    if bracket == b"{":
        return key
    return (*path, "[]") if path else ()


def _decode(token: bytes) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token.decode(errors="replace")
