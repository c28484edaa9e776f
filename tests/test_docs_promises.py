"""docs/operation.md names for each of its promises a test, or a target of the Makefile, that exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SECTION = (
    (ROOT / "docs" / "operation.md").read_text().partition("## What is promised, and what holds it\n")[2]
)
ROWS = [row.strip("| ").split(" | ") for row in SECTION.splitlines() if row.startswith("| ")][1:]
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
TARGET = re.compile(r"`make (\w+)`")


@cache
def list_tests(file: str) -> set[str]:
    path = ROOT / "tests" / file
    tree = ast.parse(path.read_text()) if path.exists() else ast.Module([])
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_page_has_its_promises() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize(("promise", "holders"), ROWS, ids=[promise for promise, _ in ROWS])
def test_a_promise_is_held_by_tests_that_exist(promise: str, holders: str) -> None:
    tests, targets = TEST.findall(holders), TARGET.findall(holders)
    makefile = (ROOT / "Makefile").read_text()

    assert tests
    assert len(tests) + len(targets) == holders.count("`") // 2
    assert [f"{file}::{name}" for file, name in tests if name not in list_tests(file)] == []
    assert [target for target in targets if f"\n{target}:" not in makefile] == []
