"""Load and join the configuration files and the environment."""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from perfci.config.asv import load_asv_config
from perfci.config.base import ConfigTable
from perfci.config.environment_variables import apply_environment, read_secrets
from perfci.config.github_job import GitHubJob, read_github_job
from perfci.config.server_tables import Secrets
from perfci.config.settings import ProjectTables, Settings, format_validation_error
from perfci.model import PerfciError

CONFIG_NAME = "perfci.toml"
ASV_CONFIG_NAME = "asv.conf.json"
RESERVED_PROJECTS = frozenset(
    {"api", "x", "embed", "badge", "static", "healthz", "readyz", "metrics", "login"}
)


class Config(ConfigTable):
    """The configuration from every source."""

    root: Path
    settings: Settings
    database_url: str
    project: str
    lock_path: Path
    secrets: Secrets = Secrets()
    github: GitHubJob | None = None  # where this runs in a job of GitHub Actions


def load_config(
    root: Path,
    environ: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
    db: str = "",
    project: str = "",
    slug: str = "",
) -> Config:
    """Join the command line, the environment, the file and the defaults, in that order of precedence.

    Without a project name it is the repository: from its origin (``slug``), from GitHub's variables in a
    job without a checkout, or else the folder.
    """
    environ = os.environ if environ is None else environ
    settings = apply_environment(_read_settings(root, file), environ)
    url = (
        db
        or environ.get("PERFCI_DB", "")
        or settings.store.url
        or f"sqlite:///{root / '.perfci' / 'perfci.db'}"
    )
    job = read_github_job(environ)
    unnamed = slug or (job.repository if job else "") or root.name
    name = project or environ.get("PERFCI_PROJECT", "") or settings.project.name or unnamed
    lock = environ.get("PERFCI_LOCK") or os.path.join(tempfile.gettempdir(), "perfci-machine.lock")
    return Config(
        root=root,
        settings=settings,
        database_url=_to_database_url(url),
        project=check_project_name(name),
        lock_path=Path(lock),
        secrets=read_secrets(environ),
        github=job,
    )


def load_project_tables(path: Path) -> dict[str, Any]:
    """Load the tables of a file that say how one project is judged, unparsed."""
    values = _read_toml(path)
    _parse_settings(values, path)
    return {name: values[name] for name in ProjectTables.model_fields if name in values}


def check_project_name(name: str) -> str:
    """Raise if a project name is not valid."""
    if name.lower() in RESERVED_PROJECTS or not name.strip() or len(name) > 200 or not name.isprintable():
        raise PerfciError(
            f"{name!r} cannot be a project's name; set another with --project or [project] name"
        )
    return name


def _to_database_url(text: str) -> str:
    """Accept a bare file path where a database URL is expected."""
    return text if "://" in text else f"sqlite:///{Path(text).absolute()}"


def _read_settings(root: Path, file: Path | None) -> Settings:
    path = file or root / CONFIG_NAME
    if path.exists():
        return _parse_settings(_read_toml(path), path)
    if file is not None:
        raise PerfciError(f"there is no configuration file {file}")
    asv = root / ASV_CONFIG_NAME
    return _parse_settings(load_asv_config(asv), asv) if asv.exists() else Settings()


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PerfciError(f"{path} is not a readable TOML file: {error}") from None


def _parse_settings(values: dict[str, Any], path: Path) -> Settings:
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise PerfciError(f"{path}: {format_validation_error(error)}") from None
    for kind, tables in (("model", settings.model), ("ablation", settings.ablation)):
        names = [table.name for table in tables]
        if twice := [name for name in names if names.count(name) > 1]:
            raise PerfciError(
                f"{path}: two [[{kind}]] tables are called {twice[0]!r}; every {kind} needs its own name"
            )
    return settings
