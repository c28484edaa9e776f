"""By what a project is judged: what the configuration asks for, and what is kept for the project itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from perfci.config import Config, HistoryTable, Settings, apply_project_tables, parse_project_tables
from perfci.store.projects import Project
from perfci.verdicts.policy import Policy, PolicyOverride
from perfci.verdicts.rule import Rule


@dataclass(frozen=True, slots=True)
class ProjectPolicies:
    """The bars of its series, and how their change points become pages."""

    policy: Policy = field(default_factory=Policy)
    history: HistoryTable = field(default_factory=HistoryTable)


LoadPolicies = Callable[[Project], ProjectPolicies]


def load_project_policies(settings: Settings, project: Project) -> ProjectPolicies:
    """What a server judges this project by: the tables kept for it go before the server's own."""
    own = apply_project_tables(settings, parse_project_tables(project.settings))
    return ProjectPolicies(_build_policy_from_settings(own), own.history)


def build_policy(config: Config, *, strict: bool = False) -> Policy:
    """What is judged here goes by the configuration that is here."""
    return _build_policy_from_settings(config.settings, strict=strict)


def _build_policy_from_settings(settings: Settings, *, strict: bool = False) -> Policy:
    """The user's bar and tables, of which the first that matches a series speaks for it."""
    judge = settings.judge
    default = Rule(bar=judge.bar, strict=strict or judge.strict, max_pairs=judge.max_pairs)
    overrides = [
        PolicyOverride(t.match, t.bar, t.floor, t.floor_bytes, t.metric_class, t.judge)
        for t in settings.policy
    ]
    return Policy(default, tuple(overrides))
