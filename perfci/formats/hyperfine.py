"""Read what ``hyperfine --export-json`` writes: every run of a command is a process of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from perfci.formats import Document, Given, Warn
from perfci.formats.run_builder import Assembly
from perfci.formats.value_parsing import file_time, finite, listed, mapping, pairs, read_json, text
from perfci.model import Clock, Metric, Pairs, PerfciError, Status, Summary

CHANGED: Literal["refuse", "add"] = "refuse"

TOOL = "hyperfine"

TIME = Metric("time", "seconds")


def recognises(path: Path, head: bytes) -> bool:
    return all(mark in head for mark in (b'"results"', b'"command"', b'"user"', b'"system"'))


def documents(path: Path, given: Given, warn: Warn) -> Iterator[Document]:
    """One run. ``times`` are processes; CPU seconds are only known on average, so that they are shown, not judged."""
    content, body = read_json(path)
    results = mapping(content).get("results")
    if not isinstance(results, list):
        raise PerfciError(f"{path} is no file of {TOOL}: it has no list of results.")
    run = Assembly(TOOL, str(path), given, warn, started_at=file_time(path))
    for entry in results:
        _add(run, mapping(entry), warn)
    yield run.document(body)


def _add(run: Assembly, entry: Mapping[str, Any], warn: Warn) -> None:
    command, parameters = text(entry.get("command")), pairs(mapping(entry.get("parameters")))
    name = _without(parameters, command)
    ended = [code for code in listed(entry.get("exit_codes")) if code != 0]
    times, median = listed(entry.get("times")), finite(entry.get("median"))
    if not command:
        return warn("a result without a command is left out")
    if ended:
        code = "was ended by a signal" if ended[0] is None else f"ended with exit code {ended[0]}"
        return run.ended(name, parameters, TIME, Status.FAILED, f"the command {code}")
    if times:
        run.samples(name, parameters, TIME, times, Clock.WALL, apart=True)
    elif median is not None:
        run.summary(name, parameters, TIME, Summary(median))
    cpu = [finite(entry.get("user")), finite(entry.get("system"))]
    if cpu[0] is not None and cpu[1] is not None:
        run.samples(name, parameters, Metric("mean_cpu_time", "seconds"), [cpu[0] + cpu[1]], Clock.WITNESS)
    return None


def _without(parameters: Pairs, command: str) -> str:
    """The command as it was given, before a parameter was filled in, so that its cells are one benchmark."""
    words = command.split(" ")
    for name, value in parameters:
        words = [f"{{{name}}}" if word == value else word for word in words]
    return " ".join(words)
