"""By what a project is judged: what the configuration asks for, and what is kept for the project itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from perfci.config import Config, HistoryTable, Settings, of_project, project_tables
from perfci.store.projects import Project
from perfci.verdicts.policy import Override, Policy
from perfci.verdicts.rule import Rule


@dataclass(frozen=True, slots=True)
class Standards:
    """The bars of its series, and how their change points become pages."""

    policy: Policy = field(default_factory=Policy)
    history: HistoryTable = field(default_factory=HistoryTable)


StandardsOf = Callable[[Project], Standards]


def standards_of(settings: Settings, project: Project) -> Standards:
    """What a server judges this project by: the tables kept for it go before the server's own."""
    own = of_project(settings, project_tables(project.settings))
    return Standards(_policy(own), own.history)


def policy_of(config: Config, *, strict: bool = False) -> Policy:
    """What is judged here goes by the configuration that is here."""
    return _policy(config.settings, strict=strict)


def _policy(settings: Settings, *, strict: bool = False) -> Policy:
    """The user's bar and tables, of which the first that matches a series speaks for it."""
    judge = settings.judge
    default = Rule(bar=judge.bar, strict=strict or judge.strict, max_pairs=judge.max_pairs)
    overrides = [Override(t.match, t.bar, t.floor, t.floor_bytes, t.metric_class, t.judge) for t in settings.policy]
    return Policy(default, tuple(overrides))
