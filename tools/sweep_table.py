"""Table of a sweep, with the limits that its figures have to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scipy.special import bdtr, bdtrc

TEST_LEVEL = 0.05
"""A share breaks a limit where an exact binomial test rejects, at this level, that it is kept: a few cases
break only what is far off."""


@dataclass
class SweepTable:
    """Rows of figures, the limits in words, and each limit that a figure broke."""

    title: str
    limits: str
    headings: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    def require_at_most(self, value: float, limit: float, description: str) -> None:
        if not value <= limit:
            self.broken.append(f"{self.title}: {description} {value:.3g}, at most {limit:.3g}")

    def require_at_least(self, value: float, limit: float, description: str) -> None:
        if not value >= limit:
            self.broken.append(f"{self.title}: {description} {value:.3g}, at least {limit:.3g}")

    def require_share_at_most(self, count: int, total: int, limit: float, description: str) -> None:
        if count and bdtrc(count - 1, total, limit) < TEST_LEVEL:
            self.broken.append(f"{self.title}: {description} {count / total:.1%}, at most {limit:.1%}")

    def require_share_at_least(self, count: int, total: int, limit: float, description: str) -> None:
        if bdtr(count, total, limit) < TEST_LEVEL:
            self.broken.append(f"{self.title}: {description} {count / total:.1%}, at least {limit:.1%}")

    def format_markdown(self) -> str:
        """The table under its title, the limits above and those that are broken below it."""
        lines = [
            f"### {self.title}",
            "",
            self.limits,
            "",
            f"| {' | '.join(self.headings)} |",
            "|" + "---|" * len(self.headings),
            *(f"| {' | '.join(row)} |" for row in self.rows),
        ]
        if self.broken:
            lines += ["", "Broken:", "", *(f"- {sentence}" for sentence in self.broken)]
        return "\n".join(lines)


def format_share(share: float) -> str:
    """``98.7``: in percent."""
    return f"{100 * share:.1f}"
