"""Open the store that a command works on, with its project, and hold the machine while it measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy.orm import Session

from perfci.auth.permissions import LOCAL
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import Config
from perfci.model import PerfciError
from perfci.runner.git_repository import ensure_perfci_folder
from perfci.runner.locks import machine_lock
from perfci.service.audit_context import AuditContext
from perfci.store import Store, open_store, projects
from perfci.store.projects import Project


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


def local_user_audit_context() -> AuditContext:
    """The local user as the author of a change, now."""
    return AuditContext(LOCAL, datetime.now(UTC))
