"""``perfci init``: a configuration, a starter suite and two workflows for this repository; never overwrites."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.shared.context import repository_here
from perfci.cli.shared.options import global_options
from perfci.scaffold.starter_files import is_guessed, starter_files

UNKNOWN_BRANCH = (
    "\nperf.yml takes pushes to main and master for the history: this clone does not tell the default branch of its "
    "origin.\nIs it another one, write its name after `branches:` there."
)


@click.command("init")
@global_options
def command() -> None:
    """Write perfci.toml, a suite in benchmarks/ and two workflows in .github/workflows/ where they are missing."""
    repository = repository_here()
    project, branch = repository.slug or repository.root.name, repository.main_branch
    files = starter_files(repository.root, project, branch)
    written = [name for name, text in files.items() if _write(repository.root / name, name, text)]
    if ".github/workflows/perf.yml" in written and is_guessed(branch):
        click.echo(UNKNOWN_BRANCH)
    click.echo("\nnext:\n  perfci run --smoke\n  perfci compare HEAD~1 --smoke")


def _write(path: Path, name: str, text: str) -> bool:
    if path.exists():
        click.echo(f"kept    {name} (it was there)")
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    click.echo(f"wrote   {name}")
    return True
