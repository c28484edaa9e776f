"""JSON that anybody may have written, before it becomes values: of how much it is made, and how deep."""

from __future__ import annotations

import json
from typing import Any

from perfci.model import PerfciError

MOST_OF = {(b"{", b"["): 250_000, (b":",): 1_250_000, (b",",): 2_000_000}
"""Objects and lists, keys, and values: ten thousand results of five processes, or a million samples, fit."""
MOST_KEYS = 1000
"""Keys of one object: as many as an environment may observe."""


class TooMuch(PerfciError):
    """More parts than any run has; a reader takes several hundred bytes for an empty list."""


def require_bounded(raw: bytes, what: str) -> None:
    """Refuse what is made of too many parts or nested too deep; what is no JSON at all, its reader says better."""
    if any(sum(map(raw.count, marks)) > most for marks, most in MOST_OF.items()):
        raise TooMuch(f"{what} holds more objects, lists or values than any run has.")
    try:
        json.loads(raw, object_pairs_hook=_checked)
    except RecursionError:
        raise PerfciError(f"{what} is nested too deep.") from None
    except _TwiceTold as error:
        raise PerfciError(f"{what} {error}.") from None
    except ValueError:
        return


class _TwiceTold(Exception):
    """An object that its readers would not agree upon, or that is none of ours."""


def _checked(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a key that occurs twice in one object: every reader would believe another of the two."""
    if len(pairs) > MOST_KEYS:
        raise _TwiceTold(f"has an object of {len(pairs)} keys; at most {MOST_KEYS} are expected")
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        raise _TwiceTold("has a key twice in one object")
