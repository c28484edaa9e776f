"""Read ``asv.conf.json`` into perfci's settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfci.model import PerfciError


def load_asv_config(path: Path) -> dict[str, Any]:
    """Read the settings of an asv project that perfci has a place for, so that it runs unchanged."""
    values = _load_commented_json(path)
    matrix = values.get("matrix", {})
    # Older files have the requirements at the top of the matrix, without "req":
    # https://asv.readthedocs.io/en/stable/asv.conf.json.html#matrix
    requirements = matrix.get("req", {} if set(matrix) & {"env", "env_nobuild"} else matrix)
    suite = {"path": str(values.get("benchmark_dir", "benchmarks"))}
    timeout = values.get("default_benchmark_timeout")
    return {
        "project": {
            "name": str(values.get("project", "")),
            "branch": str((values.get("branches") or [""])[0] or ""),
        },
        "suite": suite | ({"timeout_s": float(timeout)} if timeout else {}),
        "environment": {
            "requirements": tuple(_list_requirements(requirements)),
            "build": tuple(_list_commands(values, path)),
        },
    }


def _list_requirements(matrix: Mapping[str, Any]) -> list[str]:
    """List the requirements of one environment: the first value of each axis, without asv's ``pip+``
    prefix.
    """
    settings = []
    for name, versions in matrix.items():
        version = (versions or [""])[0] if isinstance(versions, list) else versions
        if version is not None:
            settings.append(name.removeprefix("pip+") + (f"=={version}" if version else ""))
    return settings


def _list_commands(values: Mapping[str, Any], path: Path) -> list[str]:
    """Read asv's install commands, changed to install where perfci wants it; the default builds a wheel."""
    commands = [*(values.get("build_command") or []), *(values.get("install_command") or [])]
    # An empty list is a choice too: nothing is built then.
    if "build_command" in values or "install_command" in values:
        return [str(command) for command in commands]
    builds = any((path.parent / name).exists() for name in ("pyproject.toml", "setup.py"))
    return ["in-dir={build_dir} python -m pip install --no-deps --target {target} ."] if builds else []


def _load_commented_json(path: Path) -> dict[str, Any]:
    """Load JSON with ``//`` comments and trailing commas, as asv allows."""
    # Strings are matched first and kept, so that "https://..." does not begin a comment.
    text = re.sub(
        r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda m: m.group(1) or "", path.read_text(), flags=re.S
    )
    text = re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda m: m.group(1) or "", text)
    try:
        values = json.loads(text)
    except ValueError as error:
        raise PerfciError(f"{path} is not readable as asv's configuration: {error}") from None
    if not isinstance(values, dict):
        raise PerfciError(f"{path}: a JSON object was expected")
    return values
