"""``perfci.toml``, ``asv.conf.json`` and ``PERFCI_*`` become one frozen Config; nothing else reads the environment."""

from __future__ import annotations

import difflib
import json
import keyword
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from perfci.model import MetricClass, PerfciError

CONFIG_NAME = "perfci.toml"
ASV_CONFIG_NAME = "asv.conf.json"
RESERVED_PROJECTS = frozenset({"api", "x", "embed", "badge", "static", "healthz", "readyz", "metrics", "login"})


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProjectTable(Table):
    name: str = ""
    branch: str = ""


class SuiteTable(Table):
    path: str = "benchmarks"
    source: Literal["worktree", "commit"] = "worktree"  # whose suite measures a commit
    timeout_s: float = Field(default=60.0, gt=0)


class EnvironmentTable(Table):
    python: str = ""  # the interpreter that measures; empty = the one that runs perfci
    requirements: tuple[
        str, ...
    ] = ()  # what pip installs into a cached environment, e.g. "torch==2.13.0" or "-r req.txt"
    lock_files: tuple[str, ...] = ()  # files of the commit whose content decides whether an environment can be reused
    build: tuple[str, ...] = ()  # commands run in the commit's work tree; {target} is the folder they install into
    paths: tuple[str, ...] = ()  # folders of the work tree to import from; empty = src/ where it exists, else the root
    preload: tuple[str, ...] = ("torch", "torch._dynamo")


class RunTable(Table):
    rounds: int = Field(default=5, ge=1, le=1000)
    launch: Literal["auto", "fork", "spawn"] = "auto"
    threads: int = Field(default=1, ge=1)
    turns: Literal["auto", "always", "never"] = "auto"


class JudgeTable(Table):
    bar: float = Field(default=0.05, gt=0, lt=1)
    strict: bool = False
    max_pairs: int = Field(default=20, ge=5, le=200)


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"a regular expression was expected, but {error}") from None
    return text


class PolicyTable(Table):
    """One ``[[policy]]``: how series whose cell and metric ``match`` are judged; what is left out stays as it is."""

    match: Annotated[str, Field(min_length=1), AfterValidator(_expression)]
    bar: float | None = Field(default=None, ge=0, lt=1)
    floor: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # in the metric's own unit
    floor_bytes: float | None = Field(default=None, ge=0, allow_inf_nan=False)  # for metrics in bytes
    metric_class: MetricClass | None = Field(default=None, alias="class")
    judge: bool = True


Value = str | bool | int | FiniteFloat


class GoalTable(Table):
    """One ``[[goal]]``: requirements on the metrics of the benchmarks whose cell ``match`` finds."""

    name: str = ""
    match: Annotated[str, AfterValidator(_expression)] = ""
    require: Annotated[tuple[str, ...], Field(min_length=1)]


class StepTable(Table):
    """One step of a ladder: what it is called, and the parameters it sets."""

    name: Annotated[str, Field(min_length=1)]
    set: Annotated[dict[str, Value], Field(min_length=1)]


class LadderTable(Table):
    """One ``[[ladder]]``: variants of one commit, each a change to the one before; the first is the baseline."""

    name: Annotated[str, Field(min_length=1)]
    match: Annotated[str, AfterValidator(_expression)] = ""
    steps: Annotated[tuple[StepTable, ...], Field(min_length=2)]


class HistoryTable(Table):
    """How change points become pages."""

    pages_per_week: int = Field(default=5, ge=0, le=1000)
    releases: str = "v*"  # tags of releases, with * and ?, that creep is measured against
    canaries: tuple[Annotated[str, Field(min_length=1), AfterValidator(_expression)], ...] = ()


class StoreTable(Table):
    url: str = ""


def _class_name(text: str) -> str:
    if not text.isidentifier() or keyword.iskeyword(text) or text.startswith("_"):
        raise ValueError("a Python name that begins with a letter was expected, such as 'gpt_small'")
    return text


def _dotted(text: str) -> str:
    module, colon, path = text.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *path.split("."))):
        raise ValueError("a function's dotted name was expected, such as 'package.module:function'")
    return text


Dotted = Annotated[str, AfterValidator(_dotted)]


class ModelTable(Table):
    """One ``[[model]]``: a ``perfci.bench.ModelBench`` for those who will not import us, its hooks by dotted name."""

    name: Annotated[str, AfterValidator(_class_name)]
    build: Dotted
    batch: Dotted | None = None
    loss: Dotted | None = None
    stream: Dotted | None = None
    audio_seconds: Dotted | None = None
    params: dict[str, Annotated[tuple[Value, ...], Field(min_length=1)]] = {}
    sla: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = {}
    tokens_per_batch: int | None = Field(default=None, gt=0)
    reference: dict[str, Value] = {}
    requests: int | None = Field(default=None, gt=0)
    steps: int | None = Field(default=None, gt=0)

    @property
    def said(self) -> dict[str, Any]:
        """What is given beside the hooks, as plain values."""
        values = self.model_dump(include={"params", "sla", "tokens_per_batch", "reference", "requests", "steps"})
        values["params"] = {name: list(choices) for name, choices in self.params.items()}
        return {name: value for name, value in values.items() if value}

    @property
    def hooks(self) -> dict[str, str]:
        """The hooks that are given."""
        named = {hook: getattr(self, hook) for hook in ("build", "batch", "loss", "stream", "audio_seconds")}
        return {hook: dotted for hook, dotted in named.items() if dotted}


class Settings(Table):
    """The tables of ``perfci.toml``."""

    project: ProjectTable = ProjectTable()
    suite: SuiteTable = SuiteTable()
    environment: EnvironmentTable = EnvironmentTable()
    run: RunTable = RunTable()
    judge: JudgeTable = JudgeTable()
    history: HistoryTable = HistoryTable()
    store: StoreTable = StoreTable()
    model: tuple[ModelTable, ...] = ()
    policy: tuple[PolicyTable, ...] = ()  # the first that matches a series speaks for it
    goal: tuple[GoalTable, ...] = ()
    ladder: tuple[LadderTable, ...] = ()


class Config(Table):
    """Everything that was configured, from every source, resolved once."""

    root: Path
    settings: Settings
    database_url: str
    project: str
    lock_path: Path


def load_config(
    root: Path,
    environ: Mapping[str, str] | None = None,
    *,
    file: Path | None = None,
    db: str = "",
    project: str = "",
    default_project: str = "",
) -> Config:
    """Join the command line, the environment, the file and the defaults, in that order of precedence."""
    environ = os.environ if environ is None else environ
    settings = _read_settings(root, file)
    url = db or environ.get("PERFCI_DB", "") or settings.store.url or f"sqlite:///{root / '.perfci' / 'perfci.db'}"
    name = project or environ.get("PERFCI_PROJECT", "") or settings.project.name or default_project or root.name
    lock = environ.get("PERFCI_LOCK") or os.path.join(tempfile.gettempdir(), "perfci-machine.lock")
    return Config(
        root=root, settings=settings, database_url=_url(url), project=project_name(name), lock_path=Path(lock)
    )


def project_name(name: str) -> str:
    if name.lower() in RESERVED_PROJECTS or not name.strip() or len(name) > 200 or not name.isprintable():
        raise PerfciError(f"{name!r} cannot be a project's name; set another with --project or [project] name")
    return name


def _url(text: str) -> str:
    """Accept a bare file path where a database URL is expected."""
    return text if "://" in text else f"sqlite:///{Path(text).absolute()}"


def _read_settings(root: Path, file: Path | None) -> Settings:
    path = file or root / CONFIG_NAME
    if path.exists():
        return _settings(_toml(path), path)
    if file is not None:
        raise PerfciError(f"there is no configuration file {file}")
    asv = root / ASV_CONFIG_NAME
    return _settings(_from_asv(asv), asv) if asv.exists() else Settings()


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PerfciError(f"{path} is not a readable TOML file: {error}") from None


def _settings(values: dict[str, Any], path: Path) -> Settings:
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        raise PerfciError(f"{path}: {_explain(error)}") from None
    for kind, tables in (("model", settings.model), ("ladder", settings.ladder)):
        names = [table.name for table in tables]
        if twice := [name for name in names if names.count(name) > 1]:
            raise PerfciError(f"{path}: two [[{kind}]] tables are called {twice[0]!r}; every {kind} needs its own name")
    return settings


def _explain(error: ValidationError) -> str:
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")  # a misspelt key is missed as well
    place = [str(part) for part in first["loc"]]
    if first["type"] == "missing":
        return f"{'.'.join(place)} is missing"
    if first["type"] != "extra_forbidden":
        return f"{'.'.join(place)}: {first['msg'].removeprefix('Value error, ')}, found {first['input']!r}"
    known = sorted(_keys_of(place[:-1]))
    close = difflib.get_close_matches(place[-1], known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
    return f"unknown key {'.'.join(place)!r}; {hint}"


def _keys_of(place: list[str]) -> list[str]:
    table: type[BaseModel] = Settings
    for name in place:
        field = table.model_fields.get(name)  # none for the number of one of several tables
        types = (field.annotation, *get_args(field.annotation)) if field else ()
        table = next((t for t in types if isinstance(t, type) and issubclass(t, BaseModel)), table)
    return [field.alias or name for name, field in table.model_fields.items()]


def _from_asv(path: Path) -> dict[str, Any]:
    """Take from an asv project what perfci has a place for, so that it runs unchanged."""
    values = _json_with_comments(path)
    matrix = values.get("matrix", {})
    requirements = matrix.get("req", {} if set(matrix) & {"env", "env_nobuild"} else matrix)
    suite = {"path": str(values.get("benchmark_dir", "benchmarks"))}
    timeout = values.get("default_benchmark_timeout")
    return {
        "project": {"name": str(values.get("project", "")), "branch": str((values.get("branches") or [""])[0] or "")},
        "suite": suite | ({"timeout_s": float(timeout)} if timeout else {}),
        "environment": {
            "requirements": tuple(_requirements(requirements)),
            "build": tuple(_asv_commands(values, path)),
        },
    }


def _requirements(matrix: Mapping[str, Any]) -> list[str]:
    """One environment: the first value of each axis, as ``name==version`` (asv's ``pip+`` prefix dropped)."""
    found = []
    for name, versions in matrix.items():
        version = (versions or [""])[0] if isinstance(versions, list) else versions
        if version is not None:
            found.append(name.removeprefix("pip+") + (f"=={version}" if version else ""))
    return found


def _asv_commands(values: Mapping[str, Any], path: Path) -> list[str]:
    """asv's own commands, told to install where perfci wants it; its default builds a wheel of the project."""
    commands = [*(values.get("build_command") or []), *(values.get("install_command") or [])]
    if "build_command" in values or "install_command" in values:
        return [str(command) for command in commands]
    builds = any((path.parent / name).exists() for name in ("pyproject.toml", "setup.py"))
    return ["in-dir={build_dir} python -m pip install --no-deps --target {target} ."] if builds else []


def _json_with_comments(path: Path) -> dict[str, Any]:
    """asv's configuration is JSON with ``//`` comments and trailing commas."""
    text = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda m: m.group(1) or "", path.read_text(), flags=re.S)
    text = re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda m: m.group(1) or "", text)
    try:
        values = json.loads(text)
    except ValueError as error:
        raise PerfciError(f"{path} is not readable as asv's configuration: {error}") from None
    if not isinstance(values, dict):
        raise PerfciError(f"{path}: a JSON object was expected")
    return values
