"""Configuration: ``perfci.toml``, ``asv.conf.json`` and ``PERFCI_*`` variables become one frozen Config."""

from __future__ import annotations

from perfci.config.loader import (
    RESERVED_PROJECTS,
    Config,
    check_project_name,
    find_lock_path,
    load_config,
    load_project_override_tables,
)
from perfci.config.settings import (
    ProjectTables,
    Settings,
    apply_project_override_tables,
    fix_pair_count,
    parse_project_override_tables,
)
from perfci.config.toml_tables import (
    AblationTable,
    AccessTable,
    EnvironmentTable,
    ForgeTable,
    HistoryTable,
    JudgeTable,
    ModelTable,
    RunTable,
    Secrets,
    SuiteTable,
)

__all__ = [
    "RESERVED_PROJECTS",
    "AblationTable",
    "AccessTable",
    "Config",
    "EnvironmentTable",
    "ForgeTable",
    "HistoryTable",
    "JudgeTable",
    "ModelTable",
    "ProjectTables",
    "RunTable",
    "Secrets",
    "Settings",
    "SuiteTable",
    "apply_project_override_tables",
    "check_project_name",
    "find_lock_path",
    "fix_pair_count",
    "load_config",
    "load_project_override_tables",
    "parse_project_override_tables",
]
