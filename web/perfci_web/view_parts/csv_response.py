"""Responses that are CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flask import Response

from perfci.model import Series
from perfci.report.escaping import escape_csv_cell
from perfci.report.serializers import serialize_series


def build_csv_response(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], name: str) -> Response:
    """Build a CSV file: numbers in full precision, None empty, text escaped against spreadsheet formulas."""
    names = list(columns)
    return build_csv_response_of_cells(
        names, ([format_cell(row[column]) for column in names] for row in rows), name
    )


def build_csv_response_of_cells(columns: Iterable[str], rows: Iterable[Sequence[str]], name: str) -> Response:
    """Build a CSV file of cells that ``format_cell`` has made."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    response = Response(out.getvalue(), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'inline; filename="{name}"'
    return response


SERIES_COLUMNS = (
    "benchmark",
    "version",
    "parameters",
    "metric",
    "unit",
    "direction",
    "machine",
    "variant",
    "harness",
)
"""The columns of a series in a CSV file."""


def build_series_cells(series: Series) -> dict[str, Any]:
    """Build the cells of what identifies a series, under the names of ``SERIES_COLUMNS``."""
    return flatten_series_fields(serialize_series(series))


def flatten_series_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Format what a serialized series has of names and values for one field each."""
    return dict(fields) | {name: format_name_value_pairs(fields[name]) for name in ("parameters", "variant")}


def format_cell(value: object) -> str:
    """Format one cell."""
    if value is None:
        return ""
    return escape_csv_cell(value) if isinstance(value, str) else repr(value)


def format_name_value_pairs(pairs: Mapping[str, str]) -> str:
    """Format names and values for one field."""
    return " ".join(f"{name}={value}" for name, value in pairs.items())
