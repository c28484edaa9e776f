"""Read the results of asv (airspeed velocity): a folder, an archive of one, or one file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from perfci.formats import run_document
from perfci.formats.asv.asv_result_file import (
    EPOCH,
    AsvBenchmarkRow,
    iter_benchmark_rows,
    parse_epoch_milliseconds,
    parse_json_object,
    parse_result_file,
)
from perfci.formats.asv.read_asv_cells import (
    BenchmarkDescription,
    convert_cell,
    index_grid_cells,
    parse_benchmark_description,
)
from perfci.formats.bounded_files import FileTree, FolderTree, is_tar_archive, open_file_tree, starts_like_tar
from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.run_builder import build_origin, hash_texts
from perfci.formats.value_parsing import dict_or_empty, to_text
from perfci.model import (
    Benchmark,
    Commit,
    Environment,
    Machine,
    NamedValues,
    PerfciError,
    Result,
    Run,
    Series,
    Variant,
)

HARNESS = "asv"

BENCHMARKS, MACHINE = "benchmarks.json", "machine.json"

HARDWARE = ("machine", "cpu", "num_cpu", "ram", "version")

PYTHON = re.compile(r"(?:py|python|pypy)[-/_]?(\d+\.\d+)", re.IGNORECASE)
"""The version in the path of an interpreter: ``/usr/bin/python3.11``, ``/opt/Python/3.11.7/bin/python``."""

MIN_RAM_IN_BYTES = 2**31
"""A bare ``ram`` below this is in kilobytes, as older asv wrote it; newer ones write bytes."""

SIZE_FACTORS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def can_read(path: Path, outline: ContentOutline) -> bool:
    if path.is_dir():
        return any((path / name).is_file() for name in (BENCHMARKS, MACHINE)) or any(
            path.glob(f"*/{MACHINE}")
        )
    return starts_like_tar(outline.head) or outline.has_keys("commit_hash", "results")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield a run for each result file (commit, machine and environment); damaged files are left out."""
    if path.is_dir() or is_tar_archive(path):
        with open_file_tree(path) as tree:
            yield from _read_tree(tree, defaults, warn, path)
    else:
        file = path.resolve()
        name = PurePosixPath(file.parent.name, file.name)
        yield _MachineFolderReader(FolderTree(file.parent.parent), name.parent, defaults, warn).read_run(name)


def build_variant(content: Mapping[str, Any]) -> Variant:
    """Build the variant: the kind of environment, Python, requirements, environment variables.

    An environment name that does not follow from these is kept, so that different environments stay apart.
    """
    name, python = to_text(content.get("env_name")), to_text(content.get("python"))
    # "conda-py3.8-numpy" begins with its tool; older asv wrote names without one, "py3.8-numpy".
    has_tool = "-py" in name and not name.startswith("py")
    tool = name.partition("-py")[0] if has_tool else ""
    # asv may write the path of the interpreter, which differs between runners.
    versions = PYTHON.findall(python) if "/" in python else []
    requirements = sorted(
        (key, to_text(value)) for key, value in dict_or_empty(content.get("requirements")).items()
    )
    env_vars = sorted((key, to_text(value)) for key, value in dict_or_empty(content.get("env_vars")).items())
    # The name that asv derives from these, to see whether the stored one holds anything else.
    chosen = [("environment_type", tool)] if tool else []
    if python:
        chosen.append(("python", versions[-1] if versions else python))
    chosen += requirements + [(f"env {key}", value) for key, value in env_vars]
    parts = [tool] if tool else []
    parts += [f"py{python}"] + [key + value for key, value in requirements + env_vars]
    explained = name in ("", sanitize_file_name("-".join(parts)))
    return Variant(tuple(chosen if explained else [*chosen, ("env_name", name)]))


def parse_memory_gb(ram: object) -> int | None:
    """Parse main memory as whole GB from bytes or kilobytes (written by asv) or text such as ``16 GB``."""
    match = re.fullmatch(r"\s*(\d{1,18}(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", to_text(ram), re.IGNORECASE)
    if not match:
        return None
    amount, unit = float(match[1]), match[2].lower()
    if not unit:
        unit = "" if amount >= MIN_RAM_IN_BYTES else "k"
    factor = SIZE_FACTORS[unit] if unit else 1
    return round(amount * factor / SIZE_FACTORS["g"]) or None


def _read_tree(
    tree: FileTree, defaults: ImportDefaults, warn: WarnCallback, path: Path
) -> Iterator[ImportedRun]:
    any_read = False
    names = [name for name in tree.list_json_paths() if name.name not in (BENCHMARKS, MACHINE)]
    names.sort(key=lambda name: (name.parent, name.name))
    for folder, files in groupby(names, key=lambda name: name.parent):
        reader = _MachineFolderReader(tree, folder, defaults, warn)
        for name in files:
            try:
                document = reader.read_run(name)
            except PerfciError as error:
                warn(f"Left out: {error}")
                continue
            any_read = True
            yield document
    if not any_read:
        raise PerfciError(f"{path} holds no asv result file: expected results/<machine>/<commit>-<env>.json.")


class _MachineFolderReader:
    """Read the result files of one machine's folder, sharing the benchmark descriptions and series."""

    def __init__(
        self, tree: FileTree, folder: PurePosixPath, defaults: ImportDefaults, warn: WarnCallback
    ) -> None:
        self._tree, self._project, self._warn = tree, defaults.project, warn
        self._job = defaults.origin
        self._benchmarks = self._read_optional(folder / BENCHMARKS) or self._read_optional(
            folder.parent / BENCHMARKS
        )
        self._machine_json = self._read_optional(folder / MACHINE)
        self._descriptions: dict[str, BenchmarkDescription] = {}
        self._sourced: set[str] = set()
        self._series: dict[tuple[Machine, Variant], dict[tuple[str, str, NamedValues], Series]] = {}

    def read_run(self, file: PurePosixPath) -> ImportedRun:
        """Read one result file."""
        source_name = "/".join(file.parts[-2:])
        body = self._tree.read_file(file)
        content = parse_result_file(body, source_name)
        machine, variant = self._build_machine(content["params"], source_name), build_variant(content)
        series_cache = self._series.setdefault((machine, variant), {})
        measured = list(iter_benchmark_rows(content, self._warn))
        started = [row.started_at for _, row in measured if row.started_at] or [
            parse_epoch_milliseconds(content.get("date")) or EPOCH
        ]
        # Without the content, since asv rewrites a file whenever it measures more of the same commit.
        source = hash_texts(
            self._project, HARNESS, machine.name, content["commit_hash"], to_text(content.get("env_name"))
        )
        run = Run(
            project=self._project,
            session=f"asv-{hash_texts(self._project, machine.name)[:16]}",
            commit=Commit(content["commit_hash"], committed_at=parse_epoch_milliseconds(content.get("date"))),
            machine=machine,
            environment=self._build_environment(content),
            variant=variant,
            suite=HARNESS,
            harness=HARNESS,
            started_at=min(started),
            origin=build_origin(HARNESS, source_name, source, self._job),
            results=tuple(
                result
                for name, row in measured
                for result in self._read_results(name, row, series_cache, machine, variant)
            ),
        )
        return ImportedRun(
            run,
            run_document.idempotency_key(run),
            sha256(body).hexdigest(),
            self._new_benchmark_sources(measured),
        )

    def _new_benchmark_sources(
        self, measured: Sequence[tuple[str, AsvBenchmarkRow]]
    ) -> dict[Benchmark, tuple[str, dict[str, Any]]]:
        """Return code and settings of benchmarks seen first in their newest version, which alone has them."""
        new = {}
        for name, row in measured:
            entry = dict_or_empty(self._benchmarks.get(name))
            if name not in self._sourced and row.version and entry.get("version") == row.version:
                settings = {
                    key: value for key, value in entry.items() if key not in ("code", "name", "version")
                }
                new[Benchmark(name, row.version)] = (to_text(entry.get("code")), settings)
                self._sourced.add(name)
        return new

    def _read_optional(self, file: PurePosixPath) -> dict[str, Any]:
        """Read a JSON object that describes results but is not required; empty if it is missing."""
        if not self._tree.has_file(file):
            return {}
        try:
            return parse_json_object(self._tree.read_file(file), "/".join(file.parts[-2:]))
        except PerfciError as error:
            self._warn(str(error))
            return {}

    def _build_machine(self, params: Mapping[str, Any], source_name: str) -> Machine:
        named = self._machine_json.get("machine")
        if isinstance(named, str) and named != params["machine"]:
            raise PerfciError(
                f"{source_name} was measured on {params['machine']}, but lies in the folder of {named}."
            )
        facts = self._machine_json if isinstance(named, str) else params
        core_count = to_text(facts.get("num_cpu"))
        return Machine(
            cpu=to_text(facts.get("cpu")),
            cores=int(core_count) if core_count.isdecimal() and len(core_count) < 7 else None,
            memory_gb=parse_memory_gb(facts.get("ram")),
            name=params["machine"],
        )

    def _build_environment(self, content: Mapping[str, Any]) -> Environment:
        """Build the observed environment, including keys added to machine.json by hand (a driver version)."""
        chosen = {*HARDWARE, "python", *dict_or_empty(content.get("requirements"))}
        facts = {**self._machine_json, **content["params"], "env_name": content.get("env_name")}
        if "/" in to_text(content.get("python")):
            facts["interpreter"] = content["python"]
        return Environment(
            tuple((name, to_text(facts[name])) for name in sorted(facts) if name not in chosen)
        )

    def _read_results(
        self,
        name: str,
        row: AsvBenchmarkRow,
        series_cache: dict[tuple[str, str, NamedValues], Series],
        machine: Machine,
        variant: Variant,
    ) -> Iterator[Result]:
        description = self._descriptions.get(name)
        if description is None:
            description = self._descriptions[name] = parse_benchmark_description(
                name, self._benchmarks.get(name)
            )
        for parameters, cell in index_grid_cells(name, row, description, self._warn).items():
            key = (name, row.version, parameters)
            series = series_cache.get(key)
            if series is None:
                benchmark = Benchmark(description.original_name or name, row.version)
                series = series_cache[key] = Series(
                    benchmark, parameters, description.metric, machine, variant, HARNESS
                )
            result = convert_cell(series, row, cell, description.clock, self._warn)
            if result is not None:
                yield result


def sanitize_file_name(name: str) -> str:
    """Replace the characters that asv replaces in an environment's name (``asv.util.sanitize_filename``)."""
    return re.sub(r'[<>:"/\\^|?*\x00-\x1f]', "_", name)
