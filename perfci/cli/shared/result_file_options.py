"""Options of the verbs that read result files of other tools, and what they lack by default."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from perfci.config import Config
from perfci.formats.format_registry import READER_MODULES
from perfci.formats.format_types import ImportDefaults
from perfci.formats.value_parsing import build_valid_commit
from perfci.model import Commit, Direction, PerfciError
from perfci.runner.git_repository import GitRepository
from perfci.service.uploads.read_result_files import FileReading

F = TypeVar("F", bound=Callable[..., Any])

_RESULT_FILE_OPTIONS = [
    click.option(
        "--format",
        "format_name",
        type=click.Choice(["auto", *READER_MODULES]),
        default="auto",
        help="auto: by content  [default]",
    ),
    click.option(
        "--commit",
        "revision",
        metavar="REV",
        help="commit of files that name none  [default: HEAD, or the commit of the CI job]",
    ),
    click.option("--machine", default="", metavar="NAME", help="machine of files that name none"),
    click.option(
        "--direction",
        type=click.Choice(["lower", "higher"]),
        help="the better direction, for files that do not state it",
    ),
    click.option(
        "--metric",
        "metric_meanings",
        multiple=True,
        metavar="NAME=UNIT:DIRECTION",
        help="unit and direction of an unknown metric",
    ),
]


def result_file_options(function: F) -> F:
    """Add --format, --commit, --machine, --direction and --metric to a command."""
    for option in reversed(_RESULT_FILE_OPTIONS):
        function = option(function)
    return function


def build_file_reading_context(
    config: Config, revision: str | None, machine: str, direction: Direction | None
) -> FileReading:
    """Build how files are read here: the repository completes commits, the CI job is named as the origin."""
    repository = find_repository(Path.cwd())
    commits = index_first_parent_commits(repository)
    job = config.ci_job
    commit = resolve_default_commit(revision, commits, repository)
    if commit is None and job is not None:
        commit = build_valid_commit(job.sha)
    origin = job.origin if job else ()
    return FileReading(ImportDefaults(config.project, commit, machine, direction, origin), commits)


def find_repository(folder: Path) -> GitRepository | None:
    """The repository around a folder; None outside of one."""
    with contextlib.suppress(PerfciError):
        return GitRepository(folder)
    return None


def index_first_parent_commits(repository: GitRepository | None) -> dict[str, Commit]:
    """First-parent commits of a repository by sha, newest last; empty for one without commits."""
    with contextlib.suppress(PerfciError):
        if repository is not None:
            return {commit.sha: commit for commit in repository.list_first_parent_commits("HEAD")}
    return {}


def resolve_default_commit(
    revision: str | None, commits: Mapping[str, Commit], repository: GitRepository | None
) -> Commit | None:
    """The commit for files that name none: of a revision or a sha, by default the newest."""
    if revision is None:
        return list(commits.values())[-1] if commits else None
    matches = [commit for full, commit in commits.items() if full.startswith(revision.lower())]
    if len(matches) == 1:
        return matches[0]
    with contextlib.suppress(PerfciError):
        if repository is not None:
            sha = repository.resolve_revision(revision)
            return commits.get(sha) or repository.read_commit(sha)
    if len(revision) not in (40, 64) or set(revision.lower()) - set("0123456789abcdef"):
        raise PerfciError(f"--commit {revision}: expected a full sha, or a revision of the repository here")
    return Commit(revision.lower())
