"""``perfci init``: a configuration, a starter suite and a workflow for this repository; never overwrites."""

from __future__ import annotations

import click

from perfci.cli.context import repository_here
from perfci.cli.options import global_options
from perfci.starter import starter_files


@click.command("init")
@global_options
def command() -> None:
    """Write perfci.toml, benchmarks/ and .github/workflows/perf.yml where they are missing."""
    repository = repository_here()
    project = repository.slug or repository.root.name
    for name, text in starter_files(repository.root, project, repository.main_branch).items():
        path = repository.root / name
        if path.exists():
            click.echo(f"kept    {name} (it was there)")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        click.echo(f"wrote   {name}")
    click.echo("\nnext:\n  perfci run --smoke\n  perfci compare HEAD~1 --smoke")
