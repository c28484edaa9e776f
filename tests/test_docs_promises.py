"""Tables of promises and of mended defects name tests, or targets of the Makefile, that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROMISES = (
    (ROOT / "docs" / "operation.md").read_text().partition("## What is promised, and what holds it\n")[2]
)
FINDINGS = (ROOT / "docs" / "studies" / "platform-findings.md").read_text()


def list_rows(text: str) -> list[tuple[str, str]]:
    """The first and the last cell of each row of the tables in a text."""
    cells = [row.strip("| ").split(" | ") for row in text.splitlines() if row.startswith("| ")]
    return [(row[0], row[-1]) for row in cells if "`" in row[-1]]


ROWS = [*list_rows(PROMISES), *list_rows(FINDINGS)]
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
TARGET = re.compile(r"`make (\w+)`")


@cache
def list_tests(file: str) -> set[str]:
    path = ROOT / "tests" / file
    tree = ast.parse(path.read_text()) if path.exists() else ast.Module([])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_pages_have_their_rows() -> None:
    assert len(list_rows(PROMISES)) > 20
    assert len(list_rows(FINDINGS)) == 20 + 8


@pytest.mark.parametrize(("promise", "holders"), ROWS, ids=[promise for promise, _ in ROWS])
def test_a_promise_is_held_by_tests_that_exist(promise: str, holders: str) -> None:
    tests, targets = TEST.findall(holders), TARGET.findall(holders)
    makefile = (ROOT / "Makefile").read_text()

    assert tests
    assert len(tests) + len(targets) == holders.count("`") // 2
    assert [f"{file}::{name}" for file, name in tests if name not in list_tests(file)] == []
    assert [target for target in targets if f"\n{target}:" not in makefile] == []
