"""Read the files of pytest-benchmark (``--benchmark-json``, ``--benchmark-save``): one process with all its rounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from perfci.formats import Document, Given, Warn
from perfci.formats.run_builder import Assembly
from perfci.formats.value_parsing import (
    commit_of,
    file_time,
    finite,
    listed,
    mapping,
    moment,
    pairs,
    read_json,
    text,
    whole,
)
from perfci.model import Clock, Machine, Metric, Pairs, PerfciError, Status, Summary

CHANGED: Literal["refuse", "add"] = "refuse"

TOOL = "pytest-benchmark"

CPU_TIMERS = ("process_time", "thread_time")
"""Timers that count the CPU seconds of the process; all others are clocks on the wall."""


def recognises(path: Path, head: bytes) -> bool:
    return b'"machine_info"' in head and b'"commit_info"' in head


def documents(path: Path, given: Given, warn: Warn) -> Iterator[Document]:
    """One run: a session of pytest. Rounds are its samples where they were saved, else quartiles are all there is."""
    content, body = read_json(path)
    content = mapping(content)
    if not isinstance(content.get("benchmarks"), list):
        raise PerfciError(f"{path} is no file of {TOOL}: it has no list of benchmarks.")
    found, info = mapping(content.get("commit_info")), mapping(content.get("machine_info"))
    commit = commit_of(
        found.get("id"),
        committed_at=moment(found.get("time")),
        branch="" if (branch := text(found.get("branch"))).startswith("(") else branch,  # "(detached head)"
        dirty=found.get("dirty") is True,
    )
    run = Assembly(
        TOOL,
        str(path),
        given,
        warn,
        started_at=moment(content.get("datetime")) or file_time(path),
        commit=commit,
        machine=_machine(info),
        environment=_environment(info, content.get("version")),
        variant=_variant(info),
    )
    if commit and commit.dirty:
        warn("measured with uncommitted changes: kept, but no part of any history")
    for entry in content["benchmarks"]:
        _add(run, mapping(entry), warn)
    yield run.document(body)


def _add(run: Assembly, entry: Mapping[str, Any], warn: Warn) -> None:
    stats, options = mapping(entry.get("stats")), mapping(entry.get("options"))
    name, parameters = _name(entry)
    cpu = text(options.get("timer")).rpartition(".")[2] in CPU_TIMERS
    metric = Metric("cpu_time" if cpu else "time", "seconds")
    middle, data = finite(stats.get("median")), listed(stats.get("data"))
    if mapping(entry.get("extra_info")):
        warn("extra_info of a benchmark is not kept")
    if data:
        clock = Clock.CPU if cpu else Clock.WALL
        run.samples(name, parameters, metric, data, clock, number=whole(stats.get("iterations")))
    elif middle is not None:
        warn("rounds were not saved: give --benchmark-save-data, or no pair of commits can be compared")
        quartiles = finite(stats.get("q1")), finite(stats.get("q3"))
        run.summary(
            name, parameters, metric,
            Summary(middle, q25=quartiles[0], q75=quartiles[1], n=whole(stats.get("rounds"))),
        )  # fmt: skip
    else:
        run.ended(name, parameters, metric, Status.FAILED, "the benchmark has no numbers")


def _name(entry: Mapping[str, Any]) -> tuple[str, Pairs]:
    """``test_sort.py::test_sort`` and its parameters; the brackets behind it only repeat them."""
    name, shown = text(entry.get("fullname")) or text(entry.get("name")), text(entry.get("param"))
    parameters = pairs(mapping(entry.get("params"))) or ((("param", shown),) if shown else ())
    return name.removesuffix(f"[{shown}]") if shown else name, parameters


def _machine(info: Mapping[str, Any]) -> Machine | None:
    cpu = mapping(info.get("cpu"))
    brand = text(cpu.get("brand_raw")) or text(cpu.get("brand"))
    return Machine(cpu=brand, cores=whole(cpu.get("count"))) if brand else None


def _environment(info: Mapping[str, Any], version: object) -> Pairs:
    names = ("python_version", "python_compiler", "machine", "system", "release")
    return pairs({name: info.get(name) for name in names} | {TOOL: version})


def _variant(info: Mapping[str, Any]) -> Pairs:
    """Python x.y is what somebody chose; another interpreter than CPython has its name before it."""
    version = ".".join(text(info.get("python_version")).split(".")[:2])
    kind = text(info.get("python_implementation"))
    return pairs({"python": version if kind in ("", "CPython") else f"{kind} {version}"})
