"""Count folders, imports, functions, line lengths and docstrings of a checkout."""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.readability.import_graph import absolute_base, import_circles, import_edges, upward_imports
from tools.readability.sources import FunctionNode, Source, comments_in, functions_in

FOLDER_LIMIT = 20
"""More modules than this in one folder are too many to scan."""

Value = int | float | str
Measures = dict[str, Value]
Reference = tuple[str, str]


def measure_checkout(root: Path, sources: Sequence[Source]) -> Measures:
    """All measures but the words, in the order of the table."""
    return {
        **measure_folders(sources),
        **measure_imports(root, sources),
        **measure_functions(sources),
        **measure_expressions(sources),
        **measure_layout(sources),
        **measure_private_functions(sources),
        **measure_public_names(sources),
    }


# Folders


def measure_folders(sources: Sequence[Source]) -> Measures:
    paths = [Path(source.path) for source in sources]
    sizes = Counter(str(path.parent) for path in paths if path.stem != "__init__")
    gerunds = [source for source in sources if source.module.endswith("ing")]
    crowded = {folder: size for folder, size in sizes.items() if size > FOLDER_LIMIT}
    return {
        "Python modules": len(sources),
        "lines": sum(len(source.lines) for source in sources),
        "folders": len(sizes),
        f"folders over {FOLDER_LIMIT} modules (without `__init__`)": len(crowded),
        "largest folders of perfci": largest_folders(sizes, "perfci"),
        "largest folders of perfci_web": largest_folders(sizes, "web"),
        "modules whose name ends in -ing": len(gerunds),
    }


def largest_folders(sizes: Counter[str], top: str, shown: int = 5) -> str:
    inside = Counter({folder: size for folder, size in sizes.items() if folder.split("/")[0] == top})
    return ", ".join(f"{folder.removeprefix('web/')} {size}" for folder, size in inside.most_common(shown))


# Imports


def measure_imports(root: Path, sources: Sequence[Source]) -> Measures:
    edges = list(import_edges(sources))
    direct = import_circles([edge for edge in edges if not edge.typing and not edge.late])
    with_late = import_circles([edge for edge in edges if not edge.typing])
    with_typing = import_circles(edges)
    return {
        "upward imports (by MAY_IMPORT of tests/test_architecture.py)": upward_imports(root, edges),
        "imports in functions": sum(edge.late for edge in edges),
        "import circles (imports at module level)": len(direct),
        "import circles, largest": largest_circle(direct),
        "import circles (with imports in functions)": len(with_late),
        "import circles (with imports in functions), largest": largest_circle(with_late),
        "import circles (with TYPE_CHECKING imports too)": len(with_typing),
        "import circles (with TYPE_CHECKING imports too), largest": largest_circle(with_typing),
    }


def largest_circle(circles: Sequence[set[str]]) -> str:
    """How many modules the largest circle has, and which."""
    return f"{len(circles[0])}: {', '.join(sorted(circles[0]))}" if circles else "0"


# Functions and expressions


def measure_functions(sources: Sequence[Source]) -> Measures:
    """Length is counted from ``def`` to the end; methods and nested functions count too."""
    lengths = sorted(function_length(node) for source in sources for node in functions_in(source.tree))
    return {
        "functions": len(lengths),
        "function length, median": int(statistics.median(lengths)),
        "function length, p95": lengths[int(0.95 * (len(lengths) - 1))],
        "function length, largest": lengths[-1],
    }


def function_length(node: FunctionNode) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def measure_expressions(sources: Sequence[Source]) -> Measures:
    nodes = [node for source in sources for node in ast.walk(source.tree)]
    loops = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    thousand_lines = sum(len(source.lines) for source in sources) / 1000
    ternaries = [node for node in nodes if isinstance(node, ast.IfExp)]
    comprehensions = [node for node in nodes if isinstance(node, loops)]
    return {
        "ternaries per 1,000 lines": round(len(ternaries) / thousand_lines, 1),
        "ternaries with another ternary inside": sum(has_nested_ternary(node) for node in ternaries),
        "comprehensions per 1,000 lines": round(len(comprehensions) / thousand_lines, 1),
    }


def has_nested_ternary(ternary: ast.IfExp) -> bool:
    return any(isinstance(node, ast.IfExp) for node in ast.walk(ternary) if node is not ternary)


def measure_layout(sources: Sequence[Source]) -> Measures:
    lines = [line for source in sources for line in source.lines]
    comments = [comment for source in sources for comment in comments_in(source)]
    own_line = sum(line.lstrip().startswith("#") for line in lines)
    return {
        "lines beyond 100 characters": sum(len(line) > 100 for line in lines),
        "lines beyond 100 characters, %": percentage(sum(len(line) > 100 for line in lines), len(lines)),
        "lines beyond 110 characters": sum(len(line) > 110 for line in lines),
        "lines that are a # comment, %": percentage(own_line, len(lines)),
        "lines with a # comment, %": percentage(len(comments), len(lines)),
    }


def percentage(count: int, total: int) -> float:
    return round(100 * count / total, 1) if total else 0.0


# Private functions


def measure_private_functions(sources: Sequence[Source]) -> Measures:
    """Private by name: a leading underscore. Private in effect: that, or used, but only by its own module."""
    imported = {reference for source in sources for reference in references_to_others(source)}
    uses: list[tuple[bool, int]] = []
    for source in sources:
        counts = Counter(names_loaded(source.tree))
        for node in module_functions(source.tree):
            by_name = node.name.startswith("_")
            if by_name or (counts[node.name] and (source.module, node.name) not in imported):
                uses.append((by_name, counts[node.name]))
    by_name_uses = [count for by_name, count in uses if by_name]
    return {
        "module functions with a leading underscore": len(by_name_uses),
        "of these used exactly once, %": percentage(by_name_uses.count(1), len(by_name_uses)),
        "module functions used by their own module only": len(uses),
        "of those used exactly once, %": percentage(sum(count == 1 for _, count in uses), len(uses)),
    }


def module_functions(tree: ast.Module) -> list[FunctionNode]:
    return [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def names_loaded(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id


def references_to_others(source: Source) -> Iterator[Reference]:
    """Names of other modules that a module imports, or reaches through an imported module."""
    modules: dict[str, str] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom):
            base = absolute_base(node, source)
            for alias in node.names:
                yield base, alias.name
                modules[alias.asname or alias.name] = f"{base}.{alias.name}"
        elif isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield modules[node.value.id], node.attr


# Public names


def measure_public_names(sources: Sequence[Source]) -> Measures:
    documented = [has_docstring for source in sources for has_docstring in public_docstrings(source.tree)]
    classes = Counter(name for source in sources for name in {node.name for node in classes_in(source.tree)})
    repeated = {name: count for name, count in sorted(classes.items()) if count > 1}
    return {
        "public functions, methods and classes": len(documented),
        "public docstrings, %": percentage(sum(documented), len(documented)),
        "class names defined in several modules": len(repeated),
        "these names": ", ".join(f"{name} {count}" for name, count in Counter(repeated).most_common(12)),
    }


def public_docstrings(body: ast.Module | ast.ClassDef) -> Iterator[bool]:
    """Whether each public function, class and method has a docstring; functions in functions do not count."""
    for node in body.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if not node.name.startswith("_"):
            yield ast.get_docstring(node) is not None
            if isinstance(node, ast.ClassDef):
                yield from public_docstrings(node)


def classes_in(tree: ast.AST) -> Iterator[ast.ClassDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node
