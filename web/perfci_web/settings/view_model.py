"""The view model of the settings of a project: what is in force, and who may do what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from perfci.report.number_format import format_percent, format_quantity
from perfci.store.access.api_tokens import Token
from perfci.store.access.users_and_roles import ProjectMember
from perfci.store.incidents.incident_records import Mute
from perfci.store.jobs.notification_destinations import Destination
from perfci.verdicts.judging_policy import CLASS_RULES, Policy, PolicyOverride, compute_class_bar


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    """The threshold of a kind of metric."""

    subject: str
    bar: str
    exact_bar: str
    floor: str


@dataclass(frozen=True, slots=True)
class SettingsView:
    """The page; tokens, members and destinations are empty for who may not see them."""

    thresholds: tuple[ThresholdRow, ...]
    overrides: tuple[PolicyOverride, ...]
    mutes: tuple[Mute, ...]
    members: tuple[ProjectMember, ...] = ()
    tokens: tuple[Token, ...] = ()
    destinations: tuple[Destination, ...] = ()


def list_thresholds(policy: Policy) -> tuple[ThresholdRow, ...]:
    """List the thresholds of every kind of metric, each once."""
    rows = []
    for rule in CLASS_RULES:
        bar = compute_class_bar(policy.default, rule)
        exact = "any change" if rule.exact_bar == 0 else format_percent(rule.exact_bar or bar)
        unit = "bytes" if rule.subject == "memory" else ""
        floor = format_quantity(rule.floor, unit) if rule.floor else ""
        rows.append(ThresholdRow(rule.subject, format_percent(bar), exact, floor))
    return tuple(dict.fromkeys(rows))


def list_live_tokens(tokens: Sequence[Token], now: datetime) -> tuple[Token, ...]:
    """The tokens that still open something, the newest first."""
    return tuple(token for token in reversed(tokens) if token.is_valid(now))
