"""The CSV twin of a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from flask import Response

from perfci.report.escaping import escape_csv_cell


def csv_response(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], name: str) -> Response:
    """Numbers as they are, absent as empty, foreign words so that no spreadsheet runs them."""
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


def format_pairs(pairs: Mapping[str, str]) -> str:
    """Names and values in one field."""
    return " ".join(f"{name}={value}" for name, value in pairs.items())
