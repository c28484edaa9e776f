"""Where a list goes on: an opaque word that holds the number of the last row that was shown."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import TypeVar

from perfci_web.api.problems import Declined

T = TypeVar("T")


def read(cursor: str | None) -> int:
    """The row after which the list goes on; 0 from its start."""
    if cursor is None:
        return 0
    try:
        number = int.from_bytes(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), "big")
    except (ValueError, binascii.Error):
        number = 0
    if not 0 < number < 2**63 or written(number) != cursor:
        raise Declined("bad-request", "The cursor is none that this server gave: start the list again.")
    return number


def written(row_id: int) -> str:
    return base64.urlsafe_b64encode(row_id.to_bytes((row_id.bit_length() + 7) // 8, "big")).decode().rstrip("=")


def page(found: Sequence[T], limit: int, row_id: Callable[[T], int]) -> tuple[Sequence[T], str | None]:
    """Of ``limit + 1`` rows those to show, and the cursor of the next page where there is one more."""
    items = found[:limit]
    return items, written(row_id(items[-1])) if len(found) > limit else None
