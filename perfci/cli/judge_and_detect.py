"""``perfci judge`` and ``perfci detect``: the statistics as filters, JSON in and JSON out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import click

from perfci.cli.shared.options import global_options
from perfci.formats.json_filters.detect_change_points import detect_change_points_json
from perfci.formats.json_filters.judge_cases import judge_cases_json
from perfci.model import PerfciError

MAX_DIGITS = 1000
"""Digits of the longest whole number that is read as one; no float has more than 309."""


@click.command("judge")
@click.option("--json", "as_json", is_flag=True, help="no effect (JSON is the only format)")
@global_options
def judge_command(as_json: bool) -> None:
    """Read {"op": "compare" or "decide", "min_effect", "cases": [...]} from stdin.

    Write {"results": [...]} to stdout.
    """
    run_json_filter(judge_cases_json)


@click.command("detect")
@click.option("--json", "as_json", is_flag=True, help="no effect (JSON is the only format)")
@global_options
def detect_command(as_json: bool) -> None:
    """Read {"op": "detect", "min_effect", "series": [...]} from stdin, write {"results": [...]}."""
    run_json_filter(detect_change_points_json)


def run_json_filter(transform: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read a JSON object from stdin, transform it, write the result to stdout."""
    try:
        document = json.load(sys.stdin, parse_int=_parse_whole_number)
    except (ValueError, RecursionError) as error:
        raise PerfciError(f"standard input is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise PerfciError(f"a JSON object was expected on standard input, found {type(document).__name__}")
    json.dump(transform(document), sys.stdout)
    sys.stdout.write("\n")


def _parse_whole_number(digits: str) -> float:
    """A number with more digits than Python converts is infinite, so that its case fails alone."""
    return int(digits) if len(digits) < MAX_DIGITS else float(digits)
