"""Every formula against a count by hand, on timestamps that are whole numbers of seconds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfci.bench.streams import request_metrics
from perfci.bench.streams.request_metrics import RequestTrace


def trace(*chunks: float | tuple[float, int], sent: float = 0.0, done: float | None = None) -> RequestTrace:
    """A request whose chunks hold one token unless said otherwise, and whose stream ends with its last."""
    full = tuple(chunk if isinstance(chunk, tuple) else (chunk, 1) for chunk in chunks)
    return RequestTrace(sent, full, full[-1][0] if done is None else done)


SLOW_START = trace(13.0, 14.0, 16.0, 19.0, sent=10.0)


def test_counts_ttft_from_sending_to_the_first_chunk() -> None:
    assert request_metrics.ttft(SLOW_START) == 3.0


def test_does_not_count_a_first_chunk_that_only_names_the_role() -> None:
    role_first = trace((11.0, 0), 13.0, 14.0, sent=10.0)

    assert request_metrics.ttft(role_first) == 3.0
    assert request_metrics.itl([role_first]) == [1.0]


def test_counts_e2el_from_sending_to_the_end_of_the_stream() -> None:
    tail = trace(13.0, 14.0, sent=10.0, done=20.0)

    assert request_metrics.e2el(SLOW_START) == 9.0
    assert request_metrics.e2el(tail) == 10.0


def test_divides_tpot_over_the_tokens_after_the_first() -> None:
    assert request_metrics.tpot(SLOW_START) == 2.0


def test_has_no_tpot_for_a_request_of_one_token() -> None:
    assert request_metrics.tpot(trace(13.0, sent=10.0)) is None
    assert request_metrics.itl([trace(13.0, sent=10.0)]) == []


def test_has_no_tpot_where_all_tokens_came_in_one_chunk() -> None:
    assert request_metrics.tpot(trace((13.0, 10), sent=10.0)) is None


def test_pools_the_gaps_between_chunks_over_requests_without_ttft() -> None:
    assert request_metrics.itl([SLOW_START, trace(5.0, 9.0)]) == [1.0, 2.0, 3.0, 4.0]


def test_weighs_itl_by_gap_and_tpot_by_request_so_that_they_differ() -> None:
    traces = [trace(1.0, 2.0, 3.0, 4.0, 5.0), trace(1.0, 7.0)]

    itl = request_metrics.itl(traces)
    tpot = [request_metrics.tpot(each_trace) for each_trace in traces]

    assert sum(itl) / len(itl) == 2.0
    assert tpot == [1.0, 6.0]


def test_keeps_itl_per_chunk_where_a_chunk_is_not_a_token_and_gives_it_per_token_under_another_name() -> None:
    bundled = trace((1.0, 1), (5.0, 4), (7.0, 1))

    assert request_metrics.itl([bundled]) == [4.0, 2.0]
    assert request_metrics.itl_per_token([bundled]) == [1.0, 2.0]
    assert request_metrics.max_tokens_per_chunk([bundled]) == 4


def test_counts_the_tokens_of_bundled_chunks_in_tpot() -> None:
    assert request_metrics.tpot(trace((1.0, 1), (5.0, 4), (7.0, 2))) == 1.0


def test_ignores_an_empty_chunk_in_the_middle() -> None:
    assert request_metrics.itl([trace(1.0, (2.0, 0), 4.0)]) == [3.0]


@pytest.mark.parametrize(
    ("sent", "chunks", "done", "message"),
    [
        (-1.0, ((1.0, 1),), 2.0, "not negative"),
        (0.0, ((math.nan, 1),), 2.0, "finite"),
        (0.0, ((math.inf, 1),), math.inf, "finite"),
        (0.0, ((3.0, 1), (2.0, 1)), 4.0, "must not go back"),
        (2.0, ((1.0, 1),), 4.0, "must not go back"),
        (0.0, ((3.0, 1),), 2.0, "must not go back"),
        (0.0, ((1.0, -1), (2.0, 1)), 2.0, "less than 0 tokens"),
        (0.0, (), 2.0, "no output"),
        (0.0, ((1.0, 0),), 2.0, "no output"),
    ],
)
def test_rejects_an_impossible_trace(
    sent: float, chunks: tuple[tuple[float, int], ...], done: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        RequestTrace(sent, chunks, done)


@pytest.mark.parametrize("audio", [(0.1,), (0.1, -0.1), (0.1, math.nan)])
def test_rejects_audio_seconds_that_do_not_match_the_chunks(audio: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="audio"):
        RequestTrace(0.0, ((1.0, 1), (2.0, 1)), 2.0, audio)


def test_counts_ttfb_to_the_first_chunk_with_audio() -> None:
    silent_header = RequestTrace(10.0, ((11.0, 1), (14.0, 1)), 15.0, (0.0, 0.5))

    assert request_metrics.first_audio_delay(silent_header) == 4.0
    assert request_metrics.first_audio_delay(SLOW_START) is None


def test_computes_rtf_and_its_inverse_rtfx() -> None:
    assert request_metrics.rtf(compute_seconds=2.0, audio_seconds=8.0) == 0.25
    assert request_metrics.rtfx(compute_seconds=2.0, audio_seconds=8.0) == 4.0


@pytest.mark.parametrize("audio", [0.0, -1.0, math.nan])
def test_has_no_real_time_factor_without_audio(audio: float) -> None:
    with pytest.raises(ValueError, match="needs audio"):
        request_metrics.rtf(1.0, audio)


def test_has_no_inverse_real_time_factor_without_computing() -> None:
    with pytest.raises(ValueError, match="took time"):
        request_metrics.rtfx(0.0, 1.0)


def test_finds_the_slope_of_a_growing_tpot() -> None:
    cache_lost = trace(*(position * (position + 1) / 2 for position in range(1, 34)))

    assert request_metrics.tpot_slope([cache_lost]) == pytest.approx(1.0)
    assert request_metrics.tpot_growth(cache_lost) == pytest.approx(29.5 / 5.5)


def test_finds_no_slope_in_even_tokens_despite_a_stall() -> None:
    even = [float(second) for second in range(1, 34)]
    stalled = trace(*(second + 100.0 * (second > 20) for second in even))

    assert request_metrics.tpot_slope([stalled]) == 0.0
    assert request_metrics.tpot_growth(stalled) == 1.0


def test_takes_the_median_of_the_pairwise_slopes() -> None:
    gaps = (1.0, 1.0, 1.0, 1.0, 5.0, 9.0, 13.0, 17.0)

    item = trace(1.0, *(1.0 + sum(gaps[: count + 1]) for count in range(8)))

    assert request_metrics.tpot_slope([item]) == 2.5  # of 1, 2, 3 and 4 seconds per token per token


def test_measures_the_slope_per_token_and_not_per_chunk() -> None:
    pairs = trace(*((float(second * second), 2) for second in range(1, 20)))

    assert request_metrics.tpot_slope([pairs]) == pytest.approx(0.5)


def test_has_no_slope_over_a_few_tokens() -> None:
    short = trace(1.0, 2.0, 4.0, 8.0)

    assert request_metrics.tpot_slope([short]) is None
    assert request_metrics.tpot_growth(short) is None


def test_has_no_tpot_growth_from_a_quarter_of_zero_seconds() -> None:
    frozen_clock = trace(*[1.0] * 6, *(float(second) for second in range(2, 9)))

    assert request_metrics.tpot_growth(frozen_clock) is None


@pytest.mark.parametrize(("share", "fewest"), [(0.5, 1), (0.9, 64), (0.99, 662)])
def test_reports_a_tail_percentile_only_from_enough_requests(share: float, fewest: int) -> None:
    assert request_metrics.required_percentile_samples(share) == fewest
    assert request_metrics.percentile([1.0] * fewest, share) is not None
    assert fewest == 1 or request_metrics.percentile([1.0] * (fewest - 1), share) is None


@pytest.mark.parametrize("share", [0.9, 0.99])
def test_needs_enough_requests_for_the_second_largest_to_exceed_the_percentile(
    share: float,
) -> None:
    def risk(n: int) -> Fraction:
        inside = Fraction(share).limit_denominator(100)
        return inside**n + n * (1 - inside) * inside ** (n - 1)

    fewest = request_metrics.required_percentile_samples(share)

    assert risk(fewest) <= Fraction(1, 100) < risk(fewest - 1)


def test_interpolates_a_percentile_linearly() -> None:
    hundred = [float(value) for value in range(100, -1, -1)]

    estimate = request_metrics.percentile(hundred, 0.9)

    assert estimate is not None
    assert estimate.value == pytest.approx(90.0)


def test_bounds_a_median_by_the_order_statistics_of_the_sign_test() -> None:
    estimate = request_metrics.percentile([float(value) for value in range(1, 21)], 0.5)

    assert estimate is not None
    assert (estimate.lo, estimate.value, estimate.hi) == (6.0, 10.5, 15.0)


def test_has_no_bounds_where_even_the_extremes_cover_too_little() -> None:
    estimate = request_metrics.percentile([1.0, 2.0, 3.0, 4.0, 5.0], 0.5)

    assert estimate is not None
    assert (estimate.lo, estimate.value, estimate.hi) == (None, 3.0, None)


def test_rejects_a_percentile_of_nothing_and_a_quantile_out_of_range() -> None:
    with pytest.raises(ValueError, match="at least one value"):
        request_metrics.percentile([], 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        request_metrics.percentile([1.0], 90)


def test_reads_an_sla_with_limits_per_request_and_shares_of_requests() -> None:
    p90, first = request_metrics.parse_sla({"e2el_p90": 2.0, "ttft": 0.5})

    assert (p90.metric, p90.limit, p90.required_share) == ("e2el", 2.0, 0.9)
    assert (first.metric, first.limit, first.required_share) == ("ttft", 0.5, 1.0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"latency": 1.0}, "names 'latency'; known are ttft, tpot, e2el, ttfb, rtf"),
        ({"e2el_p0": 1.0}, "names 'e2el_p0'"),
        ({"e2el_p100": 1.0}, "names 'e2el_p100'"),
        ({"itl_p90": 1.0}, "names 'itl_p90'"),
        ({"ttft": 0}, "limits ttft to 0"),
        ({"ttft": "fast"}, "limits ttft to 'fast'"),
        ({"ttft": True}, "limits ttft to True"),
        ({"ttft": math.nan}, "limits ttft to nan"),
        ({}, "at least one objective"),
    ],
)
def test_explains_what_is_wrong_with_an_sla(spec: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        request_metrics.parse_sla(spec)


FAST, LATE_FIRST, LATE_END, SHORT = trace(1.0, 2.0), trace(3.0, 4.0), trace(1.0, 9.0), trace(1.0)
FOUR = [FAST, LATE_FIRST, LATE_END, SHORT]
SLA = request_metrics.parse_sla({"ttft": 2.0, "e2el": 5.0})


def test_counts_goodput_over_requests_that_keep_every_limit() -> None:
    assert request_metrics.sla_attainment(FOUR, SLA) == 0.5
    assert request_metrics.goodput(FOUR, SLA, wall_s=8.0) == 0.25
    assert request_metrics.request_throughput(FOUR, wall_s=8.0) == 0.5


def test_counts_a_request_of_one_token_as_within_any_tpot_limit() -> None:
    assert request_metrics.sla_attainment([SHORT, LATE_END], request_metrics.parse_sla({"tpot": 1.0})) == 0.5


def test_checks_audio_against_its_own_limits() -> None:
    spoken = RequestTrace(0.0, ((1.0, 1), (2.0, 1)), 2.0, (2.0, 2.0))

    assert (
        request_metrics.sla_attainment([spoken], request_metrics.parse_sla({"rtf": 0.5, "ttfb": 1.0})) == 1.0
    )
    assert request_metrics.sla_attainment([spoken], request_metrics.parse_sla({"rtf": 0.49})) == 0.0


def test_takes_rates_from_the_first_sending_to_the_last_end() -> None:
    overlapping = [trace(3.0, 6.0, sent=2.0), trace((5.0, 3), (10.0, 5), sent=4.0)]

    assert request_metrics.request_throughput(overlapping) == 0.25
    assert request_metrics.token_throughput(overlapping) == 1.25


def test_has_no_rate_over_zero_seconds_or_zero_requests() -> None:
    with pytest.raises(ValueError, match=r"0\.0 seconds"):
        request_metrics.request_throughput([trace(0.0)])
    with pytest.raises(ValueError, match="no request"):
        request_metrics.goodput([], SLA)


def test_describes_which_objectives_are_violated() -> None:
    sla = request_metrics.parse_sla({"e2el_p90": 5.0, "ttft_p50": 2.0})

    assert request_metrics.describe_sla_violations(FOUR, request_metrics.parse_sla({"e2el_p75": 5.0})) == ()
    assert request_metrics.describe_sla_violations(FOUR, sla) == (
        "sla: 75.0 % of 4 requests keep e2el_p90 <= 5, required: 90.0 %",
    )


seconds = st.floats(min_value=0, max_value=1e4, allow_nan=False)


@st.composite
def traces(draw: st.DrawFn) -> RequestTrace:
    """Requests of 1 to 12 chunks of 0 to 3 tokens that end with their last chunk with output."""
    gaps = draw(st.lists(seconds, min_size=1, max_size=12))
    tokens = [
        *draw(st.lists(st.integers(0, 3), min_size=len(gaps) - 1, max_size=len(gaps) - 1)),
        draw(st.integers(1, 3)),
    ]
    sent = draw(seconds)
    times, now = [], sent
    for gap in gaps:
        now += gap
        times.append(now)
    return RequestTrace(sent, tuple(zip(times, tokens, strict=True)), now)


@given(traces())
def test_gaps_sum_to_the_time_after_the_first_token(each_trace: RequestTrace) -> None:
    assert math.fsum(request_metrics.itl([each_trace])) == pytest.approx(
        request_metrics.e2el(each_trace) - request_metrics.ttft(each_trace), abs=1e-6
    )


@given(traces())
def test_tpot_and_ttft_sum_to_e2el(each_trace: RequestTrace) -> None:
    tpot = request_metrics.tpot(each_trace)

    after_first = each_trace.output_tokens - each_trace.chunks_with_output[0][1]
    assert tpot is None or tpot * after_first + request_metrics.ttft(each_trace) == pytest.approx(
        request_metrics.e2el(each_trace)
    )


@given(st.lists(seconds, min_size=1, max_size=50), st.integers(662, 700))
def test_percentiles_rise_with_their_share_and_lie_between_their_bounds(few: list[float], count: int) -> None:
    values = (few * count)[:count]

    estimate = [request_metrics.percentile(values, share) for share in (0.5, 0.9, 0.99)]

    assert [item.value for item in estimate if item] == sorted(item.value for item in estimate if item)
    assert all(item is not None and item.lo <= item.value <= item.hi for item in estimate)  # type: ignore[operator]


@given(st.lists(seconds, min_size=64, max_size=80))
def test_agrees_with_numpy_on_percentiles(values: list[float]) -> None:
    estimate = request_metrics.percentile(values, 0.9)

    assert estimate is not None
    assert estimate.value == pytest.approx(np.quantile(values, 0.9))


@given(st.lists(traces(), min_size=1, max_size=8), st.floats(1e-3, 1e4), st.floats(1e-3, 1e4))
def test_goodput_never_exceeds_throughput(several: list[RequestTrace], first: float, whole: float) -> None:
    sla = request_metrics.parse_sla({"ttft": first, "e2el": whole})

    assert request_metrics.goodput(several, sla, 7.0) <= request_metrics.request_throughput(several, 7.0)
    assert 0.0 <= request_metrics.sla_attainment(several, sla) <= 1.0
