"""Changes of the observed environment between two measurements."""

from __future__ import annotations

from perfci.model import Environment, EnvironmentChange

MAX_CHANGE_SHARE = 0.2
"""A value that changes at more than one boundary in five (a host name, a timestamp) coincides with
steps by chance and explains nothing."""


def diff_environments(before: Environment, after: Environment) -> tuple[EnvironmentChange, ...]:
    """Values that differ, in the order of their names."""
    old, new = dict(before.values), dict(after.values)
    return tuple(
        EnvironmentChange(name, old.get(name, ""), new.get(name, ""))
        for name in sorted(old.keys() | new.keys())
        if old.get(name, "") != new.get(name, "")
    )
