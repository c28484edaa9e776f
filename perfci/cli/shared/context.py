"""What a verb works on: the repository, the configuration and the store, found in one place."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from perfci.cli.shared.options import Globals
from perfci.config import Config, load_config
from perfci.model import PerfciError
from perfci.runner.git_repository import Repository, private_folder
from perfci.store import Store, open_store


def repository_here() -> Repository:
    return Repository(Path.cwd())


def config_for(repository: Repository) -> Config:
    return _config(repository.root, repository.slug)


def config_here() -> Config:
    """The configuration of this folder, in a repository or not."""
    try:
        return config_for(repository_here())
    except PerfciError:
        folder = Path.cwd()
        if (folder / ".git").exists():
            raise
        return _config(folder, "")


def _config(root: Path, slug: str) -> Config:
    given = click.get_current_context().find_root().ensure_object(Globals)
    return load_config(root, file=given.config, db=given.db, project=given.project, slug=slug)


def config_file_given() -> Path | None:
    """The configuration file that was named on the command line."""
    return click.get_current_context().find_root().ensure_object(Globals).config


def store_here_is_named() -> bool:
    """Whether --db was given."""
    return bool(click.get_current_context().find_root().ensure_object(Globals).db)


def store_to_write(config: Config, *, durable: bool = False) -> Store:
    if f"{config.root}/.perfci/" in config.database_url:
        private_folder(config.root)
    return open_store(config.database_url, create=True, durable=durable, pool=config.settings.store.pool)


def store_to_read(config: Config) -> Store:
    return open_store(config.database_url, create=False, pool=config.settings.store.pool)


def write_json(target: str, value: Any) -> None:
    """Write plain JSON of model values: dataclasses as objects, enums as their words."""
    text = json.dumps(value, default=_plain, indent=2, ensure_ascii=False)
    if target == "-":
        click.echo(text)
        return
    try:
        Path(target).write_text(text + "\n")
    except OSError as error:
        raise PerfciError(f"{target} cannot be written: {error.strerror}") from None


def write_list(target: str | None, values: Sequence[object], lines: Sequence[str], nothing: str) -> None:
    """Write a list as JSON where that is asked for, and as lines unless JSON goes to stdout; an empty one says so."""
    if target:
        write_json(target, values)
    if target != "-":
        click.echo("\n".join(lines) or nothing)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


def on_terminal() -> bool:
    return sys.stderr.isatty()
