"""Read the generic JSON of github-action-benchmark's custom tools: ``[{"name", "unit", "value"}, ...]``.

Whether bigger or smaller is better is no part of the file but of the tool's name (``customBiggerIsBetter``): it is
given with ``--direction``, or follows from the unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from perfci.formats import Document, Given, Warn, unit_conversion
from perfci.formats.run_builder import Assembly
from perfci.formats.value_parsing import file_time, finite, mapping, read_json, text
from perfci.model import Clock, PerfciError, Summary

CHANGED: Literal["refuse", "add"] = "refuse"

TOOL = "generic"

START = re.compile(rb"\s*\[\s*\{")


def recognises(path: Path, head: bytes) -> bool:
    return START.match(head) is not None and all(mark in head for mark in (b'"name"', b'"unit"', b'"value"'))


def documents(path: Path, given: Given, warn: Warn) -> Iterator[Document]:
    """One run: each entry is a benchmark with one number; ``range`` and ``extra`` are free text and not kept."""
    content, body = read_json(path)
    if not isinstance(content, list):
        raise PerfciError(f'{path} is no generic file: expected a list of {{"name", "unit", "value"}}.')
    run = Assembly(TOOL, str(path), given, warn, started_at=file_time(path))
    for entry in map(mapping, content):
        name, unit, value = text(entry.get("name")), text(entry.get("unit")), finite(entry.get("value"))
        if not name or value is None:
            warn("an entry without a name or a number is left out")
            continue
        known = unit_conversion.known("value", unit, given.direction)
        if known is None:
            run.quarantine(name, (), "value", [value], Clock.VALUE, entry, unit_conversion.unknown(name, unit))
        else:
            run.summary(name, (), known.metric, Summary(known.scale.of(value)))
    yield run.document(body)
