"""The step log of a training script is parsed into steps; an invalid line does not affect the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfci.formats.training_step_log import STEP_FIELDS, StepLog, TrainingStep, parse_step_log, read_step_log


def lines(*rows: object) -> bytes:
    return b"".join((row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows)


def seconds(log: StepLog) -> list[float | None]:
    return [None if step.seconds is None else round(step.seconds, 9) for step in log.steps]


def test_a_steps_seconds_are_the_difference_of_its_time_to_the_line_before() -> None:
    log = parse_step_log(lines({"step": 0, "t": 100.0}, {"step": 1, "t": 100.5}, {"step": 2, "t": 101.5}))

    assert seconds(log) == [None, 0.5, 1.0]
    assert log.errors == ()


def test_a_given_step_time_takes_precedence_over_the_clock() -> None:
    log = parse_step_log(
        lines({"step": 0, "t": 1.0, "step_time": 0.2}, {"step": 1, "t": 9.0, "step_time": 0.3})
    )

    assert seconds(log) == [0.2, 0.3]


def test_a_line_every_ten_steps_gives_the_seconds_of_one_step() -> None:
    log = parse_step_log(lines({"step": 10, "t": 5.0}, {"step": 20, "t": 7.0}))

    assert seconds(log) == [None, 0.2]


def test_keeps_the_other_fields_of_a_step() -> None:
    fields = {"step": 3, "step_time": 0.5, "tokens": 512, "loss": 2.5, "data_time": 0.1, "memory": 1024}

    (step,) = parse_step_log(lines(fields)).steps

    assert step == TrainingStep(3, 0.5, 512.0, 2.5, 0.1, 1024.0)


def test_a_new_epoch_begins_where_the_first_step_comes_again() -> None:
    log = parse_step_log(
        lines(*({"step": step, "t": t} for step, t in [(0, 1), (1, 2), (2, 3), (0, 60), (1, 61)]))
    )

    assert seconds(log) == [None, 1.0, 1.0, None, 1.0]
    assert log.errors == ()


def test_names_unknown_keys() -> None:
    assert parse_step_log(lines({"step": 1, "step_time": 1, "lr": 0.1, "toekns": 5})).unknown_keys == (
        "lr",
        "toekns",
    )


WRONG = {
    b'{"step": 2, "t"': 'line 2 is not JSON: {"step": 2, "t"',
    b"[" * 100_000: "line 2 is not JSON: " + "[" * 59 + "…",
    b"\xff\xfe": "line 2 is not JSON: \ufffd\ufffd",
    b"[1, 2]": "line 2 is no JSON object: [1, 2]",
    b'{"t": 2.0}': 'line 2 has no whole number "step"',
    b'{"step": 2.5, "t": 2.0}': 'line 2 has no whole number "step"',
    b'{"step": 2}': 'line 2 has neither "t" nor "step_time"',
    b'{"step": 1, "t": 2.0}': "line 2 is step 1 after step 1; only one process may write steps, in order",
    b'{"step": 2, "t": "soon"}': 'line 2 has "t": "soon", which is no number',
    b'{"step": 2, "t": true}': 'line 2 has "t": true, which is no number',
    b'{"step": 2, "t": NaN}': 'line 2 has "t": nan, which is not finite',
    b'{"step": 2, "t": 1' + b"0" * 400 + b"}": 'line 2 has "t": inf, which is not finite',
    b'{"step": 2, "t": 2.0, "tokens": -1}': 'line 2 has "tokens": -1, which is below zero',
}


@pytest.mark.parametrize(("line", "sentence"), WRONG.items())
def test_leaves_out_a_line_it_cannot_read_and_keeps_the_others(line: bytes, sentence: str) -> None:
    log = parse_step_log(lines({"step": 1, "t": 1.0}, line, {"step": 3, "t": 3.0}))

    assert log.errors == (sentence,)
    assert seconds(log) == [None, 1.0]


def test_reports_where_time_goes_backwards_and_continues() -> None:
    log = parse_step_log(
        lines(*({"step": step, "t": t} for step, t in enumerate([10.0, 11.0, 7.8, 8.3, 8.3])))
    )

    assert log.errors == (
        'line 3 has a "t" that goes back by 3.2 s',
        'line 5 has the same "t" as the line before',
    )
    assert seconds(log) == [None, 1.0, None, 0.5, None]


def test_refuses_a_step_that_took_no_time() -> None:
    log = parse_step_log(lines({"step": 0, "step_time": 0}, {"step": 1, "step_time": 0.5}))

    assert log.errors == ('line 1 has "step_time": 0; seconds above 0 were expected',)
    assert seconds(log) == [None, 0.5]


def test_refuses_a_wait_for_data_that_is_longer_than_its_step() -> None:
    log = parse_step_log(lines({"step": 0, "step_time": 0.2, "data_time": 0.5}))

    assert log.errors == ("line 1 data_time 0.5 is longer than its step of 0.2 s, which includes it",)
    assert log.steps == (TrainingStep(0, 0.2),)


@pytest.mark.parametrize("loss", ["NaN", "Infinity", "-Infinity"])
def test_reports_the_step_at_which_the_loss_became_nan(loss: str) -> None:
    good, bad = (
        {"step": 6, "step_time": 1, "loss": 2.0},
        f'{{"step": 7, "step_time": 1, "loss": {loss}}}'.encode(),
    )

    log = parse_step_log(lines(good, bad, bad.replace(b"7", b"8")))

    assert log.divergence == f"the loss is {float(loss)} at step 7 (line 2)"
    assert [step.loss for step in log.steps] == [2.0, None, None]


def test_reads_only_what_was_added_to_a_file_that_was_there(tmp_path: Path) -> None:
    path, before = tmp_path / "steps.jsonl", lines({"step": 1, "step_time": 9})
    path.write_bytes(before + lines({"step": 1, "step_time": 2}))

    assert seconds(read_step_log(path, before)) == [2.0]
    assert seconds(read_step_log(path, b"something else that the script replaced")) == [9.0]


def test_a_file_that_never_came_holds_no_steps(tmp_path: Path) -> None:
    assert read_step_log(tmp_path / "never.jsonl") == StepLog()


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())
)
ROWS = st.dictionaries(st.sampled_from([*STEP_FIELDS, "other"]), VALUES) | VALUES


@given(st.lists(ROWS))
def test_reads_anything_that_is_json_into_finite_seconds_above_zero(rows: list[object]) -> None:
    log = parse_step_log(lines(*rows))

    assert all(step.seconds is None or 0 < step.seconds < float("inf") for step in log.steps)
    assert len(log.steps) + len(log.errors) >= sum(isinstance(row, dict) for row in rows)


@given(st.binary())
def test_reads_any_bytes(body: bytes) -> None:
    assert parse_step_log(body).steps == () or b"step" in body
