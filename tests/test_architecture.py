"""The house rules of docs/design/architecture.md: imports run one way, inside the rooms too, and names are
plain.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.readability.import_graph import import_circles, import_edges
from tools.readability.nonstandard_words import dialect_words_of_name, list_name_occurrences
from tools.readability.sources import Source, read_sources

ROOT = Path(__file__).parent.parent

MAY_IMPORT: dict[str, set[str]] = {
    "model": set(),
    "number_format": set(),
    "stats": set(),
    "verdicts": {"model", "number_format", "stats"},
    "report": {"model", "number_format", "stats", "verdicts"},
    "bench": {"model", "number_format"},
    "scaffold": set(),
    "config": {"model"},
    "store": {"model"},
    "net": {"model"},
    "auth": {"model"},
    "formats": {"model", "stats", "verdicts"},
    "runner": {"model", "formats", "config"},
    "github": {"model", "net"},
    "project_policies": {"config", "store", "verdicts"},
    "history": {"model", "number_format", "stats", "verdicts", "store"},
    "measure": {
        "number_format",
        "model",
        "stats",
        "verdicts",
        "report",
        "config",
        "formats",
        "runner",
        "store",
        "project_policies",
        "history",
    },
    "doctor": {
        "model",
        "number_format",
        "stats",
        "verdicts",
        "report",
        "config",
        "runner",
        "store",
        "measure",
    },
    "service": {
        "number_format",
        "model",
        "stats",
        "verdicts",
        "report",
        "config",
        "formats",
        "store",
        "net",
        "auth",
        "github",
        "project_policies",
        "history",
    },
    "engines": {
        "number_format",
        "model",
        "verdicts",
        "report",
        "config",
        "formats",
        "runner",
        "store",
        "net",
        "project_policies",
        "measure",
        "service",
    },
    "demo": {
        "number_format",
        "model",
        "stats",
        "verdicts",
        "report",
        "config",
        "formats",
        "runner",
        "store",
        "project_policies",
        "history",
        "measure",
        "service",
    },
    "cli": {
        "number_format",
        "scaffold",
        "model",
        "stats",
        "verdicts",
        "report",
        "config",
        "formats",
        "runner",
        "store",
        "net",
        "auth",
        "github",
        "project_policies",
        "history",
        "measure",
        "doctor",
        "service",
        "engines",
        "demo",
    },
    "perfci_web": {
        "number_format",
        "model",
        "stats",
        "verdicts",
        "report",
        "config",
        "formats",
        "store",
        "net",
        "auth",
        "github",
        "project_policies",
        "history",
        "service",
    },
}

INSIDE: dict[str, dict[str, set[str]]] = {
    "verdicts": {
        "compare": set(),
        "history": {"compare"},
        "incidents": {"compare", "history"},
        "variants": {"compare"},
        "goals": {"compare", "variants"},
        "search": set(),
        "explain": set(),
    },
    "store": {
        "tables": set(),
        "queries": {"tables"},
        "writes": {"tables", "queries"},
        "access": {"tables", "queries"},
        "jobs": {"tables", "queries"},
        "incidents": {"tables", "queries", "writes"},
        "maintenance": {"tables", "queries", "writes", "access", "jobs", "incidents"},
    },
    "service": {
        "accounts": set(),
        "orders": {"accounts", "incidents"},
        "uploads": {"accounts"},
        "notify": set(),
        "incidents": {"notify"},
        "missing_data": {"incidents", "notify"},
        "evidence": {"incidents"},
        "pulls": {"accounts", "uploads", "orders"},
        "worker": {"uploads", "notify", "incidents", "missing_data", "pulls", "orders"},
    },
    "report": {"charts": set(), "pulls": {"charts"}, "incidents": set(), "commits": set()},
    "bench": {
        "devices": set(),
        "timers": {"devices"},
        "memory_use": {"devices", "timers"},
        "processes": {"devices", "timers"},
        "call_counts": {"devices", "timers", "memory_use", "processes"},
        "compilers": {"devices", "timers", "processes"},
        "streams": {"devices", "timers"},
        "profiles": {"devices", "timers"},
        "groups": {
            "devices",
            "timers",
            "memory_use",
            "processes",
            "call_counts",
            "compilers",
            "streams",
            "profiles",
        },
    },
}
"""What the folders of a room may import of each other; modules beside the folders are not ordered, but see
circles.
"""

MOST_MODULES = 22
"""Modules in one folder, without ``__init__``: more cannot be scanned. Migrations are not scanned but run, in
the order of their numbers, and are never joined once a database has them."""

ONLY_IN = {
    "sqlalchemy": {
        "store",
        "project_policies",
        "history",
        "measure",
        "service",
        "cli",
        "perfci_web",
    },  # the others only name the Session they pass on
    "alembic": {"store"},
    "psycopg": {"store"},
    "httpx": {"net", "github"},
    "authlib": {"perfci_web"},
    "jwt": {"auth", "github"},
    "prometheus_client": {"perfci_web"},
    "gunicorn": {"perfci_web"},
    "mcp": {"cli"},
    "flask": {"perfci_web"},
    "plotly": {"perfci_web", "report"},
    "torch": {"bench"},
    "git": {"runner"},
    "click": {"cli"},
    "rich": {"cli"},
}


def sources() -> Iterator[tuple[str, Path]]:
    for folder in (ROOT / "perfci", ROOT / "web" / "perfci_web"):
        for path in sorted(folder.rglob("*.py")):
            if "sample" not in path.parts:
                yield room_of(path), path


@functools.cache
def parse_file(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def parsed_sources() -> tuple[Source, ...]:
    return tuple(read_sources(ROOT))


def room_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "perfci_web" if parts[0] == "web" else parts[1]


@functools.cache
def imported(path: Path) -> list[str]:
    names = []
    for node in ast.walk(parse_file(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            in_harness = path.parent.name == "harness"  # which has another name inside a measured environment
            assert node.level == 0 or in_harness, f"{path} imports relatively"
            names.append(str(node.module))
    return names


@pytest.mark.parametrize("room", list(MAY_IMPORT))
def test_a_room_imports_only_the_rooms_below_it(room: str) -> None:
    allowed = MAY_IMPORT[room] | {room, "__init__"}

    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for its_room, path in sources()
        if its_room == room
        for name in imported(path)
        if name.startswith("perfci.") and name.split(".")[1] not in allowed
    ]

    assert wrong == []


def test_only_serving_commands_import_the_web() -> None:
    wrong = [
        str(path)
        for room, path in sources()
        if room != "perfci_web" and path.stem not in ("serve", "demo", "mcp")
        for name in imported(path)
        if name.split(".")[0] == "perfci_web"
    ]

    assert wrong == []


@pytest.mark.parametrize("library", list(ONLY_IN))
def test_a_heavy_library_stays_in_its_room(library: str) -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for room, path in sources()
        if room not in ONLY_IN[library] and path.parent.name != "harness"
        for name in imported(path)
        if name.split(".")[0] == library
    ]

    assert wrong == []


def test_only_config_reads_the_environment() -> None:
    # A child's environment is built from ours where one is started, which reads no setting of perfci;
    # wrap.py says
    # what a script has to read.
    starters = (
        "/runner/fork_server_client.py",
        "/runner/run_git.py",
        "/runner/user_script.py",
        "/cli/wrap.py",
        "/runner/prepare_commit.py",
        "/harness/suite_discovery.py",
        "/demo/sample_repository.py",
        "/processes/run_in_child_processes.py",
        "/shared/supervised_process.py",
        "/perfci_web/prometheus.py",
    )

    wrong = [
        str(path.relative_to(ROOT))
        for room, path in sources()
        if room != "config"
        and not str(path).endswith(starters)
        and ("os.environ" in path.read_text() or "getenv" in path.read_text())
    ]

    assert wrong == []


def test_importing_perfci_is_light() -> None:
    heavy = ("torch", "sqlalchemy", "flask", "numpy")
    code = f"import sys, perfci, perfci.cli; print([m for m in {heavy} if m in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"


def test_comparing_loads_no_library_used_for_a_single_line() -> None:
    slow = ("scipy.stats", "torch", "flask", "plotly")
    code = f"import sys, perfci.cli.compare.commands; print([m for m in {slow} if m in sys.modules])"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"


@pytest.mark.parametrize("room", list(INSIDE))
def test_the_folders_of_a_room_import_one_way(room: str) -> None:
    prefix = f"perfci.{room}."

    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for its_room, path in sources()
        if its_room == room and (folder := path.relative_to(ROOT / "perfci" / room).parts[0]) in INSIDE[room]
        for name in imported(path)
        if name.startswith(prefix)
        and (other := name.removeprefix(prefix).split(".")[0]) in INSIDE[room]
        and other not in INSIDE[room][folder] | {folder}
    ]

    assert wrong == []


def test_no_import_closes_a_circle() -> None:
    edges = [edge for edge in import_edges(parsed_sources()) if not edge.typing]

    assert import_circles(edges) == []


def test_no_folder_has_too_many_modules() -> None:
    folders = (path.parent.relative_to(ROOT) for _, path in sources() if path.stem != "__init__")
    sizes = Counter(folder for folder in folders if folder != Path("perfci/store/migrations/versions"))

    assert {str(folder): size for folder, size in sizes.items() if size > MOST_MODULES} == {}


def test_a_class_name_has_one_meaning() -> None:
    homes: dict[str, list[str]] = {}
    for _, path in sources():
        for node in ast.walk(parse_file(path)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(str(path.relative_to(ROOT)))

    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_names_are_in_standard_terms() -> None:
    words = [
        f"{place.path}:{place.line} {place.name}"
        for source in parsed_sources()
        for place in list_name_occurrences(source)
        if place.defines
        and any(not word.is_allowed(place.path, place.name) for word in dialect_words_of_name(place.name))
    ]

    assert words == []


def test_the_architecture_page_names_existing_modules() -> None:
    page = (ROOT / "docs" / "design" / "architecture.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:perfci|web|tests|benchmarks|docs|tools)/[\w./-]+)`", page)

    assert len(paths) > 50
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_judging_uploads_loads_no_runner() -> None:
    code = (
        "import sys, perfci.service.worker.judge_worker as w;"
        "print([m for m in sys.modules if m.startswith('perfci.runner') or m == 'git'])"
    )

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert loaded.strip() == "[]"
