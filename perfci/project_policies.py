"""Build the policy a project is judged by, from the configuration and the tables stored for the project."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from perfci.config import HistoryTable, Settings, apply_project_override_tables, parse_project_override_tables
from perfci.store.projects import Project
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.judging_policy import Policy, PolicyOverride


@dataclass(frozen=True, slots=True)
class ProjectPolicies:
    """The rules of a project's series, and how its change points become incidents."""

    policy: Policy = field(default_factory=Policy)
    history: HistoryTable = field(default_factory=HistoryTable)


LoadPolicies = Callable[[Project], ProjectPolicies]
"""Loads the policies of a project; the server keeps one for all its workers."""


def build_project_policies(settings: Settings, project: Project) -> ProjectPolicies:
    """The policies of a project on a server: the tables stored for it override the server's own."""
    if project.settings:
        settings = apply_project_override_tables(settings, parse_project_override_tables(project.settings))
    return ProjectPolicies(build_policy(settings), settings.history)


def build_policy(settings: Settings, *, strict: bool = False) -> Policy:
    """The default rule, and the ``[[policy]]`` tables, of which the first that matches a series applies."""
    judge = settings.judge
    looks = tuple(range(judge.min_pairs, max(judge.min_pairs, Rule().looks[-1]) + 1))
    default = Rule(judge.bar, strict or judge.strict, judge.max_pairs, looks)
    overrides = [
        PolicyOverride(
            table.match,
            table.bar,
            table.floor,
            table.floor_bytes,
            table.metric_class,
            table.judge,
            table.gate,
        )
        for table in settings.policy
    ]
    return Policy(default, tuple(overrides))
