"""Responses that are CSV files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from flask import Response

from perfci.report.escaping import escape_csv_cell


def build_csv_response(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], name: str) -> Response:
    """Build a CSV file: numbers in full precision, None empty, text escaped against spreadsheet formulas."""
    names = list(columns)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_format_cell(row[column]) for column in names])
    response = Response(out.getvalue(), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = f'inline; filename="{name}"'
    return response


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    return escape_csv_cell(value) if isinstance(value, str) else repr(value)


def format_name_value_pairs(pairs: Mapping[str, str]) -> str:
    """Format names and values for one field."""
    return " ".join(f"{name}={value}" for name, value in pairs.items())
