"""A run written as ``perfci.run/1`` is read back unchanged; errors name their place in the document."""

from __future__ import annotations

import copy
import gzip
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from foreign_files import read_runs
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.formats import run_document, run_document_schema
from perfci.formats.format_registry import detect_format
from perfci.model import Clock, Machine, PerfciError, Process, ProcessBoundaries, Role, Run, Status
from tests.support.builders import (
    NOON,
    a_commit,
    a_failed_process,
    a_machine,
    a_process,
    a_result,
    a_run,
    a_series,
    a_summary,
    a_variant,
    an_environment,
)


def a_full_run() -> Run:
    """Build a run that uses every field."""
    machine, variant = (
        a_machine(accelerator="NVIDIA H200", accelerators=2, name="rack 4"),
        a_variant(python="3.12"),
    )
    place = {"machine": machine, "variant": variant}
    process = Process(
        index=4,
        role=Role.HEAD,
        samples=(0.1, 1e-300, 1.7976931348623157e308, -0.0),
        clock=Clock.CPU,
        pair=0,
        round=2,
        order=1,
        started_at=NOON + timedelta(microseconds=1),
        duration_s=0.5,
        exit_code=0,
        stderr_tail="warning: slow",
        flags=("throttled", "shared_gpu"),
    )
    summary = a_summary(1.5, ci_lo=1.0, ci_hi=2.0, q25=1.25, q75=1.75, n=10)
    return a_run(
        a_result(a_series(parameters={"n": "8", "dtype": "'bf16'"}, **place), process, number=2**62),
        a_result(
            a_series("suite.oom", **place), a_failed_process(Status.OOM, exit_code=-9), status=Status.OOM
        ),
        a_result(a_series("suite.pooled", **place), boundaries=ProcessBoundaries.POOLED, summary=summary),
        a_result(
            a_series("suite.speed", unit="tokens/s", direction="higher", **place),
            boundaries=ProcessBoundaries.UNKNOWN,
        ),
        commit=a_commit(3, tags=("v1",), dirty=True),
        machine=machine,
        variant=variant,
        finished_at=NOON + timedelta(minutes=3),
        origin=(("run_id", "17"), ("attempt", "2"), ("job", "bench")),
    )


def test_a_run_comes_back_as_it_was_written() -> None:
    assert run_document.read_run(run_document.dump_run(a_full_run()).encode()) == a_full_run()


def test_a_run_without_anything_optional_comes_back() -> None:
    bare = a_run(machine=Machine(), suite="", harness="")

    assert run_document.read_run(run_document.dump_run(bare).encode()) == bare


def test_a_file_may_be_packed(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.write_bytes(gzip.compress(run_document.dump_run(a_full_run()).encode()))

    assert detect_format(path) == "perfci"
    assert list(read_runs(path, "perfci", "acme/model")) == [run_document.read_run(path)] == [a_full_run()]


finite = st.floats(allow_nan=False, allow_infinity=False)


@settings(deadline=None, derandomize=True)
@given(samples=st.lists(finite, min_size=1, max_size=8), value=finite)
def test_numbers_are_exact(samples: list[float], value: float) -> None:
    run = a_run(a_result(a_series(), a_process(*samples), summary=a_summary(value)))

    [result] = run_document.read_run(run_document.dump_run(run).encode()).results

    assert [sample.hex() for sample in result.processes[0].samples] == [sample.hex() for sample in samples]
    assert result.summary is not None
    assert result.summary.value.hex() == value.hex()


def test_any_output_of_a_crashed_program_can_be_serialized() -> None:
    wild = a_failed_process(stderr_tail="x" * 200_000 + "\x00 \ud83d end")
    run = a_run(a_result(a_series(), wild, status=Status.FAILED))

    [result] = run_document.read_run(run_document.dump_run(run).encode()).results

    assert result.processes[0].stderr_tail.endswith("x\ufffd ? end")
    assert len(result.processes[0].stderr_tail) == run_document_schema.MAX_TEXT_LENGTH


def test_absent_is_absent_and_zero_is_zero() -> None:
    [result] = json.loads(run_document.dump_run(a_run(a_result(a_series(), a_process(0.0)))))["results"]

    assert result["processes"][0]["round"] == 0
    assert result["processes"][0]["samples"] == [0.0]
    assert not {"pair", "reason", "stderr_tail", "flags"} & result["processes"][0].keys()


def test_documents_fit_the_published_schema() -> None:
    schema = run_document_schema.RunDocument.model_json_schema()

    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(run_document.dump_run(a_full_run())), schema)


FIRST = "results.0.processes.0"


def faulty(place: str, value: object) -> bytes:
    """Return a full document with the entry at ``place`` (``results.0.metric``) set or removed (``...``)."""
    content = json.loads(run_document.dump_run(a_full_run()))
    *path, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    part: Any = content
    for step in path:
        part = part[step]
    if value is ...:
        del part[last]
    else:
        part[last] = copy.deepcopy(value)
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        ("schema", "perfci.run/2", "schema: Input should be 'perfci.run/1' (found 'perfci.run/2')"),
        ("project", ..., "project: Field required"),
        ("project", "", "project: String should have at least 1 character"),
        ("commit.sha", "HEAD", "commit.sha: String should match pattern"),
        ("commit.sha", "../../x", "commit.sha: String should match pattern"),
        ("started_at", "yesterday", "started_at: Input should be a valid datetime"),
        ("started_at", "2026-03-01T12:00:00", "started_at: Input should have timezone info"),
        (
            "started_at",
            "0001-01-01T00:00:00+23:00",
            "started_at: Value error, a date between 1900 and 3000 was",
        ),
        ("started_at", 1_700_000_000, "started_at: Input should be a valid datetime"),
        (f"{FIRST}.samples.2", "fast", "results[0].processes[0].samples[2]: Input should be a valid number"),
        (f"{FIRST}.samples.2", True, "results[0].processes[0].samples[2]: Input should be a valid number"),
        (f"{FIRST}.samples.0", float("nan"), "results[0].processes[0].samples[0]: Input should be a finite"),
        (f"{FIRST}.samples", [2**53 + 1], "results[0].processes[0].samples: Value error, a whole number is"),
        (f"{FIRST}.samples", [10**400], "results[0].processes[0].samples: Value error, a whole number is"),
        (f"{FIRST}.samples", [], "results[0].processes[0]: Value error, a process that ended ok needs"),
        (f"{FIRST}.pair", -1, "results[0].processes[0].pair: Input should be greater than or equal to 0"),
        (f"{FIRST}.pair", 2**31, "results[0].processes[0].pair: Input should be less than or equal"),
        (f"{FIRST}.role", "hero", "results[0].processes[0].role: Input should be 'base', 'head' or"),
        (f"{FIRST}.smaples", [], "results[0].processes[0].smaples: Unexpected keyword argument (found [])"),
        (
            f"{FIRST}.duration_s",
            2**53 + 1,
            "results[0].processes[0].duration_s: Value error, a whole number is",
        ),
        (
            f"{FIRST}.started_at",
            "3000-01-01T00:00:00Z",
            "results[0].processes[0].started_at: Value error, a date",
        ),
        (f"{FIRST}.index", "0", "results[0].processes[0].index: Input should be a valid integer (found '0')"),
        (
            "results.0.processes",
            [],
            "results[0]: Value error, a result that is ok needs samples or a summary",
        ),
        (
            "results.0.processes",
            [{"index": 0, "samples": [1.0]}, {"index": 0, "samples": [2.0]}],
            "results[0]: Value error, two of its processes have the same role, pair, round, order and index: "
            "number the processes of one place by their index",
        ),
        ("results.0.direction", "up", "results[0].direction: Input should be 'lower' or 'higher'"),
        (
            "results.0.number",
            2**63,
            "results[0].number: Input should be less than or equal to 9223372036854775807",
        ),
        ("results.0.parameters.n", 8, "results[0].parameters.n: Input should be a valid string (found 8)"),
        ("results.0.paramters", {}, "results[0].paramters: Extra inputs are not permitted (found {})"),
        (
            "results.2.summary.value",
            float("inf"),
            "results[2].summary.value: Input should be a finite number",
        ),
        ("machine.hostname", "box", "machine.hostname: Extra inputs are not permitted (found 'box')"),
        ("suite", "a\x00b", "suite: String should match pattern"),
        ("suite", "a\u202eb", "suite: String should match pattern"),
        ("session", "n" * 501, "session: String should have at most 500 characters"),
    ],
)
def test_an_error_is_reported_with_its_place(place: str, value: object, says: str) -> None:
    with pytest.raises(PerfciError) as error:
        run_document.read_run(faulty(place, value))

    assert str(error.value).startswith(f"The run document is not valid perfci.run/1: {says}")


def test_further_faults_are_counted() -> None:
    with pytest.raises(PerfciError, match="and 7 more errors"):
        run_document.read_run(b'{"schema": 1, "a": 1, "b": 1}')


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"schema": "perfci.run/1"']
)
def test_a_file_that_is_no_document_is_refused_in_one_sentence(body: bytes) -> None:
    with pytest.raises(PerfciError, match=r"^The run document is not valid perfci\.run/1: document: "):
        run_document.read_run(body)


def test_a_truncated_compressed_document_is_refused_in_one_sentence() -> None:
    with pytest.raises(PerfciError, match="The run document is truncated or damaged"):
        run_document.read_run(gzip.compress(run_document.dump_run(a_full_run()).encode())[:-20])


@pytest.mark.parametrize(
    "run",
    [
        a_run(a_result(a_series(machine=a_machine("another")))),
        a_run(a_result(a_series(harness="another"))),
        a_run(a_result(a_series(), summary=a_summary(float("inf")))),
        a_run(variant=a_variant(), origin=(("a", "1"), ("a", "2"))),
        a_run(commit=a_commit(1, sha="HEAD")),
    ],
    ids=["machine", "harness", "infinity", "names twice", "sha"],
)
def test_nothing_is_written_that_could_not_be_read(run: Run) -> None:
    with pytest.raises(PerfciError):
        run_document.dump_run(run)


def test_a_ci_run_is_identified_by_its_id_and_a_local_one_by_its_session() -> None:
    origin = (("run_id", "17"), ("attempt", "1"), ("job", "bench"))
    ci, local = a_run(origin=origin), a_run()

    assert run_document.idempotency_key(ci) == run_document.idempotency_key(
        a_run(origin=origin, session="again")
    )
    assert run_document.idempotency_key(local) != run_document.idempotency_key(a_run(session="again"))


@pytest.mark.parametrize(
    "change",
    [
        {"project": "acme/other"},
        {"commit": a_commit(2)},
        {"machine": a_machine("Intel")},
        {"suite": "other"},
        {"variant": a_variant(compile="on")},
        {"origin": (("run_id", "18"), ("attempt", "1"), ("job", "bench"))},
        {"origin": (("run_id", "17"), ("attempt", "2"), ("job", "bench"))},
        {"origin": (("run_id", "17"), ("attempt", "1"), ("job", "other"))},
        {"origin": (("run_id", "17"), ("attempt", "1"), ("job", "bench"), ("step", "confirm-1"))},
    ],
)
def test_runs_that_differ_have_different_keys(change: dict[str, Any]) -> None:
    origin = (("run_id", "17"), ("attempt", "1"), ("job", "bench"))

    assert run_document.idempotency_key(
        a_run(**{"origin": origin, **change})
    ) != run_document.idempotency_key(a_run(origin=origin))


@pytest.mark.parametrize(
    "change",
    [
        {"commit": a_commit(dirty=True)},
        {"environment": an_environment(torch="2.12.0")},
        {"harness": "perfci/2"},
    ],
    ids=["dirty", "environment", "harness"],
)
def test_what_one_session_measures_twice_are_two_runs(change: dict[str, Any]) -> None:
    assert run_document.idempotency_key(a_run(**change)) != run_document.idempotency_key(a_run())


def test_the_key_does_not_depend_on_the_numbers() -> None:
    assert run_document.idempotency_key(a_run(a_result())) == run_document.idempotency_key(a_run())
