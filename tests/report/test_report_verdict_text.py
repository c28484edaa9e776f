"""One plain sentence per verdict."""

from dataclasses import replace

import pytest

from perfci.model import Interval, Stage, TailVerdict, VerdictKind
from perfci.report.verdict_text import (
    is_tail_moved_alone,
    rank_verdicts_by_severity,
    tail_cell,
    tail_phrase,
    verdict_counts_sentence,
    verdict_sentence,
)
from tests.support.report_builders import (
    a_series,
    a_verdict,
    one_verdict_per_kind,
)


def test_a_regression_says_by_how_much_and_how_noisy() -> None:
    assert verdict_sentence(a_verdict()) == (
        "train.time_step got 18.3 % slower [15.9, 20.8], 10 pairs; noise floor 1.2 %"
    )


def test_every_kind_has_its_sentence() -> None:
    assert [verdict_sentence(verdict) for verdict in one_verdict_per_kind()[1:]] == [
        "memory.peakmem_step needs 20.0 % less memory [17.0, 22.0], 10 pairs; noise floor 1.2 %",
        "train.time_data unchanged: +0.3 % [−0.9, +1.4], 10 pairs; minimum detectable effect 2.1 %",
        "inconclusive: serve.track_tokens(8) · throughput −3.1 % [−7.5, +1.2], 10 pairs; "
        "about 14 more pairs would decide",
        "serve.time_first_token is not comparable: the driver changed from 550 to 560",
        "serve.time_new was not measured on both sides: the benchmark is new at head",
        "train.time_compiled failed at 0012001200: RuntimeError: @team broke | `it`",
    ]


@pytest.mark.parametrize(
    ("benchmark", "unit", "metric", "head", "says"),
    [
        (
            "Gpt.measure_step_counts",
            "count",
            "host_syncs",
            52.0,
            ": 52 waits for the device per step (none before)",
        ),
        ("Gpt.measure_step_counts", "count", "graph_breaks", 1.0, ": 1 graph break per step (none before)"),
        ("Gpt.measure_stream_counts", "count", "recompiles", 3.0, ": 3 recompiles per request (none before)"),
        (
            "Gpt.track_own",
            "bytes",
            "upcast_bytes",
            4096.0,
            ": 4.000 KiB converted to a wider type (none before)",
        ),
        ("Gpt.track_own", "bytes", "copied_to_device_bytes", 1.0, ": 1 B copied to the device (none before)"),
        (
            "Gpt.track_own",
            "bytes",
            "pageable_copy_bytes",
            1.0,
            ": 1 B copied from pageable memory (none before)",
        ),
        (
            "Gpt.track_own",
            "bytes",
            "blocking_copy_bytes",
            1.0,
            ": 1 B copied while the host waits (none before)",
        ),
        ("Gpt.track_own", "count", "kernel_launches", 52.0, " went from none to 52 (worse)"),
    ],
)
def test_a_count_that_appears_says_what_is_counted(
    benchmark: str, unit: str, metric: str, head: float, says: str
) -> None:
    series = a_series(benchmark, unit, metric)
    verdict = a_verdict(series=series, ratio=None, interval=None)

    sentence = verdict_sentence(replace(verdict, base_level=0.0, head_level=head))

    assert sentence == f"{benchmark} · {metric}{says}, counted exactly"


def test_a_reason_is_not_cut_at_the_length_of_a_name() -> None:
    reason = "the interval is " + "too close to the threshold for more pairs to decide, " * 3
    verdict = replace(a_verdict(kind=VerdictKind.INCONCLUSIVE), reason=reason, pairs_to_decide=None)

    assert verdict_sentence(verdict).endswith(reason)


def test_a_large_factor_is_no_percentage() -> None:
    verdict = a_verdict(ratio=7.49, interval=(7.1, 7.9))

    assert verdict_sentence(verdict).startswith(
        "train.time_step takes 7.49 times as long [7.1, 7.9], 10 pairs"
    )


def test_more_of_a_good_thing_is_better() -> None:
    throughput = a_series("serve.track_tokens", "tokens/s", "throughput", "higher")
    verdict = a_verdict(VerdictKind.IMPROVEMENT, 1.2, (1.1, 1.3), series=throughput)

    assert "rose 20.0 % (better) [10.0, 30.0]" in verdict_sentence(verdict)


def test_a_candidate_is_marked_as_not_confirmed() -> None:
    assert "not yet confirmed on new pairs" in verdict_sentence(a_verdict(stage=Stage.SCREENING))


def test_an_interval_around_no_change_keeps_its_signs() -> None:
    assert "slower [−1.0, +20.8]" in verdict_sentence(a_verdict(interval=(0.99, 1.208)))


def test_an_inconclusive_verdict_without_a_plan_says_why() -> None:
    assert verdict_sentence(a_verdict(VerdictKind.INCONCLUSIVE)).endswith(
        "no practical number of pairs would decide it"
    )
    assert verdict_sentence(a_verdict(VerdictKind.INCONCLUSIVE, reason="two modes")).endswith("; two modes")


def test_a_hostile_name_writes_no_control_characters() -> None:
    sentence = verdict_sentence(a_verdict(series=a_series("evil\x1b[2J\n\u202egnp")))

    assert sentence.startswith("evil�[2J��gnp got")


def test_candidates_are_counted_apart_from_confirmed_changes() -> None:
    verdicts = [a_verdict(), a_verdict(stage=Stage.SCREENING), a_verdict(stage=Stage.SCREENING)]

    assert verdict_counts_sentence(verdicts) == "1 regression, 2 candidate regressions"


def test_the_severest_verdict_leads() -> None:
    assert [
        verdict.kind.value for verdict in rank_verdicts_by_severity(reversed(one_verdict_per_kind()))
    ] == [
        "failed",
        "regression",
        "inconclusive",
        "not_comparable",
        "missing",
        "improvement",
        "unchanged",
    ]


TAILS = [
    TailVerdict(VerdictKind.REGRESSION, 1.22, Interval(1.141, 1.303)),
    TailVerdict(VerdictKind.IMPROVEMENT, 0.8, Interval(0.75, 0.86)),
    TailVerdict(VerdictKind.UNCHANGED, 1.004, Interval(0.97, 1.04)),
    TailVerdict(VerdictKind.INCONCLUSIVE, 1.04, Interval(0.95, 1.139)),
    TailVerdict(VerdictKind.INCONCLUSIVE, 1.04),
]


def test_a_tail_stands_beside_the_median_in_words_and_in_tables() -> None:
    metric = a_series().metric
    throughput = a_series(metric="throughput", unit="tokens/s", direction="higher").metric

    assert [tail_phrase(tail, metric) for tail in TAILS] == [
        "p90 got 22.0 % slower [14.1, 30.3]",
        "p90 got 20.0 % faster [14.0, 25.0]",
        "p90 unchanged: +0.4 % [−3.0, +4.0]",
        "p90 inconclusive: +4.0 % [−5.0, +13.9]",
        "p90 inconclusive: +4.0 %",
    ]
    assert tail_phrase(replace(TAILS[0], ratio=0.8), throughput).startswith("p10 fell 20.0 % (worse) [")
    assert [tail_cell(replace(a_verdict(), tail=tail)) for tail in (*TAILS, None)] == [
        "p90 ▲ worse +22.0 % [+14.1, +30.3]",
        "p90 ▼ better −20.0 % [−25.0, −14.0]",
        "p90 ≈ +0.4 % [−3.0, +4.0]",
        "p90 ? +4.0 % [−5.0, +13.9]",
        "p90 ? +4.0 %",
        "",
    ]


def test_a_sentence_has_both_effects_side_by_side() -> None:
    assert verdict_sentence(replace(a_verdict(), tail=TAILS[0])) == (
        "train.time_step got 18.3 % slower [15.9, 20.8], 10 pairs; p90 got 22.0 % slower [14.1, 30.3]; "
        "noise floor 1.2 %"
    )
    inconclusive = a_verdict(VerdictKind.INCONCLUSIVE, 1.03, (0.99, 1.07), pairs_to_decide=4)
    assert verdict_sentence(replace(inconclusive, tail=TAILS[2])) == (
        "inconclusive: train.time_step +3.0 % [−1.0, +7.0], 10 pairs; p90 unchanged: +0.4 % [−3.0, +4.0]; "
        "about 4 more pairs would decide"
    )


def test_a_tail_moved_alone_where_the_median_did_not_move_the_same_way() -> None:
    same, other, open_median = (
        replace(a_verdict(kind), tail=TAILS[0])
        for kind in (VerdictKind.REGRESSION, VerdictKind.IMPROVEMENT, VerdictKind.INCONCLUSIVE)
    )

    assert [is_tail_moved_alone(verdict) for verdict in (same, other, open_median, a_verdict())] == [
        False,
        True,
        True,
        False,
    ]
