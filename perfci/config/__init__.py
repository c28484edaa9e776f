"""``perfci.toml``, ``asv.conf.json`` and ``PERFCI_*`` become one frozen Config; nothing else reads the environment."""

from __future__ import annotations

from perfci.config.measuring import (
    EnvironmentTable,
    GoalTable,
    HistoryTable,
    JudgeTable,
    LadderTable,
    ModelTable,
    PolicyTable,
    ProjectTable,
    RunTable,
    StepTable,
    SuiteTable,
)
from perfci.config.reading import (
    RESERVED_PROJECTS,
    Config,
    load_config,
    project_name,
    tables_of_file,
)
from perfci.config.serving import (
    AccessTable,
    ClientTable,
    NotifyTable,
    RetentionTable,
    Secrets,
    ServerTable,
    StoreTable,
)
from perfci.config.settings import ProjectTables, Settings, of_project, project_tables

__all__ = [
    "RESERVED_PROJECTS",
    "AccessTable",
    "ClientTable",
    "Config",
    "EnvironmentTable",
    "GoalTable",
    "HistoryTable",
    "JudgeTable",
    "LadderTable",
    "ModelTable",
    "NotifyTable",
    "PolicyTable",
    "ProjectTable",
    "ProjectTables",
    "RetentionTable",
    "RunTable",
    "Secrets",
    "ServerTable",
    "Settings",
    "StepTable",
    "StoreTable",
    "SuiteTable",
    "load_config",
    "of_project",
    "project_name",
    "project_tables",
    "tables_of_file",
]
