"""``perfci detect``: the change point statistics as a filter."""

from __future__ import annotations

import click

from perfci.cli.shared.options import global_options
from perfci.cli.shared.stdin_json import run_json_filter
from perfci.verdicts.json_filters import detect_document


@click.command("detect")
@click.option("--json", "as_json", is_flag=True, help="no effect (JSON is the only format)")
@global_options
def command(as_json: bool) -> None:
    """Read {"op": "detect", "min_effect", "series": [...]} from stdin, write {"results": [...]}."""
    run_json_filter(detect_document)
