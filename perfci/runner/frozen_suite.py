"""Freeze a suite, so that edits during a session are not measured, and list its cells."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfci.model import Clock, Metric, NamedValues, PerfciError, cell_name

IGNORED_NAMES = {"__pycache__", ".asv", ".git", "env", "html", "results"}


@dataclass(frozen=True, slots=True)
class FrozenSuite:
    """A frozen copy of a suite's folder. ``digest`` is the hash of what is in it."""

    name: str
    folder: Path
    digest: str


@dataclass(frozen=True, slots=True)
class DeclaredMetric:
    """A metric that a benchmark declares; ``clock`` is its expected clock."""

    metric: Metric
    clock: Clock


@dataclass(frozen=True, slots=True)
class DiscoveredBenchmark:
    """One benchmark as the discovery found it at one commit."""

    name: str
    version: str
    type: str
    metrics: tuple[DeclaredMetric, ...]
    param_names: tuple[str, ...]
    params: tuple[tuple[str, ...], ...]
    timeout_s: float | None
    setup_cache_key: str | None
    setup_cache_timeout_s: float | None


@dataclass(frozen=True, slots=True)
class Cell:
    """One benchmark at one point of its grid: what one process measures."""

    benchmark: str
    param_idx: int | None
    parameters: NamedValues
    timeout_s: float
    setup_cache_key: str | None
    setup_cache_timeout_s: float

    @property
    def name(self) -> str:
        return cell_name(self.benchmark, self.parameters)


def find_suite(folder: Path) -> Path:
    """Accept the folder of the benchmarks, or one whose asv.conf.json names it."""
    if not folder.is_dir():
        raise PerfciError(
            f"there is no suite folder {folder}; make one with `perfci init`, or name yours with --suite"
        )
    if (folder / "asv.conf.json").exists() and (folder / "benchmarks").is_dir():
        return folder / "benchmarks"
    return folder


def freeze_suite(folder: Path, private_folder: Path) -> FrozenSuite:
    """Copy a suite to ``.perfci/suites/<hash>/<name>``; asv imports it under the folder's own name."""
    folder = folder.resolve()
    files = sorted(_list_files(folder))
    if not any(file.suffix == ".py" for file in files):
        raise PerfciError(f"the suite folder {folder} holds no Python file")
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode() + content)
    name = digest.hexdigest()[:16]
    frozen = private_folder / "suites" / name / folder.name
    if not frozen.exists():
        partial = private_folder / "suites" / f"{name}.{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        for file in files:
            target = partial / folder.name / file.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target)
        package_file = partial / folder.name / "__init__.py"
        if not package_file.exists():  # asv walks packages: without this file it would see no module
            package_file.touch()
        frozen.parent.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.rename(frozen.parent)
        except OSError:  # another run froze the same suite first
            shutil.rmtree(partial, ignore_errors=True)
    return FrozenSuite(folder.name, frozen, name)


def _list_files(folder: Path) -> Iterator[Path]:
    for path, folders, names in os.walk(folder):
        # Assigned in place: os.walk descends into what is left of its own list.
        folders[:] = [name for name in folders if name not in IGNORED_NAMES]
        yield from (Path(path) / name for name in names if not name.endswith((".pyc", ".pyo")))


def parse_benchmarks(messages: Iterable[Mapping[str, Any]]) -> dict[str, DiscoveredBenchmark]:
    """Parse the harness's descriptions of benchmarks, by name."""
    return {
        message["name"]: DiscoveredBenchmark(
            name=message["name"],
            version=str(message["version"]),
            type=message["type"],
            metrics=tuple(
                DeclaredMetric(Metric(row["name"], row["unit"], row["direction"]), Clock(row["clock"]))
                for row in message["metrics"]
            ),
            param_names=tuple(message["param_names"]),
            params=tuple(tuple(values) for values in message["params"]),
            timeout_s=message["timeout_s"],
            setup_cache_key=message["setup_cache_key"],
            setup_cache_timeout_s=message["setup_cache_timeout_s"],
        )
        for message in messages
    }


def expand_cells(benchmarks: Iterable[DiscoveredBenchmark], pattern: str, timeout_s: float) -> list[Cell]:
    """Expand benchmarks over their grids (last parameter fastest, as in asv); keep matching cells."""
    try:
        matcher = re.compile(pattern)
    except re.error as error:
        raise PerfciError(f"--bench {pattern!r} is no regular expression: {error}") from None
    cells = [cell for benchmark in benchmarks for cell in _expand_grid(benchmark, timeout_s)]
    return [cell for cell in cells if matcher.search(cell.name)]


def _expand_grid(benchmark: DiscoveredBenchmark, default_timeout_s: float) -> Iterator[Cell]:
    timeout_s = benchmark.timeout_s or default_timeout_s
    cache_timeout_s = benchmark.setup_cache_timeout_s or max(timeout_s, 600.0)
    # asv allows fewer names than parameters, and more.
    names = [*benchmark.param_names]
    names += [f"param{i + 1}" for i in range(len(names), len(benchmark.params))]
    for index, values in enumerate(itertools.product(*benchmark.params)):
        parameters = tuple(zip(names, values, strict=False))
        yield Cell(
            benchmark.name,
            index if values else None,
            parameters,
            timeout_s,
            benchmark.setup_cache_key,
            cache_timeout_s,
        )
