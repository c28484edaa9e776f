"""Parse the files of a profiled cell into a profile that can be compared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perfci.measure.profiles.profile_cells_to_files import TABLES_FILE, TREE_FILE
from perfci.verdicts.explain.call_profile import (
    CallProfile,
    GraphBreak,
    OperatorCalls,
    SourceLine,
    StackTime,
    TableRow,
)

OUTSIDE_PHASES = "(outside any phase)"


def read_call_profile(folder: Path) -> CallProfile:
    """Read the profile that a process left in a folder."""
    return parse_call_profile((folder / TREE_FILE).read_text(), (folder / TABLES_FILE).read_text())


def parse_call_profile(tree_text: str, tables_text: str) -> CallProfile:
    """Parse ``call_tree.json`` and ``profile.json``."""
    tree, tables = json.loads(tree_text), json.loads(tables_text)
    all_lines: list[SourceLine] = [(path, number) for path, number in tree["lines"]]

    def lines(*numbers: Sequence[int]) -> tuple[SourceLine, ...]:
        return tuple(all_lines[number] for part in numbers for number in part)

    return CallProfile(
        stacks=tuple(
            StackTime(phase or OUTSIDE_PHASES, lines(opened, origin), cpu_s, wall_s)
            for phase, opened, origin, cpu_s, wall_s in tree["stacks"]
        ),
        operator_calls=tuple(
            OperatorCalls(phase or OUTSIDE_PHASES, lines(opened, origin), name, inputs, calls, seconds)
            for phase, opened, origin, name, inputs, calls, seconds in tree["operators"]
        ),
        calls_s=tuple((cpu_s, wall_s) for cpu_s, wall_s in tree["calls_s"]),
        sources=tree["sources"],
        graph_breaks=tuple(GraphBreak(item["reason"], lines(item["lines"])) for item in tree["graph_breaks"]),
        operators=_parse_rows(tables["operators"]),
        kernels=_parse_rows(tables["kernels"]),
        device=tables["device"],
    )


def _parse_rows(table: Any) -> tuple[TableRow, ...]:
    """The rows of a table; an absent one is an object with a reason."""
    if isinstance(table, dict):
        return ()
    return tuple(TableRow(row["name"], row["seconds"], row["calls"]) for row in table)
