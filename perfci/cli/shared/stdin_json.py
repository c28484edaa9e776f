"""A filter from one JSON document on stdin to one on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from perfci.model import PerfciError


def run_json_filter(transform: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read a JSON object from stdin, transform it, write the result to stdout."""
    try:
        document = json.load(sys.stdin)
    except ValueError as error:
        raise PerfciError(f"standard input is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise PerfciError(f"a JSON object was expected on standard input, found {type(document).__name__}")
    json.dump(transform(document), sys.stdout)
    sys.stdout.write("\n")
