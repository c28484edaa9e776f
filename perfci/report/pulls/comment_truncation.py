"""Truncate a text to a size limit: blocks lose rows, and say how many are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.number_format import format_count


@dataclass(frozen=True, slots=True)
class CommentBlock:
    """Rows below a heading, as many as fit; a block without rows is never cut.

    ``summary`` is the line of a folded block; it must not hold foreign text, as GitHub reads no code
    span there. ``hidden_rows`` counts rows that are left out in any case.
    """

    heading: str = ""
    rows: Sequence[str] = ()
    summary: str = ""
    expanded: bool = False
    hidden_rows: int = 0
    row_noun: str = "row"

    def render(self, count: int) -> str:
        """Render the block with its first ``count`` rows."""
        left_out = len(self.rows) - count + self.hidden_rows
        heading = [self.heading] if self.heading and (count or not self.rows) else []
        omission = f"… and {format_count(left_out, f'more {self.row_noun}')} not shown." if left_out else ""
        inside = "\n\n".join(part for part in ("\n".join([*heading, *self.rows[:count]]), omission) if part)
        if not self.summary:
            return inside
        # GitHub reads Markdown inside <details> only after an empty line.
        tag = "<details open>" if self.expanded else "<details>"
        return f"{tag}<summary>{self.summary}</summary>\n\n{inside}\n\n</details>"


def render_blocks_within_limit(blocks: Sequence[CommentBlock], max_bytes: int) -> str:
    """Render all blocks in fewer than ``max_bytes`` UTF-8 bytes, filling the earlier blocks first.

    Bytes are an upper bound for characters, in whichever unit GitHub counts them.
    """
    room = max_bytes - 1 - sum(_byte_size(block, 0) + len(BLOCK_SEPARATOR) for block in blocks)
    texts = []
    for block in blocks:
        count = _count_rows_within(block, room)
        room -= _byte_size(block, count) - _byte_size(block, 0)
        texts.append(block.render(count))
    return BLOCK_SEPARATOR.join(texts) + "\n"


BLOCK_SEPARATOR = "\n\n"


def _count_rows_within(block: CommentBlock, room: int) -> int:
    """Count the rows that fit into ``room`` bytes beyond the block without rows."""
    base_size = _byte_size(block, 0)
    lowest, highest = 0, len(block.rows)
    while lowest < highest:
        middle = (lowest + highest + 1) // 2
        if _byte_size(block, middle) - base_size <= room:
            lowest = middle
        else:
            highest = middle - 1
    return lowest


def _byte_size(block: CommentBlock, count: int) -> int:
    return len(block.render(count).encode())
