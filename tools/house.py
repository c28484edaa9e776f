"""Measure how readable a checkout is: folders, imports, functions, line lengths and leftover dialect words.

Usage::

    python tools/house.py                                  # the checkout that holds this script
    python tools/house.py --root DIR --json before.json    # another checkout, with its measures saved
    python tools/house.py --before before.json             # two columns, before and after
    python tools/house.py --words                          # every remaining dialect word as path:line name

Only ``perfci`` and ``web/perfci_web`` are measured, without the example suites in their ``sample`` folders
and without migrations, which stay as they were written.
"""

from __future__ import annotations

import argparse
import ast
import functools
import io
import json
import re
import statistics
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent

PACKAGES = ("perfci", "web/perfci_web")

FOLDER_LIMIT = 20
"""More modules than this in one folder are too many to scan."""

MAY_IMPORT_WEB = {"cli", "demo", "perfci_web"}
"""The rooms in which some modules start the web application (tests/test_architecture.py names them)."""

IDENTIFIER_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

Value = int | float | str
Measures = dict[str, Value]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Reference = tuple[str, str]
WordCounts = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Word:
    """A dialect word and the term that replaces it.

    ``pattern`` is a regular expression over the snake_case parts of a name; ``bare`` words count only as a
    whole name. ``allowed`` is searched in ``path:name`` and exempts what it matches. ``in_text`` words are
    unmistakable in prose, so they are also counted in docstrings and comments.
    """

    pattern: str
    standard: str
    bare: bool = False
    allowed: str = ""
    in_text: bool = False

    def is_part_of(self, name: str) -> bool:
        pattern = rf"^(?:{self.pattern})$" if self.bare else rf"(?:^|_)(?:{self.pattern})(?=_|$)"
        return bool(re.search(pattern, snake_case(name)))

    def is_allowed(self, path: str, name: str) -> bool:
        return bool(self.allowed and re.search(self.allowed, f"{path}:{name}"))

    def count_in(self, text: str) -> int:
        return len(re.findall(rf"\b(?:{self.pattern})\b", text, re.IGNORECASE)) if self.in_text else 0


OUTSIDE_STATS = r"^(?!perfci/stats/)"

INTERIM_ANALYSES = (
    r":_?(\w+_)?(looks?|LOOKS?)(_\w+)?$|:_?(On|Planned)?Look(Record|Row|Decision|Plan|Result)?s?$"
)
"""A *look* is the literature's word for an interim analysis; the verb forms are not allowed."""

INCIDENT_SUSPECTS = r":(\w*suspects\w*|\w*SUSPECTS|Suspect\w*|suspect_lines)$"

NOTIFICATION_OR_HASH = (
    r":(hexdigest|compare_digest|content_digest|\w*digest_(subject|text|time|body|pattern)|DIGEST_PATTERN)$"
    r"|^(?!.*(judged|level|points|bulk|summar|history)).*:_?(digest|DIGEST)$"
)

DIALECT = (
    Word("found", "what it holds: verdicts, change_points, row", allowed=r"(?i)not_?found|culprit_found"),
    Word(
        "told|tell|tells|telling", "notify, report, event, message", allowed="messages.py:tell$", in_text=True
    ),
    Word("say|says|saying|said", "message, text, notification"),
    Word("one", "a noun for the item", bare=True),
    Word("asked", "request, options, query"),
    Word("known", "priors, existing", bare=True),
    Word("given", "value, supplied", bare=True),
    Word("of", "a noun", bare=True),
    Word("looks?|looking", "evaluation, poll (look: interim analysis only)", allowed=INTERIM_ANALYSES),
    Word("equals", "A/A runs, identical inputs", bare=True),
    Word("alike", "identical, duplicates", in_text=True),
    Word(r"convict\w*", "confirm, confirmation", in_text=True),
    Word(r"suspect\w*", "candidate (suspects: commits of an incident)", allowed=INCIDENT_SUSPECTS),
    Word(r"nominat\w*", "select", in_text=True),
    Word("trial", "boundary test, validate"),
    Word("proving|heard", "validate"),
    Word("witness|witnesses", "informational metric", in_text=True),
    Word("mood", "machine drift", in_text=True),
    Word(r"calm\w*", "baseline, quiet", in_text=True),
    Word("hiccups?", "outlier", in_text=True),
    Word("wolf|wolves", "noisy benchmark", in_text=True),
    Word("lend|lending|lent", "noise prior, shrinkage", in_text=True),
    Word("past", "noise prior, history pool", bare=True),
    Word("hops?", "mode switching", allowed="login/proxy"),
    Word("growing", "incremental segmentation"),
    Word("lines", "preprocessing (stats)", allowed=OUTSIDE_STATS),
    Word("evidence", "boundary test (stats)", bare=True, allowed=OUTSIDE_STATS),
    Word("lineups?", "variant session", in_text=True),
    Word("family|families", "variant group", allowed="GaugeMetricFamily|CounterMetricFamily|listen_socket"),
    Word(r"climb\w*|ladders?", "ablation", in_text=True),
    Word("rungs?", "ablation step", in_text=True),
    Word("fallen", "rejected", in_text=True),
    Word("digests?", "result summary (digest: daily notification, hash)", allowed=NOTIFICATION_OR_HASH),
    Word("levelling", "result summaries", in_text=True),
    Word("desks?", "worker", in_text=True),
    Word("stays?", "worker session", allowed="LONG_STAY"),
    Word("seats?", "slot", in_text=True),
    Word(r"announc\w*|foretold", "expected change", allowed=":announce_command$", in_text=True),
    Word("arrived", "expected change", allowed=":arrived_at$"),
    Word(r"quarantin\w*|suspensions?", "mute, unresolved unit", in_text=True),
    Word("expectations?|absences?|silence", "reporting schedule, missing data", bare=True),
    Word("attend|attending", "lifecycle sweep", in_text=True),
    Word("chores?", "periodic jobs", in_text=True),
    Word("courier", "leased loop", in_text=True),
    Word("hearing|catching_up", "webhook receiver, reconciliation poll"),
    Word("handed|handing", "results artifact"),
    Word("left_behind", "results artifact"),
    Word("exchanging", "OIDC token exchange"),
    Word("surroundings", "project snapshot", in_text=True),
    Word("timetables?", "visit index", in_text=True),
    Word("endings?", "latest results", bare=True),
    Word("standing", "project status"),
    Word("tally|tallies", "verdict counts", in_text=True),
    Word("care|thinning", "maintenance, retention"),
    Word("happenings?", "activity log", in_text=True),
    Word("notices?", "notification text", bare=True),
    Word("fitting", "truncation"),
    Word(r"nudg\w*", "move boundary", in_text=True),
    Word("alerts?", "incidents", bare=True),
    Word("rel", "change_ratio", bare=True),
    Word("cost", "a public name that says of what", bare=True, allowed=r"^(?!.*net/shapes)"),
    Word("by|act", "AuditContext (the classes By and Act)", bare=True, allowed=r":_?(by|act|BY|ACT)$"),
)


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


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where a name stands; ``defines`` is true where the name is introduced rather than used."""

    path: str
    line: int
    name: str
    defines: bool


def main() -> None:
    options = parse_arguments()
    sources = list(read_sources(options.root))
    occurrences = [occurrence for source in sources for occurrence in occurrences_in(source)]
    if options.words:
        print_words(occurrences)
        return
    measures = measure(options.root, sources)
    words = count_words(sources, occurrences)
    earlier = json.loads(options.before.read_text()) if options.before else {"measures": {}, "words": {}}
    print_measures(measures, earlier["measures"])
    print_words_table(words, earlier["words"])
    if options.json:
        options.json.write_text(json.dumps({"measures": measures, "words": words}, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how readable a checkout is.")
    parser.add_argument("--root", type=Path, default=REPOSITORY, help="the checkout")
    parser.add_argument("--json", type=Path, help="file to save the measures to")
    parser.add_argument("--before", type=Path, help="measures saved earlier, shown as a column of their own")
    parser.add_argument("--words", action="store_true", help="list every remaining dialect word")
    return parser.parse_args()


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


def measure(root: Path, sources: Sequence[Source]) -> Measures:
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
        "largest folders of perfci": largest(sizes, "perfci"),
        "largest folders of perfci_web": largest(sizes, "web"),
        "modules whose name ends in -ing": len(gerunds),
    }


def largest(sizes: Counter[str], top: str, shown: int = 5) -> str:
    inside = Counter({folder: size for folder, size in sizes.items() if folder.split("/")[0] == top})
    return ", ".join(f"{folder.removeprefix('web/')} {size}" for folder, size in inside.most_common(shown))


# Imports


@dataclass(frozen=True, slots=True)
class ImportEdge:
    """One module imports another: ``late`` in a function, ``typing`` under TYPE_CHECKING."""

    importer: str
    target: str
    late: bool
    typing: bool


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


def upward_imports(root: Path, edges: Iterable[ImportEdge]) -> Value:
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
    reachable = {module: reachable_from(module, graph) for module in graph}
    circles = {frozenset(name for name in reachable[module] if module in reachable[name]) for module in graph}
    return sorted((set(circle) for circle in circles if len(circle) > 1), key=len, reverse=True)


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


def functions_in(tree: ast.AST) -> Iterator[FunctionNode]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


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


def comments_in(source: Source) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


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


# Words


def occurrences_in(source: Source) -> Iterator[Occurrence]:
    """Every name in a module: its own, and those it defines, uses, imports and passes by keyword."""
    yield Occurrence(source.path, 1, source.module.rpartition(".")[2], True)
    for node in ast.walk(source.tree):
        for name, defines in names_at(node):
            yield Occurrence(source.path, line_of(node), name, defines)


def names_at(node: ast.AST) -> list[tuple[str, bool]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [(node.name, True)]
        case ast.arg():
            return [(node.arg, True)]
        case ast.Name():
            return [(node.id, isinstance(node.ctx, ast.Store))]
        case ast.Attribute():
            return [(node.attr, isinstance(node.ctx, ast.Store))]
        case ast.keyword(arg=str(name)) | ast.MatchAs(name=str(name)):
            return [(name, isinstance(node, ast.MatchAs))]
        case ast.ExceptHandler(name=str(name)):
            return [(name, True)]
        case ast.Import() | ast.ImportFrom():
            return [(name, False) for name in imported_names(node)]
    return []


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    base = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    if base.split(".")[0] in ("perfci", "perfci_web"):
        yield from base.split(".")
    for alias in node.names:
        if base.split(".")[0] in ("perfci", "perfci_web") or alias.name.startswith("perfci"):
            yield from alias.name.split(".")
        if alias.asname:
            yield alias.asname


def line_of(node: ast.AST) -> int:
    if isinstance(node, ast.keyword):
        return node.value.lineno
    return int(getattr(node, "lineno", 1))


def snake_case(name: str) -> str:
    return "_".join(IDENTIFIER_PARTS.findall(name)).lower()


def count_words(sources: Sequence[Source], occurrences: Sequence[Occurrence]) -> WordCounts:
    """For each dialect word its definitions and all its occurrences as a name, and its uses in prose."""
    docstrings = "\n".join(text for source in sources for text in docstrings_in(source.tree))
    comments = "\n".join(text for source in sources for text in comments_in(source))
    counts = {
        word.pattern: {
            "defined": 0,
            "names": 0,
            "files": 0,
            "docstrings": word.count_in(docstrings),
            "comments": word.count_in(comments),
        }
        for word in DIALECT
    }
    files: dict[str, set[str]] = {word.pattern: set() for word in DIALECT}
    for word, occurrence in remaining(occurrences):
        counts[word.pattern]["names"] += 1
        counts[word.pattern]["defined"] += occurrence.defines
        files[word.pattern].add(occurrence.path)
        counts[word.pattern]["files"] = len(files[word.pattern])
    return counts


def docstrings_in(tree: ast.AST) -> Iterator[str]:
    """Every string that stands as a statement: also those below a constant or a field."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield text


def remaining(occurrences: Iterable[Occurrence]) -> Iterator[tuple[Word, Occurrence]]:
    """Occurrences that carry a dialect word, each under the first word of the table that matches it."""
    for occurrence in occurrences:
        for word in words_in(occurrence.name):
            if not word.is_allowed(occurrence.path, occurrence.name):
                yield word, occurrence
                break


@functools.cache
def words_in(name: str) -> tuple[Word, ...]:
    return tuple(word for word in DIALECT if word.is_part_of(name))


# Printing


def print_measures(measures: Measures, before: Measures) -> None:
    print("| measure | before | after |\n|---|---|---|" if before else "| measure | value |\n|---|---|")
    for label, value in measures.items():
        columns = [before.get(label, ""), value] if before else [value]
        print(f"| {label} | {' | '.join(format_value(column) for column in columns)} |")


def format_value(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_words_table(words: WordCounts, before: WordCounts) -> None:
    print("\n| dialect word | standard term | defined | names | in files | in docstrings | in comments |")
    print("|---|---|---|---|---|---|---|")
    for word in DIALECT:
        cells = word_cells(words[word.pattern], before.get(word.pattern, {}))
        if not word.in_text:
            cells[3:] = ["-", "-"]
        pattern = word.pattern.replace(r"\w*", "*").replace("|", ", ")
        print(f"| {pattern}{' (bare)' * word.bare} | {word.standard} | {' | '.join(cells)} |")
    print(f"| **all** | | {' | '.join(word_cells(total_counts(words), total_counts(before)))} |")


def word_cells(counts: Mapping[str, int], before: Mapping[str, int]) -> list[str]:
    texts = {key: f"{count:,}" for key, count in counts.items()}
    return [f"{before[key]:,} → {text}" if key in before else text for key, text in texts.items()]


def total_counts(words: WordCounts) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for counts in words.values():
        totals.update(counts)
    return dict(totals)


def print_words(occurrences: Iterable[Occurrence]) -> None:
    for _, occurrence in remaining(occurrences):
        print(f"{occurrence.path}:{occurrence.line} {occurrence.name}")


if __name__ == "__main__":
    main()
