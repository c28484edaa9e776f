"""``perfci noise``: the false-alarm rate and the noise floors that A/A runs measured."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import open_store_to_read
from perfci.history.project_noise import compute_project_noise
from perfci.project_policies import build_policy
from perfci.report.noise_text import format_project_noise
from perfci.report.serializers import serialize_project_noise


@click.command("noise")
@json_option
@global_options
def noise_command(json_file: str | None) -> None:
    """Show the false-alarm rate and noise floors of A/A runs. All verdicts count, including retracted ones.

    `perfci compare HEAD HEAD` is such a run.
    """
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        policy = build_policy(config.settings)
        noise = compute_project_noise(tx, config.project, policy, datetime.now(UTC))
    if json_file:
        write_json(json_file, serialize_project_noise(config.project, noise))
    if json_file != "-":
        click.echo(format_project_noise(noise), nl=False)
