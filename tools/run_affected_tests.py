"""Run the tests of what a change touches: ``make check`` (after the linters), or
``python -m tools.run_affected_tests --since REV``.

Of the files that differ from ``--since`` (by default the last commit), and those git does not track yet, it
runs the changed test files, the test files that import a changed module, themselves or by a module of
``tests/support``, and the house rules. Browser tests and slow tests are left to ``make test``, and so is
what does not fit into ``--budget`` seconds; both are printed.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tools.readability.sources import module_name

ROOT = Path(__file__).resolve().parent.parent

ALWAYS = "tests/test_architecture.py"

LEFT_OUT = "not proof and not slow and not browser"


def main() -> int:
    options = parse_arguments()
    changed = list(changed_files(options.since))
    tests = affected_tests(changed)
    print(f"{len(changed)} changed files, {len(tests)} test files")
    budget = Budget(options.budget)
    code = int(pytest.main(["-p", "no:cacheprovider", "-m", LEFT_OUT, *tests], plugins=[budget]))
    if budget.is_spent:
        print(f"stopped after {options.budget} s: `make test` runs the rest")
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Run the tests of what a change touches.")
    parser.add_argument("--since", default="HEAD", help="the commit to compare with")
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds after which no further test starts"
    )
    return parser.parse_args()


def changed_files(since: str) -> Iterator[Path]:
    """Files that differ from a commit, and files that git neither tracks nor ignores."""
    for command in (["diff", "--name-only", since], ["ls-files", "--others", "--exclude-standard"]):
        listed = subprocess.run(
            ["git", *command], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        yield from (ROOT / line for line in listed.splitlines() if (ROOT / line).exists())


def affected_tests(changed: Iterable[Path]) -> list[str]:
    """Changed test files and those that import a changed module, with the most specific ones first."""
    modules = {dotted_name(path) for path in changed if path.suffix == ".py"}
    support = [path for path in (ROOT / "tests/support").glob("*.py") if imported_modules(path) & modules]
    modules.update(map(dotted_name, support))
    own = [path for path in changed if path.name.startswith("test_") and path.suffix == ".py"]
    importing = [
        path for path in sorted((ROOT / "tests").rglob("test_*.py")) if imported_modules(path) & modules
    ]
    importing.sort(key=lambda path: len(imported_modules(path)))
    return list(dict.fromkeys([*(str(path) for path in (*own, *importing)), str(ROOT / ALWAYS)]))


def dotted_name(path: Path) -> str:
    relative = path.relative_to(ROOT)
    parts = relative.parts[1:] if relative.parts[0] == "web" else relative.parts
    return module_name(Path(*parts))


def imported_modules(path: Path) -> set[str]:
    """Modules, and names of modules, that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module))
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


class Budget:
    """A pytest plugin that starts no further test once its seconds are spent."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.is_spent = False

    @pytest.hookimpl
    def pytest_runtest_logfinish(self) -> None:
        self.is_spent = time.monotonic() > self._end

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        if self.is_spent:
            item.session.shouldstop = "the budget is spent"


if __name__ == "__main__":
    sys.exit(main())
