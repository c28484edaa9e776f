"""``perfci init``: write a configuration, a starter suite and two workflows; nothing is overwritten."""

from __future__ import annotations

import click

from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_repository
from perfci.scaffold.starter_files import measures_default_branches, render_starter_files

UNKNOWN_BRANCH_HINT = (
    "\nperf.yml takes pushes to main and master for the history: the default branch of origin is "
    "unknown in this clone.\nIf it is another one, add it after `branches:`."
)


@click.command("init")
@global_options
def init_command() -> None:
    """Write perfci.toml, a suite in benchmarks/ and two workflows, each unless it exists."""
    repository = current_repository()
    project, branch = repository.origin_slug or repository.root.name, repository.origin_default_branch
    files = render_starter_files(repository.root, project, branch)
    written = []
    for name, text in files.items():
        path = repository.root / name
        if path.exists():
            click.echo(f"kept    {name} (it was there)")
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        click.echo(f"wrote   {name}")
        written.append(name)
    if ".github/workflows/perf.yml" in written and measures_default_branches(branch):
        click.echo(UNKNOWN_BRANCH_HINT)
    click.echo("\nnext:\n  perfci run --smoke\n  perfci compare HEAD~1 --smoke")
