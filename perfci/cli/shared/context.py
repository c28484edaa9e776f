"""Open what a command works on: repository, commit, configuration, machine lock, store and project."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click
from sqlalchemy.orm import Session

from perfci.auth.permissions import LOCAL
from perfci.cli.shared.options import GlobalOptions
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import Config, load_config
from perfci.model import Commit, PerfciError
from perfci.runner.git_repository import GitRepository, ensure_perfci_folder
from perfci.runner.locks import machine_lock
from perfci.service.audit_context import AuditContext
from perfci.store import Store, open_store, projects
from perfci.store.projects import Project


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


def open_store_to_write(config: Config, *, durable: bool = False) -> Store:
    """Open the store, and create it if it is missing."""
    # .perfci/ is made readable for its owner only before a database lies in it.
    if f"{config.root}/.perfci/" in config.database_url:
        ensure_perfci_folder(config.root)
    return open_store(config.database_url, create=True, durable=durable, pool=config.settings.store.pool)


def open_store_to_read(config: Config) -> Store:
    """Open the store, which must exist."""
    return open_store(config.database_url, create=False, pool=config.settings.store.pool)


def lock_machine(
    config: Config, verb: str, progress: TerminalProgress, *, no_wait: bool = False
) -> AbstractContextManager[None]:
    """Hold the machine for one verb; another one that wants it gets an error that names the holder."""
    owner = f"{verb} in {config.root}"
    return machine_lock(config.lock_path, owner=owner, wait=not no_wait, on_wait=progress.report)


@contextmanager
def lock_machine_and_open_store(
    config: Config, verb: str, progress: TerminalProgress, *, no_wait: bool = False
) -> Iterator[Store]:
    """Hold the machine and open the store that the measurements go to."""
    with lock_machine(config, verb, progress, no_wait=no_wait), closing(open_store_to_write(config)) as store:
        yield store


T = TypeVar("T")


def run_write_transaction(operation: Callable[[Session, Project], T]) -> T:
    """Run an operation in a write transaction and commit it."""
    config = current_config()
    with closing(open_store_to_write(config)) as store, store.begin() as tx:
        return operation(tx, _require_project(tx, config.project))


def run_read_transaction(operation: Callable[[Session, Project], T]) -> T:
    """Run an operation in a read transaction."""
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        return operation(tx, _require_project(tx, config.project))


def _require_project(tx: Session, slug: str) -> Project:
    project = projects.find_project(tx, slug)
    if project is None:
        raise PerfciError(f"There is no project {slug} in this store.")
    return project


def local_audit_context() -> AuditContext:
    """The local user as the author of a change, now."""
    return AuditContext(LOCAL, datetime.now(UTC))
