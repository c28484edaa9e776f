"""The machine lock of verbs that measure, and the store they write to while they hold it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from perfci.cli.shared.context import open_store_to_write
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.config import Config
from perfci.runner.locks import machine_lock
from perfci.store import Store


def lock_machine(
    config: Config, verb: str, progress: TerminalProgress, *, no_wait: bool = False
) -> AbstractContextManager[None]:
    """Hold the machine for one verb; another one that wants it is told which verb holds it, and where."""
    owner = f"{verb} in {config.root}"
    return machine_lock(config.lock_path, owner=owner, wait=not no_wait, on_wait=progress.report)


@contextmanager
def open_locked_store(
    config: Config, verb: str, progress: TerminalProgress, *, no_wait: bool = False
) -> Iterator[Store]:
    """Hold the machine and open the store that the measurements go to."""
    with lock_machine(config, verb, progress, no_wait=no_wait), closing(open_store_to_write(config)) as store:
        yield store
