"""``perfci.toml``, ``asv.conf.json`` and ``PERFCI_*`` become one frozen Config; nothing else reads the environment."""

from __future__ import annotations

from perfci.config.loader import RESERVED_PROJECTS, Config, load_config, project_name, tables_of_file
from perfci.config.measurement_tables import (
    EnvironmentTable,
    HistoryTable,
    JudgeTable,
    LadderTable,
    ModelTable,
    RunTable,
    SuiteTable,
)
from perfci.config.server_tables import AccessTable, Secrets
from perfci.config.settings import ProjectTables, Settings, of_project, project_tables

__all__ = [
    "RESERVED_PROJECTS",
    "AccessTable",
    "Config",
    "EnvironmentTable",
    "HistoryTable",
    "JudgeTable",
    "LadderTable",
    "ModelTable",
    "ProjectTables",
    "RunTable",
    "Secrets",
    "Settings",
    "SuiteTable",
    "load_config",
    "of_project",
    "project_name",
    "project_tables",
    "tables_of_file",
]
