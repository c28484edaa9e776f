"""Parse the ``Perfci-Expect:`` lines of a pull request's description, which declare expected changes."""

from __future__ import annotations

import re

from perfci.verdicts.expected_change import ExpectedChange

EXPECTED_CHANGE_LINE = re.compile(
    r"Perfci-Expect: +(\S{1,200}) +([+\-\N{MINUS SIGN}]?\d{1,6}(?:\.\d{1,6})?) ?% +(\S.{0,499})",
    re.IGNORECASE,
)
"""One line: a metric, a benchmark or both, by name or with ``*``; the change of the value; a
reason."""

MAX_EXPECTED_CHANGES = 20
"""Expected changes read from one pull request."""


def parse_expected_changes(description: str) -> list[ExpectedChange]:
    """Read the expected changes from a pull request's description; lines in another form are
    ignored."""
    changes = []
    for line in description.splitlines():
        if match := EXPECTED_CHANGE_LINE.fullmatch(line.strip()):
            change = float(match[2].replace("\N{MINUS SIGN}", "-")) / 100
            characters = (c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in match[3])
            if change and match[1].isprintable():
                changes.append(ExpectedChange(match[1], change, "".join(characters)))
    return changes[:MAX_EXPECTED_CHANGES]
