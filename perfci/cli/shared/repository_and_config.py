"""Repository, commit and configuration that a command works on."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.shared.options import GlobalOptions
from perfci.config import Config, load_config
from perfci.model import Commit, PerfciError
from perfci.runner.git_repository import GitRepository


def current_repository() -> GitRepository:
    """The git repository of this folder."""
    return GitRepository(Path.cwd())


def resolve_commit_or_worktree(repository: GitRepository, revision: str) -> Commit:
    """The commit of a revision; the working tree for an empty one."""
    return (
        repository.read_commit(repository.resolve_revision(revision))
        if revision
        else repository.snapshot_working_tree()
    )


def load_repository_config(repository: GitRepository) -> Config:
    """The configuration at the root of a repository."""
    return _load_config(repository.root, repository.origin_slug)


def current_config() -> Config:
    """The configuration of this folder, in a repository or not."""
    try:
        return load_repository_config(current_repository())
    except PerfciError:
        folder = Path.cwd()
        # No repository is fine, a broken one is an error.
        if (folder / ".git").exists():
            raise
        return _load_config(folder, "")


def _load_config(root: Path, slug: str) -> Config:
    options = _read_global_options()
    return load_config(root, file=options.config, db=options.db, project=options.project, slug=slug)


def config_file_of_command_line() -> Path | None:
    """The configuration file that was named on the command line."""
    return _read_global_options().config


def is_db_option_set() -> bool:
    """Whether --db was given."""
    return bool(_read_global_options().db)


def _read_global_options() -> GlobalOptions:
    return click.get_current_context().find_root().ensure_object(GlobalOptions)


def find_configured_server(server: str) -> str:
    """The server that is named or configured; --db always means a store."""
    if server and is_db_option_set():
        raise PerfciError("Give either --server or --db, not both.")
    configured = "" if is_db_option_set() else current_config().settings.client.server
    return (server or configured).rstrip("/")
