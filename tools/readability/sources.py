"""Read and parse the modules of a checkout."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = ("perfci", "web/perfci_web")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed module."""

    path: str
    module: str
    text: str
    tree: ast.Module = field(repr=False)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def read_sources(root: Path) -> Iterator[Source]:
    for package in PACKAGES:
        folder = root / package
        for file in sorted(folder.rglob("*.py")):
            if not {"sample", "versions"} & set(file.parts):
                text = file.read_text(encoding="utf-8")
                path = file.relative_to(root).as_posix()
                yield Source(path, module_name(file.relative_to(folder.parent)), text, ast.parse(text))


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def comments_in(source: Source) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def docstrings_in(tree: ast.AST) -> Iterator[str]:
    """Every string that stands as a statement: also those below a constant or a field."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def functions_in(tree: ast.AST) -> Iterator[FunctionNode]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
