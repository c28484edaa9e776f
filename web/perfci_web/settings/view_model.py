"""The view model of the settings of a project: what is in force, and who may do what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from perfci.model import MetricClass
from perfci.number_format import choose_display_scale, format_number, format_percent
from perfci.service.archive_series import serialize_archived_series
from perfci.store.access.api_tokens import Token
from perfci.store.access.users_and_roles import ProjectMember
from perfci.store.incidents.incident_records import Mute
from perfci.store.jobs.notification_destinations import Destination
from perfci.store.series_archive import ArchivedSeries
from perfci.verdicts.judging_policy import (
    CLASS_RULES,
    MetricClassRule,
    Policy,
    PolicyOverride,
    compute_class_bar,
)

MAX_ARCHIVED = 50
"""Archived series that the page lists; the list of benchmarks and the API have all."""


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    """The threshold of a kind of metric; ``floor`` is the smallest difference of some or all of them."""

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
    archived: tuple[ArchivedSeries, ...]
    members: tuple[ProjectMember, ...] = ()
    tokens: tuple[Token, ...] = ()
    destinations: tuple[Destination, ...] = ()


def list_thresholds(policy: Policy) -> tuple[ThresholdRow, ...]:
    """List the thresholds of every kind of metric, each once."""
    floors: dict[tuple[str, str, str], list[str]] = {}
    for rule in CLASS_RULES:
        bar = compute_class_bar(policy.default, rule)
        exact = "any change" if rule.exact_bar == 0 else format_percent(rule.exact_bar or bar)
        of_kind = floors.setdefault((rule.subject, format_percent(bar), exact), [])
        if rule.floor:
            of_kind.append(_format_floor(rule))
    return tuple(ThresholdRow(*kind, " or ".join(texts)) for kind, texts in floors.items())


def _format_floor(rule: MetricClassRule) -> str:
    """Format a floor in a fitting unit: ``512 B``, ``0.01``."""
    scale = choose_display_scale([rule.floor], "bytes" if rule.metric_class is MetricClass.MEMORY else "")
    return f"{format_number(rule.floor / scale.factor)} {scale.symbol}".strip()


def list_live_tokens(tokens: Sequence[Token], now: datetime) -> tuple[Token, ...]:
    """The tokens that still open something, the newest first."""
    return tuple(token for token in reversed(tokens) if token.is_valid(now))


def serialize_settings(page: SettingsView, *, with_access: bool) -> dict[str, Any]:
    """Return the JSON of the page; ``with_access`` adds who may do what, and where notifications go."""
    fields: dict[str, Any] = {
        "thresholds": [asdict(row) for row in page.thresholds],
        "policies": [asdict(override) for override in page.overrides],
        "mutes": [
            {
                "benchmark": mute.benchmark,
                "metric": mute.metric,
                "reason": mute.reason,
                "expires_at": mute.expires_at.isoformat(),
                "actor": mute.actor,
            }
            for mute in page.mutes
        ],
        "archived": [
            serialize_archived_series(archived).model_dump(mode="json") for archived in page.archived
        ],
    }
    return fields | _serialize_access(page) if with_access else fields


def _serialize_access(page: SettingsView) -> dict[str, Any]:
    return {
        "members": [
            {"member": f"{member.user.provider}/{member.user.subject}", "role": member.role}
            for member in page.members
        ],
        "tokens": [
            {
                "uid": token.uid,
                "name": token.name,
                "scopes": list(token.scopes),
                "expires_at": token.expires_at.isoformat(),
            }
            for token in page.tokens
        ],
        "destinations": [
            {"name": each.name, "kind": each.kind, "enabled": each.enabled} for each in page.destinations
        ],
    }
