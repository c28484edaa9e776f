"""Show the plan of a measurement: what each cell costs, and what a budget leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import click

from perfci.cli.shared.command_output import write_json
from perfci.measure.cells_within_time_budget import LeftOutCell
from perfci.number_format import format_count, format_duration
from perfci.report.text_table import align_table
from perfci.runner.suite_cells import Cell, CostSource
from perfci.verdicts.judging_policy import Policy

MAX_CELLS_SHOWN = 8
"""Cells that are named for one reason; --json has them all."""


def format_plan_summary(cells: Sequence[Cell], visits: int) -> str:
    """Say how many processes are planned, how long they take, and how that is known."""
    cost_s = visits * sum(cell.cost_s for cell in cells)
    sources = Counter(cell.cost_source for cell in cells)
    counts = ", ".join(f"{sources[source]} {source}" for source in CostSource if sources[source])
    return (
        f"{format_count(len(cells), 'cell')} in {format_count(visits, 'visit')}: about "
        f"{format_duration(cost_s)} (costs: {counts})"
    )


def format_confirmation_cost(cells: Sequence[Cell], policy: Policy) -> str:
    """Say what each candidate change of a range may add: few pairs of the cheapest to many of the dearest."""
    costs_s = [cell.cost_s for cell in cells]
    fewest, most = policy.default.looks[0], policy.default.looks[-1]
    least, greatest = 2 * fewest * min(costs_s), 2 * most * max(costs_s)
    return (
        f"fresh pairs add {format_duration(least)} to {format_duration(greatest)} for each candidate change; "
        "--budget limits both"
    )


def write_measurement_plan(
    cells: Sequence[Cell], visits: int, json_file: str | None, policy: Policy | None = None
) -> None:
    """Write every cell with its cost, the source of that and its time limit, dearest first.

    Where changes are going to be confirmed by a ``policy``, what each may add stands below.
    """
    dearest_first = sorted(cells, key=lambda cell: -cell.cost_s)
    if json_file:
        rows = [
            {
                "cell": cell.name,
                "cost_s": cell.cost_s,
                "source": cell.cost_source,
                "timeout_s": cell.timeout_s,
                "in_default": cell.in_default,
            }
            for cell in dearest_first
        ]
        write_json(json_file, {"visits": visits, "cells": rows})
    if json_file == "-":
        return
    table = []
    for cell in dearest_first:
        suite = "default, full" if cell.in_default else "full"
        cost, limit = f"{cell.cost_s:.3g} s", f"{cell.timeout_s:.0f} s"
        table.append([cell.name, cost, limit, str(cell.cost_source), suite])
    click.echo(align_table(["cell", "cost", "time limit", "known by", "suite"], table, frozenset({0, 3, 4})))
    click.echo(format_plan_summary(cells, visits))
    if policy:
        click.echo(format_confirmation_cost(cells, policy))


def format_left_out_cells(left_out: Sequence[LeftOutCell]) -> str:
    """Name what the budget had no room for, by reason, and whether the same call again measures it."""
    lines = []
    for reason in dict.fromkeys(left.reason for left in left_out):
        named = [left for left in left_out if left.reason == reason]
        cost = format_duration(sum(left.cost_s for left in named))
        cells = ", ".join(left.cell.name for left in named[:MAX_CELLS_SHOWN])
        more = f" and {len(named) - MAX_CELLS_SHOWN} more" if len(named) > MAX_CELLS_SHOWN else ""
        lines.append(f"left out: {format_count(len(named), 'cell')} ({cost}), {reason}: {cells}{more}")
    if any(left.fits_later for left in left_out):
        lines.append("the same call again goes on here")
    return "\n".join(lines)
