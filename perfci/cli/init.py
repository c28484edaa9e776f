"""``perfci init``: write a configuration, a starter suite and two workflows; nothing is overwritten."""

from __future__ import annotations

import re

import click

from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_repository
from perfci.model import PerfciError
from perfci.runner.git_repository import GitRepository
from perfci.scaffold.install_source import find_install_source, read_direct_url
from perfci.scaffold.starter_files import falls_back_to_default_branches, render_starter_files

RUNNER_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
UNKNOWN_BRANCH_HINT = (
    "\nperf.yml takes pushes to main and master for the history: the default branch of origin is "
    "unknown in this clone.\nIf it is another one, add it after `branches:`."
)


RUNNER_HINT = (
    "\nperf.yml measures pull requests, none of a fork, on runners with the labels {runner} and "
    "pull-requests, everything else\non those with {runner} and trusted: give each pair to one machine at "
    "least (docs/github.md)."
)
INSTALL_HINT = (
    "\nThis perfci was installed from a folder, which no job can reach: set the repository's variable "
    "PERFCI_INSTALL\nto a pinned address, such as git+https://github.com/OWNER/perfci@COMMIT."
)


@click.command("init")
@click.option("--runner", metavar="LABEL", default="", help="measure on runners of your own with this label")
@global_options
def init_command(runner: str) -> None:
    """Write perfci.toml, a suite in benchmarks/ and two workflows, each unless it exists."""
    if runner and not RUNNER_LABEL.fullmatch(runner):
        raise PerfciError(
            f"{runner!r} is no label of a runner: letters, digits, '.', '_' and '-' were expected"
        )
    repository = current_repository()
    project, branch = repository.origin_slug or repository.root.name, repository.origin_default_branch
    source = find_install_source(read_direct_url())
    files = render_starter_files(repository.root, project, branch, runner, source)
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
    if ".github/workflows/perf.yml" in written and falls_back_to_default_branches(branch):
        click.echo(UNKNOWN_BRANCH_HINT)
    if ".github/workflows/perf.yml" in written and runner:
        click.echo(RUNNER_HINT.format(runner=runner))
    if ".github/workflows/perf.yml" in written and source is None:
        click.echo(INSTALL_HINT)
    steps = ["perfci run --smoke"]
    if has_parent(repository):
        steps.append("perfci compare HEAD~1 --smoke")
    click.echo("\n  ".join(["\nnext:", *steps]))


def has_parent(repository: GitRepository) -> bool:
    """Whether the newest commit has one before it that it can be compared with."""
    try:
        repository.resolve_revision("HEAD~1")
    except PerfciError:
        return False
    return True
