"""The tables of a profile as text: phases, kernels, operators and lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfci.measure.profiles import ProfileReport, ProfileRow
from perfci.report.escaping import make_printable
from perfci.report.number_format import (
    DisplayScale,
    choose_scale,
    format_count,
    format_number,
    format_percent,
)
from perfci.report.verdict_table import align_table

MAX_ROWS_SHOWN = 10
MAX_NAME_WIDTH = 88


def format_tables(tables: ProfileReport) -> Iterator[str]:
    """A line on the calls, then one table per kind of row."""
    scale = choose_scale([tables.seconds], "seconds")
    parts = [f"an operator ran for {format_percent(tables.in_operators)} of it"]
    parts += [f"a kernel for {format_percent(tables.busy)}"] if tables.busy is not None else []
    calls = format_count(tables.calls, "call")
    yield f"{calls} of {scale.format_value(tables.seconds)} on {tables.device}; {', '.join(parts)}\n"
    if tables.phases:
        yield format_phase_table(tables, scale)
    else:
        yield "no phases marked (the training and generation of a ModelBench mark some)\n"
    if tables.kernels:
        yield format_table(("kernel", "device time", "share", "calls"), tables.kernels, scale)
    else:
        yield f"kernels: {tables.missing.get('kernels', 'none')}\n"
    yield format_table(("operator", "self time", "share", "calls"), tables.operators, scale)
    yield format_table(("line", "CPU time", "share", ""), tables.lines, scale)


def format_phase_table(tables: ProfileReport, scale: DisplayScale) -> str:
    """Host time of every phase beside the device time of the work launched in it."""
    on_device = {row.name: row for row in tables.device_phases}
    rows = []
    for row in tables.phases:
        device = on_device.get(row.name)
        host = (row.name, scale.format_value(row.seconds), format_percent(row.share))
        on_gpu = (scale.format_value(device.seconds), format_percent(device.share)) if device else ("", "")
        rows.append((*host, *on_gpu))
    return align_table(("phase", "host time", "share", "device time", "share"), rows) + "\n"


def format_table(headings: tuple[str, str, str, str], rows: Sequence[ProfileRow], scale: DisplayScale) -> str:
    """One table of rows with time, share and calls; the longest first."""
    if not rows:
        return f"{headings[0]}s: none\n"
    cells = [
        (
            truncate_name(make_printable(row.name)),
            scale.format_value(row.seconds),
            format_percent(row.share),
            format_number(row.calls) if row.calls else "",
        )
        for row in rows[:MAX_ROWS_SHOWN]
    ]
    return align_table(headings, cells) + "\n"


def truncate_name(name: str) -> str:
    """A name of at most MAX_NAME_WIDTH characters."""
    return name if len(name) <= MAX_NAME_WIDTH else name[: MAX_NAME_WIDTH - 1] + "…"
