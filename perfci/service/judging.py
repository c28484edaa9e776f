"""The policy that a configuration asks for."""

from __future__ import annotations

from perfci.config import Config
from perfci.verdicts.policy import Override, Policy
from perfci.verdicts.rule import Rule


def policy_of(config: Config, *, strict: bool = False) -> Policy:
    """The user's bar and tables, of which the first that matches a series speaks for it."""
    judge = config.settings.judge
    default = Rule(bar=judge.bar, strict=strict or judge.strict, max_pairs=judge.max_pairs)
    tables = config.settings.policy
    overrides = [Override(t.match, t.bar, t.floor, t.floor_bytes, t.metric_class, t.judge) for t in tables]
    return Policy(default, tuple(overrides))
