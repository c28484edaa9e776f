"""Find which module imports which, upward imports and circles."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.readability.sources import Source

MAY_IMPORT_WEB = {"cli", "demo", "perfci_web"}
"""The rooms in which some modules start the web application (tests/test_architecture.py names them)."""


@dataclass(frozen=True, slots=True)
class ImportEdge:
    """One module imports another: ``late`` in a function, ``typing`` under TYPE_CHECKING."""

    importer: str
    target: str
    late: bool
    typing: bool


def import_edges(sources: Sequence[Source]) -> Iterator[ImportEdge]:
    """Edges between modules of the project; a module's parent packages do not count as imported with it."""
    modules = {source.module for source in sources}
    for source in sources:
        for node, late, typing in imports_of(source.tree):
            for target in import_targets(node, source, modules):
                if target != source.module:
                    yield ImportEdge(source.module, target, late, typing)


def imports_of(
    node: ast.AST, late: bool = False, typing: bool = False
) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late, typing
        else:
            inside_function = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports_of(child, inside_function, typing or is_type_checking(child))


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def import_targets(node: ast.Import | ast.ImportFrom, source: Source, modules: set[str]) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names if alias.name in modules}
    base = absolute_base(node, source)
    submodules = {f"{base}.{alias.name}" for alias in node.names}
    targets = submodules & modules
    return targets | ({base} & modules if submodules - modules else set())


def absolute_base(node: ast.ImportFrom, source: Source) -> str:
    """The module after ``from``, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    is_package = source.path.endswith("__init__.py")
    parents = source.module.split(".")[: None if is_package and node.level == 1 else -node.level + is_package]
    return ".".join([*parents, *([node.module] if node.module else [])])


def upward_imports(root: Path, edges: Iterable[ImportEdge]) -> int | str:
    may_import = read_may_import(root)
    if may_import is None:
        return "no MAY_IMPORT"
    return sum(not is_allowed(edge, may_import) for edge in edges)


def read_may_import(root: Path) -> dict[str, set[str]] | None:
    """The literal MAY_IMPORT of the architecture test, read without running it."""
    test = root / "tests" / "test_architecture.py"
    for node in ast.parse(test.read_text()).body if test.exists() else []:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        if any(isinstance(target, ast.Name) and target.id == "MAY_IMPORT" for target in targets):
            return literal_sets(node)
    return None


def literal_sets(node: ast.stmt) -> dict[str, set[str]] | None:
    value = getattr(node, "value", None)
    if not isinstance(value, ast.Dict):
        return None
    try:
        return {
            str(ast.literal_eval(key)): set() if ast.unparse(item) == "set()" else set(ast.literal_eval(item))
            for key, item in zip(value.keys, value.values, strict=True)
            if key is not None
        }
    except ValueError:
        return None


def is_allowed(edge: ImportEdge, may_import: Mapping[str, set[str]]) -> bool:
    """Whether the importer's room may import the target's room or a room around it."""
    importer_rooms, target_rooms = rooms_around(edge.importer), rooms_around(edge.target)
    if target_rooms == ["perfci"]:
        return True
    if target_rooms[0] == "perfci_web":
        return importer_rooms[0] in MAY_IMPORT_WEB
    listed = [room for room in importer_rooms if room in may_import]
    if not listed:
        return True
    return bool({*may_import[listed[-1]], listed[-1]} & set(target_rooms))


def rooms_around(module: str) -> list[str]:
    """The rooms that hold a module, the outermost first: ``service``, ``service/accounts``, ..."""
    parts = module.split(".")
    if parts[0] == "perfci_web" or len(parts) == 1:
        return [parts[0]]
    return ["/".join(parts[1 : end + 1]) for end in range(1, len(parts))]


def import_circles(edges: Iterable[ImportEdge]) -> list[set[str]]:
    """The strongly connected components with more than one module, the largest first."""
    graph: dict[str, set[str]] = {}
    for edge in edges:
        graph.setdefault(edge.importer, set()).add(edge.target)
        graph.setdefault(edge.target, set())
    remove_ends(graph)
    reachable = {module: reachable_from(module, graph) for module in graph}
    circles = {frozenset(name for name in reachable[module] if module in reachable[name]) for module in graph}
    return sorted((set(circle) for circle in circles if len(circle) > 1), key=len, reverse=True)


def remove_ends(graph: dict[str, set[str]]) -> None:
    """Remove what imports nothing, and what then imports nothing any more: no circle leads through it."""
    while ends := {module for module, targets in graph.items() if not targets}:
        for module in ends:
            del graph[module]
        for targets in graph.values():
            targets -= ends


def reachable_from(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    """Every module that importing ``start`` loads, itself only when it is part of a circle."""
    reached: set[str] = set()
    pending = list(graph[start])
    while pending:
        module = pending.pop()
        if module not in reached:
            reached.add(module)
            pending.extend(graph[module])
    return reached
