"""The repository, configuration and store that a verb works on, and its output files."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from perfci.cli.shared.options import GlobalOptions
from perfci.config import Config, load_config
from perfci.model import PerfciError
from perfci.runner.git_repository import GitRepository, ensure_private_folder
from perfci.store import Store, open_store


def current_repository() -> GitRepository:
    """The git repository of this folder."""
    return GitRepository(Path.cwd())


def load_repository_config(repository: GitRepository) -> Config:
    """The configuration at the root of a repository."""
    return _load_config(repository.root, repository.slug)


def current_config() -> Config:
    """The configuration of this folder, in a repository or not."""
    try:
        return load_repository_config(current_repository())
    except PerfciError:
        folder = Path.cwd()
        if (folder / ".git").exists():
            raise
        return _load_config(folder, "")


def _load_config(root: Path, slug: str) -> Config:
    options = _read_global_options()
    return load_config(root, file=options.config, db=options.db, project=options.project, slug=slug)


def config_file_option() -> Path | None:
    """The configuration file that was named on the command line."""
    return _read_global_options().config


def is_db_option_set() -> bool:
    """Whether --db was given."""
    return bool(_read_global_options().db)


def _read_global_options() -> GlobalOptions:
    return click.get_current_context().find_root().ensure_object(GlobalOptions)


def open_store_to_write(config: Config, *, durable: bool = False) -> Store:
    """Open the store, and create it if it is missing."""
    if f"{config.root}/.perfci/" in config.database_url:
        ensure_private_folder(config.root)
    return open_store(config.database_url, create=True, durable=durable, pool=config.settings.store.pool)


def open_store_to_read(config: Config) -> Store:
    """Open the store, which must exist."""
    return open_store(config.database_url, create=False, pool=config.settings.store.pool)


def write_json(target: str, value: Any) -> None:
    """Write JSON to a file or, for ``-``, to stdout: dataclasses as objects, enums as their values."""
    text = json.dumps(value, default=_to_json_value, indent=2, ensure_ascii=False)
    if target == "-":
        click.echo(text)
        return
    try:
        Path(target).write_text(text + "\n")
    except OSError as error:
        raise PerfciError(f"{target} cannot be written: {error.strerror}") from None


def write_list(
    target: str | None, values: Sequence[object], lines: Sequence[str], empty_message: str
) -> None:
    """Write a list as JSON if ``target`` is set, and as lines unless JSON goes to stdout."""
    if target:
        write_json(target, values)
    if target != "-":
        click.echo("\n".join(lines) or empty_message)


def _to_json_value(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


def is_terminal() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr.isatty()
