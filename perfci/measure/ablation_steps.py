"""The steps of a ladder, as ``perfci.toml`` says them: each a change to the one before."""

from __future__ import annotations

import re

from perfci.config import AblationTable, Config
from perfci.measure.open_session import SessionScope
from perfci.measure.variant_groups import ParameterAssignment
from perfci.model import PerfciError
from perfci.runner.frozen_suite import Cell


def find_ablation(config: Config, name: str) -> AblationTable:
    known = {table.name: table for table in config.settings.ablation}
    if name not in known:
        there = f"there are {', '.join(known)}" if known else "perfci.toml has no [[ablation]]"
        raise PerfciError(f"there is no ladder {name!r}; {there}")
    return known[name]


def expand_steps(table: AblationTable) -> list[ParameterAssignment]:
    """Each step in full: what it does not set is as in the step before it."""
    first = table.steps[0].set
    steps: list[ParameterAssignment] = []
    for step in table.steps:
        if missing := [name for name in step.set if name not in first]:
            raise PerfciError(
                f"the ladder {table.name!r}: the step {step.name!r} sets {missing[0]}, which the first step does not; "
                "the first step says what every parameter is before it is changed"
            )
        below = steps[-1] if steps else {}
        steps.append({**below, **{name: str(value) for name, value in step.set.items()}})
    return steps


def select_cells(scope: SessionScope, table: AblationTable) -> list[Cell]:
    return [cell for cell in scope.cells if re.search(table.match, cell.name)]
