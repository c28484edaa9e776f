"""What every reader of another tool's file needs: its JSON, checked, and the values in it as ours."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfci.formats.input_files import MIB, read_bytes
from perfci.model import (
    Commit,
    NamedValues,
    PerfciError,
)

MAX_BYTES = 64 * MIB
"""One file of such a tool with all its samples is a few megabytes; parsed it takes some twenty times its size."""

SUSPECT_ESCAPES = re.compile(rb"\\u(?:0000|[dD][89abAB])")
"""Escapes that may decode to text no database takes: a zero character, half of a surrogate pair."""

CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Characters that make a name look like another one, or end a line in it."""

MAX_TEXT_LENGTH = 2_000
"""Characters of a value that is no name."""

FIRST_YEAR, LAST_YEAR = 1900, 2999
"""A run is measured in between; anything else is a broken clock or no time."""

SHA_PATTERN = re.compile(r"[0-9a-f]{7,64}")


def read_json(path: Path) -> tuple[Any, bytes]:
    """The JSON of a file, and the bytes it was read from."""
    body = read_bytes(path, MAX_BYTES)
    return parse_json(body, str(path)), body


def parse_json(body: bytes, source_name: str) -> Any:
    """Parse JSON as Python tools write it, with bare NaN and Infinity."""
    try:
        content = json.loads(body)
        if SUSPECT_ESCAPES.search(body):
            _require_storable_text(content)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise PerfciError(f"{source_name} is not readable JSON: {reason}.") from error
    return content


def parse_json_lines(body: bytes, source_name: str) -> list[Any]:
    """The values of a file that is one JSON value, or has one on each line; lists are taken apart."""
    lines = [line for line in body.split(b"\n") if line.strip()]
    try:
        values = [parse_json(body, source_name)]
    except PerfciError:
        if len(lines) < 2:
            raise
        values = [
            parse_json(line, f"{source_name}, line {number}") for number, line in enumerate(lines, start=1)
        ]
    return [one for value in values for one in (value if isinstance(value, list) else [value])]


def as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def to_text(value: object) -> str:
    """What a value reads as in a name, a parameter or an environment."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def parse_finite(value: object) -> float | None:
    """A number that can be stored and compared; nothing for what is missing, infinite or no number."""
    if type(value) is float:  # as nearly all are, of which a file may hold millions
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def parse_time(value: object) -> datetime | None:
    """A time as ISO 8601 or seconds since 1970; one without a zone is in UTC. Nothing for what is no time."""
    seconds = parse_finite(value)
    try:
        if seconds is not None:
            found: datetime | None = datetime.fromtimestamp(seconds, UTC)
        else:
            found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None
    if found is None or not FIRST_YEAR <= found.year < LAST_YEAR:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def parse_count(value: object, limit: int = 2**31) -> int | None:
    """A count of something; nothing for what is no number, or none that a database counts to."""
    number = parse_finite(value)
    return round(number) if number is not None and 0.5 < number < limit else None


def file_modified_at(path: Path) -> datetime:
    """When a file was written, for those that do not say when they measured."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def to_pairs(values: Mapping[str, object]) -> NamedValues:
    """Freeze a mapping as text, without what is empty."""
    return tuple((name, told) for name, value in values.items() if name and (told := to_text(value)))


def sanitize_text(text: str) -> str:
    """Text that is no name: characters that make it look like another are replaced, and its end is cut off."""
    return CONTROL_CHARACTERS.sub("\ufffd", text)[:MAX_TEXT_LENGTH]


def parse_commit(sha: object, **fields: Any) -> Commit | None:
    """A commit as a file names it; nothing where it does not."""
    found = to_text(sha).lower()
    return (
        Commit(found, **{**fields, "branch": sanitize_text(fields.get("branch", ""))})
        if SHA_PATTERN.fullmatch(found)
        else None
    )


def _require_storable_text(content: Any) -> None:
    told = json.dumps(content, ensure_ascii=False)
    if "\\u0000" in told:
        raise ValueError("it holds a zero character")
    told.encode()  # a lone surrogate raises, and that is a ValueError
