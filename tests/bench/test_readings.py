"""What a measuring function may declare and return, and what it is told when it does not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perfci.bench import Absent, Clock, Measurement, Metric, Reading, exact, informational, metrics

TIME, BYTES = Metric("time", "seconds"), Metric("peak", "bytes")


def returning(value: Any, *declared: Metric) -> Any:
    @metrics(*(declared or (TIME, BYTES)))
    def measure_it() -> Any:
        return value

    return measure_it


def test_reports_every_metric_of_one_run_with_its_clock() -> None:
    report = returning({"time": Reading([0.5, 0.25], Clock.DEVICE, number=4), "peak": exact(12)})()

    assert report["metrics"] == [
        {
            "name": "time",
            "unit": "seconds",
            "direction": "lower",
            "status": "ok",
            "reason": "",
            "clock": "device",
            "number": 4,
            "samples": [0.5, 0.25],
        },
        {
            "name": "peak",
            "unit": "bytes",
            "direction": "lower",
            "status": "ok",
            "reason": "",
            "clock": "exact",
            "number": 1,
            "samples": [12.0],
        },
    ]


def test_puts_cpu_seconds_under_the_metrics_own_name() -> None:
    report = returning({"time": Reading([2.0], Clock.WALL, cpu=[1.5])}, TIME)()

    assert [(row["name"], row["clock"], row["samples"]) for row in report["metrics"]] == [
        ("time", "wall", [2.0]),
        ("cpu_time", "cpu", [1.5]),
    ]


def test_takes_a_bare_number_and_a_list_for_readings() -> None:
    report = returning({"time": [1, 2], "peak": 3})()

    assert [(row["clock"], row["samples"]) for row in report["metrics"]] == [
        ("value", [1.0, 2.0]),
        ("value", [3.0]),
    ]


def test_gives_the_reason_for_an_absent_metric() -> None:
    report = returning({"time": informational(1.0), "peak": Absent("this machine has no allocator")})()

    assert report["metrics"][1] == {
        "name": "peak",
        "unit": "bytes",
        "direction": "lower",
        "status": "skipped",
        "reason": "this machine has no allocator",
    }


def test_passes_on_the_flags_of_the_whole_run() -> None:
    report = returning(Measurement({"time": informational(1.0)}, flags=("throttled: thermal",)), TIME)()

    assert report["flags"] == ["throttled: thermal"]


@pytest.mark.parametrize(
    ("value", "declared", "sentence"),
    [
        (
            {"time": 1.0},
            (TIME, BYTES),
            "the benchmark did not return peak; return Absent(reason) for a metric that cannot be read",
        ),
        (
            {"time": 1.0, "tim": 2.0},
            (TIME,),
            "the benchmark returned tim, which it does not declare; return Absent(reason) for a "
            "metric that cannot be read",
        ),
        (3.0, (TIME,), "the benchmark returned float; a mapping of metrics to readings was expected"),
        ({"time": float("nan")}, (TIME,), "metric 'time' is (nan,); finite numbers were expected"),
        ({"time": []}, (TIME,), "metric 'time' is []; finite numbers were expected"),
        (
            {"time": 1.0},
            (TIME, TIME),
            "two metrics are called 'time'; every metric of one benchmark needs its own name",
        ),
    ],
)
def test_explains_an_invalid_measurement_in_one_sentence(
    value: Any, declared: tuple[Metric, ...], sentence: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        returning(value, *declared)()


def test_refuses_an_unknown_unit_when_it_is_measured_and_not_when_it_is_imported() -> None:
    function = returning({"speed": 1.0}, Metric("speed", "parsecs"))

    with pytest.raises(ValueError, match="metric 'speed' has the unknown unit 'parsecs'; known: FLOP, "):
        function()


def test_keeps_the_functions_own_name_and_declaration() -> None:
    function = returning({})

    assert function.__name__ == "measure_it"
    assert function.metrics == (TIME, BYTES)
