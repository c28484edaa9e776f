from __future__ import annotations

import compileall
import gc
import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parent
ROOT = TESTS.parent

settings.register_profile(
    "shared", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared")  # a machine that others use as well fails no property by being slow

# Where Python is forbidden to keep bytecode, each of the processes that tests start would compile perfci.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Workers share the cores: threads of torch and numpy in each would only wait for those of the others.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

for name in ("no_proxy", "NO_PROXY"):  # where a proxy leads outside, it does not lead to what the tests serve
    os.environ[name] = ",".join(filter(None, (os.environ.get(name), "127.0.0.1", "localhost")))


@pytest.hookimpl(optionalhook=True)  # for those who run without xdist
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: a third of the time tests wait, for a disk, a browser or a kill."""
    return len(os.sched_getaffinity(0)) + 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Compile once what every worker imports, and what most processes do that tests start."""
    for folder in ("perfci", "web"):
        compileall.compile_dir(ROOT / folder, quiet=2, workers=0)


@pytest.fixture(autouse=True, scope="module")
def settled_heap() -> Iterator[None]:
    """Collecting garbage, as measurements do, looks at what the tests of a module made and not at all of
    torch; nor does asking whether the heap was frozen.
    """
    gc.collect()
    gc.freeze()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc, "get_freeze_count", lambda: 1)
        yield


@pytest.fixture(autouse=True, scope="module")
def migrated_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test process migrates one database, and makes the others by the same statements; the store's own
    tests do not.

    Only where a test module knows the store: the others need not wait for the import of Alembic.
    """
    if "perfci.store" not in sys.modules or request.path.parent.name == "store":
        yield
        return
    from perfci.store import migrate_schema
    from tests.support.databases import migrate_again

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate_schema, "migrate", migrate_again)
        yield


@pytest.fixture(autouse=True, scope="session")
def addresses_compiled_once() -> Iterator[None]:
    """Hundreds of tests make an application, of which werkzeug compiles the same hundred addresses each
    time.
    """
    if "werkzeug.routing" not in sys.modules:
        yield
        return
    from werkzeug.routing import Rule

    known: dict[object, dict[str, Any]] = {}
    compile_anew = Rule.compile

    def compile_rule(rule: Rule) -> None:
        known_by = (rule.rule, rule.subdomain, rule.host, repr(rule.defaults), rule.merge_slashes)
        if known_by not in known:
            compile_anew(rule)
            known[known_by] = {name: getattr(rule, name) for name in OF_A_COMPILED_RULE}
            return
        compiled = known[known_by]
        rule._parts, rule._trace = list(compiled["_parts"]), list(compiled["_trace"])
        rule._converters, rule.arguments = dict(compiled["_converters"]), set(compiled["arguments"])
        rule._build = compiled["_build"].__func__.__get__(rule)
        rule._build_unknown = compiled["_build_unknown"].__func__.__get__(rule)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rule, "compile", compile_rule)
        yield


OF_A_COMPILED_RULE = ("_parts", "_trace", "_converters", "arguments", "_build", "_build_unknown")


@pytest.fixture(autouse=True, scope="session")
def statements_compiled_once() -> Iterator[None]:
    """Thousands of tests open a database of their own, and SQLAlchemy would compile all statements for each.

    All engines of a test process share one cache of compiled statements for each kind of database.
    """
    if "sqlalchemy" not in sys.modules:
        yield
        return
    from sqlalchemy import Engine
    from sqlalchemy.orm import Mapper

    from tests.support.statement_cache import SharedStatementCache

    cache = SharedStatementCache()
    initialize = Engine.__init__

    def initialize_with_shared_cache(engine: Engine, *arguments: Any, **options: Any) -> None:
        initialize(engine, *arguments, **options)
        engine._compiled_cache = cache

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "__init__", initialize_with_shared_cache)
        patch.setattr(Mapper, "_compiled_cache", cache)
        yield


@pytest.fixture(autouse=True, scope="module")
def environments_forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """What measures here need not import torch each time; the runner's own tests start it from nothing."""
    if (
        not {"perfci.cli", "perfci.runner.measurement_runner"} & set(sys.modules)
        or request.path.parent.name == "runner"
    ):
        yield
        return
    from tests.support.warm_environments import WarmParent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perfci.runner.measurement_runner.ForkServerClient", WarmParent)
        yield


@pytest.fixture(autouse=True)
def own_machine_lock(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for a measurement outside the tests, and none inherits settings of the person who runs
    them.
    """
    for name in [
        name for name in os.environ if name.startswith("PERFCI_") and not name.startswith(OF_THE_TESTS)
    ]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.setenv("PERFCI_LOCK", str(tmp_path_factory.getbasetemp() / "machine.lock"))


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


OF_THE_TESTS = ("PERFCI_TEST_", "PERFCI_CHROMIUM")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting tests makes hardly any garbage: looking for it takes a quarter of the time of imports."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Each worker begins to collect elsewhere: what one has compiled, the others only read."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and config.args == config.getini("testpaths"):
        places = sorted(str(path) for path in TESTS.iterdir() if path.is_dir() or path.match("test_*.py"))
        first = int(worker.removeprefix("gw")) * len(places) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        config.args = places[first:] + places[:first]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: one that is begun when the others are through leaves the other cores idle."""
    long = {
        item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("browser")
    }
    items.sort(key=lambda item: (item.path not in long, item.path))
