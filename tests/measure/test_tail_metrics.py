"""The tail of a metric, recorded as a metric of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfci.measure.measure_and_store_session import SessionReadings
from perfci.measure.tail_metrics import add_tail_metrics
from perfci.model import Clock, MetricClass, Series, Status
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import a_failed_process, a_process, a_series, a_sha

TIME = a_series(metric="time")
SAMPLES = tuple(1.0 + k / 100 for k in range(11))


def named(series: Series, name: str) -> Series:
    return replace(series, metric=replace(series.metric, name=name))


def test_each_metric_with_samples_is_followed_by_its_tail() -> None:
    process = a_process(*SAMPLES, pair=3)

    measured = add_tail_metrics([(TIME, process)])

    assert measured == [(TIME, process), (named(TIME, "time_p90"), a_process(1.09, pair=3))]
    assert measured[1][1].samples == pytest.approx([1.09])
    assert Policy().metric_class_of(measured[1][0]) is MetricClass.TAIL


def test_the_tail_of_what_should_be_high_is_its_tenth_percentile() -> None:
    rate = replace(TIME, metric=replace(TIME.metric, name="rate", unit="tokens/s", direction="higher"))

    (_, (series, process)) = add_tail_metrics([(rate, a_process(*SAMPLES))])

    assert series.metric.name == "rate_p10"
    assert process.samples == pytest.approx([1.01])


@pytest.mark.parametrize(
    "process",
    [
        a_process(*SAMPLES[:9]),
        a_process(*SAMPLES, clock=Clock.EXACT),
        a_process(*SAMPLES, clock=Clock.INFORMATIONAL),
        a_failed_process(),
    ],
)
def test_few_samples_counts_and_failures_have_no_tail(process) -> None:
    assert add_tail_metrics([(TIME, process)]) == [(TIME, process)]


def test_a_process_that_failed_fails_tails_that_others_have() -> None:
    tail_series = named(TIME, "time_p90")
    readings = SessionReadings()
    readings.add_process(a_sha(1), 1, tail_series, a_process(1.0))
    failed = a_failed_process()

    assert add_tail_metrics([(TIME, failed)], readings.has_series) == [(TIME, failed), (tail_series, failed)]
    skipped = a_failed_process(Status.SKIPPED)
    assert add_tail_metrics([(TIME, skipped)], readings.has_series) == [(TIME, skipped)]


def test_a_tail_that_the_benchmark_gives_itself_is_kept() -> None:
    own = (named(TIME, "time_p90"), a_process(7.0))

    assert add_tail_metrics([(TIME, a_process(*SAMPLES)), own])[1:] == [own]
