"""``perfci export``: write stored histories, or the evidence of an incident, for others to read."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import click

from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import open_store_to_read
from perfci.config import Config
from perfci.model import PerfciError
from perfci.service.evidence.export_evidence import EVIDENCE_FORMAT, export_evidence
from perfci.service.export_history import EXPORT_FORMATS, export_history
from perfci.store import Store


@click.command("export")
@click.option(
    "--format",
    "format_name",
    type=click.Choice((*EXPORT_FORMATS, EVIDENCE_FORMAT)),
    default="csv",
    show_default=True,
)
@click.option("--samples", is_flag=True, help="CSV: one row per raw sample")
@click.option("--incident", type=click.IntRange(min=1), metavar="N", help="evidence: the incident's number")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="a file, in place of stdout")
@global_options
def export_command(format_name: str, samples: bool, incident: int | None, output: Path | None) -> None:
    """Write the histories to stdout: CSV, run documents, an asv tar or PyTorch records.

    --format evidence --incident N writes all that an incident rests on, which perfci verify computes again.
    """
    if samples and format_name != "csv":
        raise PerfciError(f"--samples is for CSV: {format_name} holds raw samples anyway")
    if (format_name == EVIDENCE_FORMAT) != (incident is not None):
        raise PerfciError("--format evidence and --incident N go together: evidence is that of one incident")
    config = current_config()
    with closing(open_store_to_read(config)) as store:
        _write_chunks(_export(store, config, format_name, samples, incident), output)


def _export(
    store: Store, config: Config, format_name: str, samples: bool, incident: int | None
) -> Iterator[bytes]:
    if incident is not None:
        return iter([export_evidence(store, config.project, incident, config.settings)])
    return export_history(
        store,
        config.project,
        format_name,
        lambda line: click.echo(f"  {line}", err=True),
        samples=samples,
    )


def _write_chunks(chunks: Iterable[bytes], output: Path | None) -> None:
    """Write bytes, since some formats are archives."""
    if output is None:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
        sys.stdout.flush()
        return
    try:
        with output.open("wb") as file:
            file.writelines(chunks)
    except OSError as error:
        raise PerfciError(f"{output} cannot be written: {error.strerror}") from None
