"""Load the files and the ``PERFCI_*`` variables, and join them into one configuration."""

from __future__ import annotations

import difflib
import os
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_origin

from pydantic import ValidationError

from perfci.config.asv_config import load_asv_config
from perfci.config.ci_job import CiJob, read_ci_job
from perfci.config.github_job import GitHubJob, read_github_job
from perfci.config.settings import ProjectTables, Settings, format_validation_error
from perfci.config.toml_tables import ConfigTable, Secrets
from perfci.model import PerfciError

CONFIG_NAME = "perfci.toml"
ASV_CONFIG_NAME = "asv.conf.json"
RESERVED_PROJECTS = frozenset(
    {"api", "x", "embed", "badge", "static", "healthz", "readyz", "metrics", "login"}
)

MAX_PROJECT_NAME = 200

SERVICE_TABLES = ("store", "server", "access", "app", "client", "notify", "retention")
"""Tables of the service, which is configured without files; what is measured is set in the repository."""

MISSPELLING_CUTOFF = 0.9
"""Similarity of a misspelling. Variables that Kubernetes sets for a service named perfci reach 0.82."""
SPECIAL_NAMES = {("store", "url"): "PERFCI_DB"}


class Config(ConfigTable):
    """The configuration from every source."""

    root: Path
    settings: Settings
    database_url: str
    project: str
    lock_path: Path
    state_folder: Path
    secrets: Secrets = Secrets()
    github: GitHubJob | None = None  # where this runs in a job of GitHub Actions
    ci_job: CiJob | None = None  # the same of any continuous integration system


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
    settings = _apply_environment(_read_settings(root, file), environ)
    url = (
        db
        or environ.get("PERFCI_DB", "")
        or settings.store.url
        or f"sqlite:///{root / '.perfci' / 'perfci.db'}"
    )
    job = read_github_job(environ)
    unnamed = slug or (job.repository if job else "") or root.name
    name = project or environ.get("PERFCI_PROJECT", "") or settings.project.name or unnamed
    return Config(
        root=root,
        settings=settings,
        # A bare path is a SQLite file.
        database_url=url if "://" in url else f"sqlite:///{Path(url).absolute()}",
        project=check_project_name(name),
        lock_path=find_lock_path(environ),
        state_folder=_state_folder(environ),
        secrets=Secrets.model_validate(
            {key: environ.get(f"PERFCI_{key.upper()}", "") for key in Secrets.model_fields}
        ),
        github=job,
        ci_job=read_ci_job(environ),
    )


def find_lock_path(environ: Mapping[str, str] | None = None) -> Path:
    """Find the file that all who measure on this machine lock."""
    environ = os.environ if environ is None else environ
    return Path(environ.get("PERFCI_LOCK") or os.path.join(tempfile.gettempdir(), "perfci-machine.lock"))


def _state_folder(environ: Mapping[str, str]) -> Path:
    """Return where this user's running programs leave word of each other
    (https://specifications.freedesktop.org/basedir-spec/latest/).
    """
    named, usual = environ.get("XDG_STATE_HOME", ""), os.path.expanduser("~/.local/state")
    # A user without a home has no such place, and `~` is no folder of this one.
    base = next(filter(os.path.isabs, (named, usual)), "/nonexistent")
    return Path(base, "perfci")


def load_project_override_tables(path: Path) -> dict[str, Any]:
    """Load the tables of a file that say how one project is judged, unparsed."""
    values = _read_toml(path)
    _parse_settings(values, path)
    return {name: values[name] for name in ProjectTables.model_fields if name in values}


def check_project_name(name: str) -> str:
    """Raise if a project name is not valid."""
    reason = ""
    if name.lower() in RESERVED_PROJECTS:
        reason = f"the addresses of a server below /{name.lower()} have another meaning"
    elif not name.strip() or not name.isprintable():
        reason = "it has no visible character, or one that cannot be printed"
    elif len(name) > MAX_PROJECT_NAME:
        reason = f"it is longer than {MAX_PROJECT_NAME} characters"
    if reason:
        raise PerfciError(
            f"{name!r} cannot be a project's name: {reason}; set another with --project or [project] name"
        )
    return name


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


def environment_variable_name(table: str, key: str) -> str:
    """Return the name of the variable that overrides a key of a table."""
    return SPECIAL_NAMES.get((table, key), f"PERFCI_{table}_{key}".upper())


def _apply_environment(settings: Settings, environ: Mapping[str, str]) -> Settings:
    """Override settings of the file by environment variables; empty variables are ignored."""
    places = {
        environment_variable_name(table, key): (table, key)
        for table in SERVICE_TABLES
        for key in type(getattr(settings, table)).model_fields
    }
    _reject_misspelled(environ, list(places))
    for name, (table, key) in places.items():
        # Compose passes a variable that is unset on as an empty one.
        if (table, key) in SPECIAL_NAMES or not (text := environ.get(name, "").strip()):
            continue
        before: ConfigTable = getattr(settings, table)
        is_list = get_origin(type(before).model_fields[key].annotation) is tuple
        value = [part.strip() for part in text.split(",") if part.strip()] if is_list else text
        try:
            after = type(before).model_validate({**before.model_dump(), key: value})
        except ValidationError as error:
            raise PerfciError(f"{name}: {format_validation_error(error)}") from None
        settings = settings.model_copy(update={table: after})
    return settings


def _reject_misspelled(environ: Mapping[str, str], variable_names: Sequence[str]) -> None:
    # Kubernetes sets PERFCI_SERVER_PORT and the like in every pod beside a service named perfci
    # (https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables): an unknown
    # variable is only an error where it nearly is one of ours.
    prefixes = tuple(f"PERFCI_{table}_".upper() for table in SERVICE_TABLES)
    for name in sorted(environ.keys() - set(variable_names)):
        if name.startswith(prefixes):
            for close in difflib.get_close_matches(name, variable_names, n=1, cutoff=MISSPELLING_CUTOFF):
                raise PerfciError(f"unknown variable {name}; did you mean {close}?")
