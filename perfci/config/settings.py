"""All tables of ``perfci.toml`` as one value, and the messages about invalid ones."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from perfci.config.toml_tables import (
    AblationTable,
    AccessTable,
    AppTable,
    ClientTable,
    ConfigTable,
    EnginesTable,
    EnvironmentTable,
    ForgeTable,
    GoalTable,
    HistoryTable,
    JudgeTable,
    ModelTable,
    NotifyTable,
    PolicyTable,
    ProjectTable,
    RetentionTable,
    RunTable,
    ServerTable,
    StoreTable,
    SuiteTable,
)
from perfci.model import PerfciError


class Settings(ConfigTable):
    """The tables of ``perfci.toml``."""

    project: ProjectTable = ProjectTable()
    suite: SuiteTable = SuiteTable()
    environment: EnvironmentTable = EnvironmentTable()
    run: RunTable = RunTable()
    judge: JudgeTable = JudgeTable()
    history: HistoryTable = HistoryTable()
    forge: ForgeTable = ForgeTable()
    store: StoreTable = StoreTable()
    server: ServerTable = ServerTable()
    access: AccessTable = AccessTable()
    app: AppTable = AppTable()
    engines: EnginesTable = EnginesTable()
    client: ClientTable = ClientTable()
    notify: NotifyTable = NotifyTable()
    retention: RetentionTable = RetentionTable()
    model: tuple[ModelTable, ...] = ()
    policy: tuple[PolicyTable, ...] = ()  # the first that matches a series speaks for it
    goal: tuple[GoalTable, ...] = ()
    ablation: tuple[AblationTable, ...] = ()


class ProjectTables(ConfigTable):
    """The tables that one project may override on a server, each as a whole."""

    judge: JudgeTable | None = None
    history: HistoryTable | None = None
    forge: ForgeTable | None = None
    policy: tuple[PolicyTable, ...] | None = None


def parse_project_override_tables(values: Mapping[str, Any]) -> ProjectTables:
    """Parse the override tables of a project."""
    try:
        return ProjectTables.model_validate(values)
    except ValidationError as error:
        raise PerfciError(f"The tables of the project: {format_validation_error(error)}") from None


def apply_project_override_tables(settings: Settings, tables: ProjectTables) -> Settings:
    """Apply the override tables of a project to the settings of a server."""
    updates = {
        name: table for name in ProjectTables.model_fields if (table := getattr(tables, name)) is not None
    }
    return settings.model_copy(update=updates)


def fix_pair_count(settings: Settings, pairs: int | None) -> Settings:
    """Let every comparison take exactly this many pairs, instead of as many as decide it; None changes
    nothing.
    """
    if pairs is None:
        return settings
    judge = settings.judge.model_copy(update={"min_pairs": pairs, "max_pairs": pairs})
    return settings.model_copy(update={"judge": judge})


def format_validation_error(error: ValidationError) -> str:
    """Format a validation error with the key and the reason."""
    # A misspelt key is an unknown key, and often a missing one too: name the unknown one.
    first = min(error.errors(), key=lambda item: item["type"] != "extra_forbidden")
    place = [str(part) for part in first["loc"]]
    if first["type"] == "missing":
        return f"{'.'.join(place)} is missing"
    if first["type"] != "extra_forbidden":
        return f"{'.'.join(place)}: {first['msg'].removeprefix('Value error, ')}, found {first['input']!r}"
    keys = sorted(_keys_of_table(place[:-1]))
    close = difflib.get_close_matches(place[-1], keys, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(keys)}"
    return f"unknown key {'.'.join(place)!r}; {hint}"


def _keys_of_table(place: list[str]) -> list[str]:
    table: type[BaseModel] = Settings
    for name in place:
        field = table.model_fields.get(name)  # none for the number of one of several tables
        types = (field.annotation, *get_args(field.annotation)) if field else ()
        table = next((t for t in types if isinstance(t, type) and issubclass(t, BaseModel)), table)
    return [field.alias or name for name, field in table.model_fields.items()]
