"""``perfci calibration``: how often verdicts on equal commits were wrong, and the noise floors that equals showed."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import click

from perfci.cli.shared.context import current_config, open_store_to_read, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.history.calibration import load_calibration
from perfci.policies import build_policy
from perfci.report.calibration_text import format_calibration, serialize_calibration


@click.command("calibration")
@json_option
@global_options
def command(json_file: str | None) -> None:
    """Show the false-alarm meter: what comparisons of a commit with itself were told, and what was taken back.

    Every verdict ever given counts, retracted ones included. `perfci compare HEAD HEAD` feeds it.
    """
    config = current_config()
    with closing(open_store_to_read(config)) as store:
        found = load_calibration(store, config.project, build_policy(config), datetime.now(UTC))
    if json_file:
        write_json(json_file, serialize_calibration(config.project, found))
    if json_file != "-":
        click.echo(format_calibration(found), nl=False)
