"""Parse untrusted JSON and its values: numbers, times, counts, texts and commits."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfci.formats.bounded_files import MIB, read_decompressed
from perfci.model import Commit, NamedValues, PerfciError

if TYPE_CHECKING:
    from pydantic import ValidationError

MAX_BYTES = 64 * MIB
"""Size limit; a file with all samples is a few megabytes, and some twenty times its size when parsed."""

UNSAFE_ESCAPES = re.compile(rb"\\u(?:0000|[dD][89abAB])")
"""Escapes that may decode to text no database can store: a zero character, half of a surrogate pair."""

ZERO_CHARACTER = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""The escape of a zero character in JSON, in contrast to a backslash, which is doubled, before ``u0000``."""

CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Characters that are invisible, change the text direction or end a line."""

MAX_TEXT_LENGTH = 2_000
"""Characters of a value that is not a name."""

FIRST_YEAR, LAST_YEAR = 1900, 2999
"""Plausible years of a measurement; any other is a broken clock or not a time."""

SHA_PATTERN = re.compile(r"[0-9a-f]{7,64}")


def read_json_and_bytes(path: Path) -> tuple[Any, bytes]:
    """Read the JSON of a file, and return its value and its bytes."""
    body = read_decompressed(path, MAX_BYTES)
    return parse_json(body, str(path)), body


def parse_json(body: bytes, source_name: str) -> Any:
    """Parse JSON as Python tools write it, with bare NaN and Infinity."""
    try:
        content = json.loads(body)
        if UNSAFE_ESCAPES.search(body):
            text = json.dumps(content, ensure_ascii=False)
            if ZERO_CHARACTER.search(text):
                raise ValueError("it holds a zero character")
            text.encode()  # a lone surrogate raises, and that is a ValueError
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise PerfciError(f"{source_name} is not readable JSON: {reason}.") from error
    return content


def parse_json_or_lines(body: bytes, source_name: str) -> list[Any]:
    """Parse one JSON value, or one on each line, into a list of values; lists are flattened by one level."""
    lines = [line for line in body.split(b"\n") if line.strip()]
    try:
        values = [parse_json(body, source_name)]
    except PerfciError:
        if len(lines) < 2:
            raise
        values = [
            parse_json(line, f"{source_name}, line {number}") for number, line in enumerate(lines, start=1)
        ]
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def dict_or_empty(value: object) -> Mapping[str, Any]:
    """Return a dict as it is, and an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def list_or_empty(value: object) -> list[Any]:
    """Return a list as it is, and an empty one for any other value."""
    return value if isinstance(value, list) else []


def to_text(value: object) -> str:
    """Convert a value to text for a name, a parameter or an environment; empty for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def parse_finite(value: object) -> float | None:
    """Return a finite number as float; None for a missing or infinite value or one that is not a number."""
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
    """Parse ISO 8601 or seconds since 1970, in UTC if without a zone; None for any other value."""
    seconds = parse_finite(value)
    try:
        if seconds is not None:
            moment: datetime | None = datetime.fromtimestamp(seconds, UTC)
        else:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None
    if moment is None or not FIRST_YEAR <= moment.year < LAST_YEAR:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_count(value: object, limit: int = 2**31) -> int | None:
    """Parse a positive count below ``limit``; None for any other value."""
    number = parse_finite(value)
    return round(number) if number is not None and 0.5 < number < limit else None


def file_modified_at(path: Path) -> datetime:
    """Return when a file was written, for formats without a time of measurement."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def to_text_pairs(values: Mapping[str, object]) -> NamedValues:
    """Freeze a mapping as pairs of text, without empty names and values."""
    return tuple((name, text) for name, value in values.items() if name and (text := to_text(value)))


def sanitize_text(text: str) -> str:
    """Replace control characters in text that is not a name, and truncate it to ``MAX_TEXT_LENGTH``."""
    return CONTROL_CHARACTERS.sub("\ufffd", text)[:MAX_TEXT_LENGTH]


def build_valid_commit(sha: object, **fields: Any) -> Commit | None:
    """Build a commit with the given fields; None if ``sha`` is not a commit hash."""
    sha_text = to_text(sha).lower()
    if not SHA_PATTERN.fullmatch(sha_text):
        return None
    return Commit(sha_text, **{**fields, "branch": sanitize_text(fields.get("branch", ""))})


def describe_first_error(error: ValidationError) -> str:
    """Format the first error with its place and input, and the number of further errors.

    For instance ``results[3].processes[0].pair: Input should be a valid integer (found 'x')``.
    """
    errors = error.errors(include_url=False)
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in errors[0]["loc"]).lstrip(".")
    input_value = ""
    if errors[0]["type"] not in ("json_invalid", "missing"):
        input_value = f" (found {repr(errors[0]['input'])[:80]})"
    more = f", and {len(errors) - 1} more errors" if len(errors) > 1 else ""
    return f"{place or 'document'}: {errors[0]['msg']}{input_value}{more}."
