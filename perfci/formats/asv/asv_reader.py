"""Read the results of asv (airspeed velocity): a folder, an archive of one, or one file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from perfci.formats import Document, Given, Warn
from perfci.formats.asv.result_cells import Description, describe, grid, result_of
from perfci.formats.asv.result_file import EPOCH, Row, load, load_results, moment, rows
from perfci.formats.input_files import Folder, Tree, is_archive, is_tar, open_tree
from perfci.model import (
    Benchmark,
    Commit,
    Environment,
    Machine,
    Pairs,
    PerfciError,
    Result,
    Run,
    Series,
    Variant,
)

CHANGED: Literal["refuse", "add"] = "add"
"""asv rewrites a file whenever it measures more of the same commit."""

HARNESS = "asv"

BENCHMARKS, MACHINE = "benchmarks.json", "machine.json"

HARDWARE = ("machine", "cpu", "num_cpu", "ram", "version")

PYTHON = re.compile(r"(?:py|python|pypy)[-/_]?(\d+\.\d+)", re.IGNORECASE)
"""The version inside the path of an interpreter: ``/usr/bin/python3.11``, ``/opt/Python/3.11.7/bin/python``."""

BYTES_FROM = 2**31
"""A bare ``ram`` below this is in kilobytes, as older asv wrote it; newer ones write bytes."""

SIZES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def recognises(path: Path, head: bytes) -> bool:
    if path.is_dir():
        return any((path / name).is_file() for name in (BENCHMARKS, MACHINE)) or any(path.glob(f"*/{MACHINE}"))
    return is_tar(head) or (b'"commit_hash"' in head and b'"results"' in head)


def documents(path: Path, given: Given, warn: Warn) -> Iterator[Document]:
    """One run for each result file: a commit on a machine in an environment. A broken file is left out."""
    project = given.project
    if path.is_dir() or is_archive(path):
        with open_tree(path) as tree:
            yield from _all_of(tree, project, warn, path)
    else:
        file = path.resolve()
        name = PurePosixPath(file.parent.name, file.name)
        yield _ResultsOfMachine(Folder(file.parent.parent), name.parent, project, warn).document(name)


def variant_of(content: Mapping[str, Any]) -> Variant:
    """What somebody chose: the kind of environment, Python, requirements, environment variables.

    An environment name that these do not explain is kept as it is, so that no two environments become one.
    """
    name, python = _text(content.get("env_name")), _text(content.get("python"))
    tool = _tool(name)
    requirements = sorted((key, _text(value)) for key, value in _mapping(content.get("requirements")).items())
    env_vars = sorted((key, _text(value)) for key, value in _mapping(content.get("env_vars")).items())
    chosen = [("environment_type", tool)] if tool else []
    chosen += [("python", _python_version(python))] if python else []
    chosen += requirements + [(f"env {key}", value) for key, value in env_vars]
    parts = [tool] if tool else []
    parts += [f"py{python}"] + [key + value for key, value in requirements + env_vars]
    explained = name in ("", file_name("-".join(parts)))
    return Variant(tuple(chosen if explained else [*chosen, ("env_name", name)]))


def memory_gb(ram: object) -> int | None:
    """Main memory in whole GB from what asv wrote (bytes, or kilobytes) or somebody typed (``16 GB``)."""
    found = re.fullmatch(r"\s*(\d{1,18}(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", _text(ram), re.IGNORECASE)
    if not found:
        return None
    amount, unit = float(found[1]), found[2].lower()
    factor = SIZES[unit] if unit else 1 if amount >= BYTES_FROM else SIZES["k"]
    return round(amount * factor / SIZES["g"]) or None


def _all_of(tree: Tree, project: str, warn: Warn, path: Path) -> Iterator[Document]:
    found = False
    names = [name for name in tree.names() if name.name not in (BENCHMARKS, MACHINE)]
    names.sort(key=lambda name: (name.parent, name.name))
    for folder, files in groupby(names, key=lambda name: name.parent):
        reader = _ResultsOfMachine(tree, folder, project, warn)
        for name in files:
            try:
                document = reader.document(name)
            except PerfciError as error:
                warn(f"Left out: {error}")
                continue
            found = True
            yield document
    if not found:
        raise PerfciError(f"{path} holds no asv result file: expected results/<machine>/<commit>-<env>.json.")


class _ResultsOfMachine:
    """One folder of result files: what they share is read, and built, once."""

    def __init__(self, tree: Tree, folder: PurePosixPath, project: str, warn: Warn) -> None:
        self._tree, self._project, self._warn = tree, project, warn
        self._benchmarks = self._optional(folder / BENCHMARKS) or self._optional(folder.parent / BENCHMARKS)
        self._machine_json = self._optional(folder / MACHINE)
        self._descriptions: dict[str, Description] = {}
        self._told: set[str] = set()
        self._series: dict[tuple[Machine, Variant], dict[tuple[str, str, Pairs], Series]] = {}

    def document(self, file: PurePosixPath) -> Document:
        what = "/".join(file.parts[-2:])
        body = self._tree.read(file)
        content = load_results(body, what)
        machine, variant = self._machine(content["params"], what), variant_of(content)
        known = self._series.setdefault((machine, variant), {})
        measured = list(rows(content, self._warn))
        started = [row.started_at for _, row in measured if row.started_at] or [moment(content.get("date")) or EPOCH]
        run = Run(
            project=self._project,
            session=f"asv-{_hash(self._project, machine.name)[:16]}",
            commit=Commit(content["commit_hash"], committed_at=moment(content.get("date"))),
            machine=machine,
            environment=self._environment(content),
            variant=variant,
            suite=HARNESS,
            harness=HARNESS,
            started_at=min(started),
            origin=(("format", "asv"), ("file", what)),
            results=tuple(
                result for name, row in measured for result in self._results(name, row, known, machine, variant)
            ),
        )
        key = _hash(self._project, HARNESS, machine.name, run.commit.sha, _text(content.get("env_name")))
        return Document(run, key, sha256(body).hexdigest(), self._newly_described(measured))

    def _newly_described(self, measured: Sequence[tuple[str, Row]]) -> dict[Benchmark, tuple[str, dict[str, Any]]]:
        """Code and settings, which asv keeps only of a benchmark's newest version: told when that one is met first."""
        new = {}
        for name, row in measured:
            entry = _mapping(self._benchmarks.get(name))
            if name not in self._told and row.version and entry.get("version") == row.version:
                settings = {key: value for key, value in entry.items() if key not in ("code", "name", "version")}
                new[Benchmark(name, row.version)] = (_text(entry.get("code")), settings)
                self._told.add(name)
        return new

    def _optional(self, file: PurePosixPath) -> dict[str, Any]:
        """A file that describes results but is not needed to read them."""
        if not self._tree.has(file):
            return {}
        try:
            return load(self._tree.read(file), "/".join(file.parts[-2:]))
        except PerfciError as error:
            self._warn(str(error))
            return {}

    def _machine(self, params: Mapping[str, Any], what: str) -> Machine:
        named = self._machine_json.get("machine")
        if isinstance(named, str) and named != params["machine"]:
            raise PerfciError(f"{what} was measured on {params['machine']}, but lies in the folder of {named}.")
        facts = self._machine_json if isinstance(named, str) else params
        return Machine(
            cpu=_text(facts.get("cpu")),
            cores=int(count) if (count := _text(facts.get("num_cpu"))).isdecimal() and len(count) < 7 else None,
            memory_gb=memory_gb(facts.get("ram")),
            name=params["machine"],
        )

    def _environment(self, content: Mapping[str, Any]) -> Environment:
        """What nobody chose: also keys that somebody wrote into machine.json by hand, such as a driver version."""
        chosen = {*HARDWARE, "python", *_mapping(content.get("requirements"))}
        facts = {**self._machine_json, **content["params"], "env_name": content.get("env_name")}
        if "/" in _text(content.get("python")):
            facts["interpreter"] = content["python"]
        return Environment(tuple((name, _text(facts[name])) for name in sorted(facts) if name not in chosen))

    def _results(
        self, name: str, row: Row, known: dict[tuple[str, str, Pairs], Series], machine: Machine, variant: Variant
    ) -> Iterator[Result]:
        description = self._descriptions.get(name)
        if description is None:
            description = self._descriptions[name] = describe(name, self._benchmarks.get(name))
        for parameters, cell in grid(name, row, description, self._warn).items():
            key = (name, row.version, parameters)
            series = known.get(key)
            if series is None:
                benchmark = Benchmark(description.benchmark or name, row.version)
                series = known[key] = Series(benchmark, parameters, description.metric, machine, variant, HARNESS)
            result = result_of(series, row, cell, description.clock, self._warn)
            if result is not None:
                yield result


def _tool(env_name: str) -> str:
    """``conda`` of ``conda-py3.8-numpy``; names without a tool are older than that part."""
    return env_name.partition("-py")[0] if "-py" in env_name and not env_name.startswith("py") else ""


def _python_version(python: str) -> str:
    """An existing environment is named by its interpreter's path, which differs from one runner to the next."""
    found = PYTHON.findall(python)
    return found[-1] if "/" in python and found else python


def file_name(name: str) -> str:
    """What asv makes of an environment's name before it stores it (``asv.util.sanitize_filename``)."""
    return re.sub(r'[<>:"/\\^|?*\x00-\x1f]', "_", name)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _hash(*parts: str) -> str:
    return sha256(json.dumps(parts).encode()).hexdigest()
