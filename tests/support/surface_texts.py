"""Texts that users read: literals of the code, help of commands, templates and pages of documentation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROSE = re.compile(r"[a-z]{2}\W+[a-z]{2}|^[A-Z][a-z]+$|[\d}]\s?%", re.IGNORECASE)
"""Two words, a single one or a percentage; not a name or a path."""

NOT_READ = re.compile(
    r"\{#.*?#\}|\{%.*?%\}|<(script|style).*?</\1>|^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE
)
"""What no reader of a template or a page of documentation takes for prose: code."""

MARKUP = re.compile(r"<[^>]*>|\{\{.*?\}\}")


@dataclass(frozen=True, slots=True)
class SurfaceText:
    """A text and where it stands."""

    path: str
    line: int
    text: str


def list_code_texts() -> Iterator[SurfaceText]:
    """The literals of perfci and of its web application that are prose, and the help of commands."""
    for path in _list_files("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        hidden = {id(docstring) for docstring in _list_docstrings(tree)}
        for node in ast.walk(tree):
            is_text = (
                isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden
            )
            if is_text and PROSE.search(node.value):
                yield SurfaceText(str(path.relative_to(ROOT)), node.lineno, node.value)


def list_template_texts() -> Iterator[SurfaceText]:
    """The lines of all templates without markup and expressions."""
    for path in _list_files("*.html"):
        yield from _list_lines(path)


def list_documentation_texts() -> Iterator[SurfaceText]:
    """The lines of the documentation without code; studies are as they were written."""
    for path in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]:
        if "studies" not in path.parts:
            yield from _list_lines(path)


def list_percent_formats() -> Iterator[SurfaceText]:
    """Places of the code that format a percentage by themselves."""
    for path in _list_files("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            spec = (
                ast.unparse(node.format_spec)
                if isinstance(node, ast.FormattedValue) and node.format_spec
                else ""
            )
            if re.search(r"(^f['\"]|\d)%['\"]$", spec):
                yield SurfaceText(str(path.relative_to(ROOT)), node.lineno, spec)


def _list_files(pattern: str) -> Iterator[Path]:
    for folder in (ROOT / "perfci", ROOT / "web" / "perfci_web"):
        for path in sorted(folder.rglob(pattern)):
            if not {"migrations", "sample"} & set(path.parts):
                yield path


def _list_docstrings(tree: ast.Module) -> Iterator[ast.expr]:
    """Docstrings, also of attributes, but for those of commands: these are their help."""
    for node in ast.walk(tree):
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        if not any(re.search(r"\.(command|group)\b", ast.unparse(decorator)) for decorator in decorators):
            body = getattr(node, "body", None)
            yield from (
                (each.value for each in body if isinstance(each, ast.Expr)) if isinstance(body, list) else ()
            )


def _list_lines(path: Path) -> Iterator[SurfaceText]:
    text = NOT_READ.sub(lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"))
    for number, line in enumerate(text.splitlines(), 1):
        yield SurfaceText(str(path.relative_to(ROOT)), number, MARKUP.sub(" ", line))
