"""A text that stays below a limit: blocks of rows that give way, and always say how much they left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.report.number_format import counting


@dataclass(frozen=True, slots=True)
class Block:
    """Rows below a heading, of which as many are written as there is room for; text without rows is never cut.

    ``summary`` is the line of a folded block; it must be our own words, for GitHub reads no code span there.
    ``more`` are rows that are not shown here in any case, but count.
    """

    heading: str = ""
    rows: Sequence[str] = ()
    summary: str = ""
    open: bool = False
    more: int = 0
    thing: str = "row"

    def written(self, count: int) -> str:
        """The block with its first rows."""
        left_out = len(self.rows) - count + self.more
        heading = [self.heading] if self.heading and (count or not self.rows) else []
        told = f"… and {counting(left_out, f'more {self.thing}')}, left out here." if left_out else ""
        inside = "\n\n".join(part for part in ("\n".join([*heading, *self.rows[:count]]), told) if part)
        if not self.summary:
            return inside
        tag = "<details open>" if self.open else "<details>"
        return f"{tag}<summary>{self.summary}</summary>\n\n{inside}\n\n</details>"


def fitted(blocks: Sequence[Block], limit: int) -> str:
    """All blocks, the rows of the earlier ones first, in fewer UTF-8 bytes than the limit.

    Bytes, because they are the most that any way to count characters comes to.
    """
    room = limit - 1 - sum(_size(block, 0) + len(GAP) for block in blocks)
    texts = []
    for block in blocks:
        count = _most(block, room)
        room -= _size(block, count) - _size(block, 0)
        texts.append(block.written(count))
    return GAP.join(texts) + "\n"


GAP = "\n\n"


def _most(block: Block, room: int) -> int:
    """How many rows fit into the room left beyond that of the bare block."""
    bare = _size(block, 0)
    few, many = 0, len(block.rows)
    while few < many:
        half = (few + many + 1) // 2
        few, many = (half, many) if _size(block, half) - bare <= room else (few, half - 1)
    return few


def _size(block: Block, count: int) -> int:
    return len(block.written(count).encode())
