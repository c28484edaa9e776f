"""Check the size and nesting of untrusted JSON before it is parsed into values."""

from __future__ import annotations

import json
from typing import Any

from perfci.model import PerfciError

MAX_COUNTS = {(b"{", b"["): 250_000, (b":",): 1_250_000, (b",",): 2_000_000}
"""Objects and lists, keys, and values: ten thousand results of five processes, or a million samples, fit."""
MAX_KEYS = 1000
"""Keys of one object: as many as an environment may observe."""


class JsonTooLarge(PerfciError):
    """JSON of more parts than any run needs; parsing takes several hundred bytes for each empty list."""


def require_json_limits(raw: bytes, source_name: str) -> None:
    """Refuse JSON of too many parts or nested too deep; invalid JSON is left to its reader to refuse."""
    if any(sum(map(raw.count, marks)) > limit for marks, limit in MAX_COUNTS.items()):
        raise JsonTooLarge(f"{source_name} holds too many objects, lists or values.")
    try:
        json.loads(raw, object_pairs_hook=_check_object)
    except RecursionError:
        raise PerfciError(f"{source_name} is nested too deep.") from None
    except _InvalidObject as error:
        raise PerfciError(f"{source_name} {error}.") from None
    except ValueError:
        return


class _InvalidObject(Exception):
    """An object with duplicate keys or too many of them."""


def _check_object(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a duplicate key in one object, since parsers differ in which of the two values they keep."""
    if len(pairs) > MAX_KEYS:
        raise _InvalidObject(f"has an object of {len(pairs)} keys; at most {MAX_KEYS} are expected")
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        raise _InvalidObject("has a key twice in one object")
