"""Read and write the run document ``perfci.run/1``: one run as JSON, within limits, optionally compressed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from perfci.formats.bounded_files import MIB, decompress, read_decompressed
from perfci.formats.comparison_documents import (
    comparisons_from_document,
    comparisons_to_content,
    goals_from_document,
    goals_to_content,
    series_from_part,
)
from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.run_document_schema import (
    MAX_TEXT_LENGTH,
    SCHEMA,
    CommitPart,
    InvalidPart,
    MachinePart,
    ProcessPart,
    ResultPart,
    RunDocument,
    SeriesPart,
)
from perfci.formats.value_parsing import describe_first_error
from perfci.model import (
    Commit,
    Environment,
    InvalidMark,
    Machine,
    NamedValues,
    PerfciError,
    Process,
    Result,
    Run,
    SampleSummary,
    Series,
    Variant,
    freeze_named_values,
)

EMPTY_VALUES: tuple[object, ...] = (None, "", (), [], {})
"""Values that a document leaves out; zero and false stay."""

MAX_BYTES = 64 * MIB
"""Size limit of a document; one run of a large suite with all its samples is a few megabytes."""

MAX_COUNTS = {(b"{", b"["): 250_000, (b":",): 1_250_000, (b",",): 2_000_000}
"""Objects and lists, keys, and values: ten thousand results of five processes, or a million samples, fit."""
MAX_KEYS = 1000
"""Keys of one object: as many as an environment may observe."""


class JsonTooLarge(PerfciError):
    """JSON of more parts than any run needs; parsing takes several hundred bytes for each empty list."""


class _InvalidObject(Exception):
    """An object with duplicate keys or too many of them."""


def read_run(source: Path | bytes) -> Run:
    """Read one document; errors name their place in the JSON."""
    if isinstance(source, Path):
        return _parse_run(read_decompressed(source, MAX_BYTES), str(source))
    return _parse_run(decompress(source, "The run document", MAX_BYTES), "The run document")


def read_untrusted_run(body: bytes, source_name: str) -> Run:
    """Read one untrusted document, which must not be compressed, after checking its size and nesting."""
    require_json_limits(body, source_name)
    return _parse_run(body, source_name)


def require_json_limits(raw: bytes, source_name: str) -> None:
    """Refuse JSON of too many parts or nested too deep; invalid JSON is left to its reader to refuse."""
    if any(sum(map(raw.count, marks)) > limit for marks, limit in MAX_COUNTS.items()):
        raise JsonTooLarge(f"{source_name} holds too many objects, lists or values.")
    try:
        json.loads(raw, object_pairs_hook=_check_object)
    except RecursionError:
        raise PerfciError(f"{source_name} is nested too deep.") from None
    except _InvalidObject as error:
        raise PerfciError(f"{source_name} {error}.") from None
    except ValueError:
        return


def _check_object(pairs: list[tuple[str, Any]]) -> None:
    """Refuse a duplicate key in one object, since parsers differ in which of the two values they keep."""
    if len(pairs) > MAX_KEYS:
        raise _InvalidObject(f"has an object of {len(pairs)} keys; at most {MAX_KEYS} are expected")
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        raise _InvalidObject("has a key twice in one object")


def serialize_runs(runs: Iterable[Run], warn: WarnCallback) -> Iterator[bytes]:
    """Write runs as documents, one on each line; the format is lossless, so there are no warnings."""
    for run in runs:
        yield dump_run(run).encode() + b"\n"


def dump_run(run: Run) -> str:
    """Serialize one document, and validate it, so that no invalid document is sent."""
    try:
        text = json.dumps(run_to_dict(run), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        RunDocument.model_validate_json(text.encode())
    except ValidationError as error:
        raise PerfciError(
            f"The run of {run.commit.short_sha} does not fit {SCHEMA}: {describe_first_error(error)}"
        ) from error
    except ValueError as error:
        raise PerfciError(f"The run of {run.commit.short_sha} does not fit {SCHEMA}: {error}.") from error
    return text


def idempotency_key(run: Run) -> str:
    """Compute the key under which a run is stored once, however often it is sent.

    A run that was read from another tool's file is identified by its ``source``, so that the same file is
    known wherever it is read. A run of a CI system is identified by run id, attempt and job, and by ``step``
    where a job measured a commit in several; a run measured by hand by its session, environment and harness.
    A variant is part of the key if there is one, since the variants of a commit share a session. So is a
    dirty working tree.
    """
    origin = dict(run.origin)
    if source := origin.get("source"):
        return _hash_parts([run.project, {"source": source}])
    job = [origin.get(name, "") for name in ("run_id", "attempt", "job")]
    in_ci = bool(job[0])
    machine = {
        name: value
        for name in MachinePart.model_fields
        if (value := getattr(run.machine, name)) not in EMPTY_VALUES
    }
    # Stored keys depend on the order of these parts, and on empty ones being left out.
    parts: list[object] = [
        run.project,
        run.commit.sha,
        machine,
        run.suite,
        *job,
    ]
    if not in_ci:
        parts.append(run.session)
    if run.variant.values:
        parts.append(run.variant.values)
    if in_ci and origin.get("step"):
        parts.append({"step": origin["step"]})
    details: dict[str, Any] = {"dirty": True} if run.commit.dirty else {}
    if not in_ci and run.environment.values:
        details["environment"] = run.environment.values
    if not in_ci and run.harness:
        details["harness"] = run.harness
    if details:
        parts.append(details)
    return _hash_parts(parts)


def _hash_parts(parts: list[object]) -> str:
    return sha256(json.dumps(parts, separators=(",", ":"), sort_keys=True).encode()).hexdigest()


def result_from_dict(content: dict[str, Any], run: Run) -> Result:
    """Rebuild one result of ``run`` from the output of ``result_to_dict``."""
    part = ResultPart.model_validate_json(json.dumps(content))
    return _result_from_part(part, run.machine, run.variant, run.harness)


def run_from_dict(content: dict[str, Any], source_name: str) -> Run:
    """Rebuild a run from the content of a document."""
    return _parse_run(json.dumps(content).encode(), source_name)


def can_read(path: Path, outline: ContentOutline) -> bool:
    return outline.keys.get(("schema",), "").startswith("perfci.run/")


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield the runs of a file; each must name the project of ``defaults``."""
    for source_name, body, run in _split_documents(path):
        if run.project != defaults.project:
            raise PerfciError(
                f"{source_name} is a run of the project {run.project}, not of {defaults.project}: "
                f"give --project {run.project}."
            )
        yield ImportedRun(run, idempotency_key(run), _hash_body(body, run))


def _hash_body(body: bytes, run: Run) -> str:
    """The hash of a document; marks are no part of it, so that a run stays the same when it is marked."""
    if run.invalid is None and all(result.invalid is None for result in run.results):
        return sha256(body).hexdigest()
    results = tuple(replace(result, invalid=None) for result in run.results)
    return sha256(dump_run(replace(run, results=results, invalid=None)).encode()).hexdigest()


def read_runs(path: Path) -> Iterator[Run]:
    """Yield the run of a file, or the run on each of its lines, as `perfci export` writes them."""
    return (run for _, _, run in _split_documents(path))


def _split_documents(path: Path) -> Iterator[tuple[str, bytes, Run]]:
    """Yield each run of a file with its name in messages and its bytes."""
    body = read_decompressed(path)
    lines = body.splitlines()
    single = len(lines) < 2 or not lines[0].rstrip().endswith(b"}")
    for number, document in enumerate([body] if single else filter(bytes.strip, lines), start=1):
        source_name = str(path) if single else f"{path}, line {number}"
        if len(document) > MAX_BYTES:
            raise PerfciError(f"{source_name} is too large: the limit is {MAX_BYTES // MIB} MiB.")
        yield source_name, document, _parse_run(document, source_name)


def _parse_run(body: bytes, source_name: str) -> Run:
    try:
        return run_from_document(RunDocument.model_validate_json(body))
    except ValidationError as error:
        raise PerfciError(f"{source_name} is not valid {SCHEMA}: {describe_first_error(error)}") from error


def run_from_document(document: RunDocument) -> Run:
    """Convert a valid document to a run."""
    machine, variant = Machine(**vars(document.machine)), Variant(freeze_named_values(document.variant))

    def read_series(part: SeriesPart) -> Series:
        return series_from_part(part, machine, variant, document.harness)

    return Run(
        project=document.project,
        session=document.session,
        commit=Commit(**vars(document.commit)),
        machine=machine,
        environment=Environment(freeze_named_values(document.environment)),
        variant=variant,
        suite=document.suite,
        harness=document.harness,
        started_at=document.started_at,
        finished_at=document.finished_at,
        origin=freeze_named_values(document.origin),
        results=tuple(
            _result_from_part(part, machine, variant, document.harness) for part in document.results
        ),
        invalid=_mark_from_part(document.invalid),
        variant_comparisons=comparisons_from_document(document, read_series),
        goals=goals_from_document(document, read_series),
    )


def _result_from_part(part: ResultPart, machine: Machine, variant: Variant, harness: str) -> Result:
    series = series_from_part(part, machine, variant, harness)
    summary = None
    if part.summary:
        ci_lo, ci_hi = part.summary.ci or (None, None)
        summary = SampleSummary(
            part.summary.value, ci_lo, ci_hi, part.summary.q25, part.summary.q75, part.summary.n
        )
    return Result(
        series=series,
        status=part.status,
        processes=part.processes,
        summary=summary,
        boundaries=part.boundaries,
        number=part.number,
        reason=part.reason,
        invalid=_mark_from_part(part.invalid),
    )


def _mark_from_part(part: InvalidPart | None) -> InvalidMark | None:
    return InvalidMark(**vars(part)) if part else None


def _mark_to_content(mark: InvalidMark | None) -> dict[str, Any] | None:
    if mark is None:
        return None
    return {"reason": mark.reason, "marked_by": mark.marked_by, "marked_at": _format_time(mark.marked_at)}


def run_to_dict(run: Run) -> dict[str, Any]:
    """Convert a run to the content of its document; unknown fields are absent."""
    for result in run.results:
        series = result.series
        if (series.machine, series.variant, series.harness) != (run.machine, run.variant, run.harness):
            raise PerfciError(
                f"{series.label} was measured on another machine, variant or harness than its run says."
            )
    machine = {name: getattr(run.machine, name) for name in MachinePart.model_fields}
    commit = {name: getattr(run.commit, name) for name in CommitPart.model_fields}
    commit["committed_at"] = _format_time(run.commit.committed_at)
    return _drop_empty(
        {
            "schema": SCHEMA,
            "project": run.project,
            "session": run.session,
            "commit": _drop_empty(commit),
            "machine": _drop_empty(machine),
            "environment": _pairs_to_object(run.environment.values),
            "variant": _pairs_to_object(run.variant.values),
            "suite": run.suite,
            "harness": run.harness,
            "started_at": _format_time(run.started_at),
            "finished_at": _format_time(run.finished_at),
            "origin": _pairs_to_object(run.origin),
            "results": [result_to_dict(result) for result in run.results],
            "invalid": _mark_to_content(run.invalid),
            "variant_comparisons": comparisons_to_content(run),
            "goals": goals_to_content(run),
        }
    )


def result_to_dict(result: Result) -> dict[str, Any]:
    """Convert a result to its part of a document, without the run's machine, variant and harness."""
    series = result.series
    return _drop_empty(
        {
            "benchmark": series.benchmark.name,
            "benchmark_version": series.benchmark.version,
            "parameters": _pairs_to_object(series.parameters),
            "metric": series.metric.name,
            "unit": series.metric.unit,
            "direction": series.metric.direction,
            "status": result.status.value,
            "reason": _sanitize_text(result.reason),
            "number": result.number,
            "boundaries": result.boundaries.value,
            "summary": result.summary and _summary_to_content(result.summary),
            "processes": [_process_to_content(process) for process in result.processes],
            "invalid": _mark_to_content(result.invalid),
        },
        keep=("unit",),
    )


def _summary_to_content(summary: SampleSummary) -> dict[str, Any]:
    ci = None if summary.ci_lo is None and summary.ci_hi is None else [summary.ci_lo, summary.ci_hi]
    return _drop_empty(
        {"value": summary.value, "ci": ci, "q25": summary.q25, "q75": summary.q75, "n": summary.n}
    )


def _process_to_content(process: Process) -> dict[str, Any]:
    fields = {name: getattr(process, name) for name in ProcessPart.model_fields}
    texts = {"reason": _sanitize_text(process.reason), "stderr_tail": _sanitize_text(process.stderr_tail)}
    return _drop_empty({**fields, **texts, "started_at": _format_time(process.started_at)})


def _drop_empty(fields: dict[str, Any], keep: tuple[str, ...] = ()) -> dict[str, Any]:
    """Drop null and empty values, except the names in ``keep``; zero and false stay."""
    return {name: value for name, value in fields.items() if name in keep or value not in EMPTY_VALUES}


def _pairs_to_object(pairs: NamedValues) -> dict[str, str]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise PerfciError(f"A name occurs twice in {pairs}: a document keeps one value for each.")
    return named


def _format_time(moment: datetime | None) -> str | None:
    return None if moment is None else moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _sanitize_text(text: str) -> str:
    """Keep the end of a program's output, with characters replaced that cannot be encoded or stored."""
    return text[-MAX_TEXT_LENGTH:].replace("\x00", "\ufffd").encode(errors="replace").decode()
