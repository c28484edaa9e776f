"""``perfci judge``: the pull request statistics as a filter."""

from __future__ import annotations

import click

from perfci.cli.shared.options import global_options
from perfci.cli.shared.stdin_json import run_json_filter
from perfci.verdicts.json_filters import judge_document


@click.command("judge")
@click.option("--json", "as_json", is_flag=True, help="no effect (JSON is the only format)")
@global_options
def command(as_json: bool) -> None:
    """Read {"op": "compare" or "decide", "min_effect", "cases": [...]} from stdin.

    Write {"results": [...]} to stdout.
    """
    run_json_filter(judge_document)
