"""Write the output of a command: JSON to a file or stdout, or lines of text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from perfci.model import PerfciError


def write_json(target: str, value: Any) -> None:
    """Write JSON to a file or, for ``-``, to stdout: dataclasses as objects, enums as their values."""
    text = json.dumps(value, default=_to_json_value, indent=2, ensure_ascii=False)
    if target == "-":
        click.echo(text)
        return
    try:
        Path(target).write_text(text + "\n")
    except OSError as error:
        raise PerfciError(f"{target} cannot be written: {error.strerror}") from None


def write_list(
    target: str | None, values: Sequence[object], lines: Sequence[str], empty_message: str
) -> None:
    """Write a list as JSON if ``target`` is set, and as lines unless JSON goes to stdout."""
    if target:
        write_json(target, values)
    if target != "-":
        click.echo("\n".join(lines) or empty_message)


def _to_json_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)
