"""``perfci calibration``: how often verdicts on equal commits were wrong, and the noise floors that equals showed."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import click

from perfci.cli.shared.context import config_here, store_to_read, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.history.calibration import calibration
from perfci.policies import policy_of
from perfci.report.calibration_text import calibration_fields, calibration_text


@click.command("calibration")
@json_option
@global_options
def command(json_file: str | None) -> None:
    """Show the false-alarm meter: what comparisons of a commit with itself were told, and what was taken back.

    Every verdict ever given counts, retracted ones included. `perfci compare HEAD HEAD` feeds it.
    """
    config = config_here()
    with closing(store_to_read(config)) as store:
        found = calibration(store, config.project, policy_of(config), datetime.now(UTC))
    if json_file:
        write_json(json_file, calibration_fields(config.project, found))
    if json_file != "-":
        click.echo(calibration_text(found), nl=False)
