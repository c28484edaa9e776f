"""Variants and ablations as text, as a whole."""

from __future__ import annotations

from dataclasses import replace

from perfci.model import Commit, Interval, TailVerdict, Verdict, VerdictKind
from perfci.report.ablation_text import format_ablation, render_ablations_markdown
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.pull_comment import render_pull_comment
from perfci.report.variant_text import build_contrast_verdict, format_variants
from perfci.verdicts.goals.tradeoffs import Tradeoff
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.variants.numeric_parity import NumericsCheck, ParityOutcome
from perfci.verdicts.variants.stepwise_ablation import Ablation, AblationStep
from perfci.verdicts.variants.variant_contrast import VariantContrast, VariantRejection, VariantResults
from tests.support.report_builders import EXPECTED, a_series, a_verdict

NAME = "model.Gpt.measure_training"
BASE = (("attn", "'sdpa'"), ("batch", "8"))


def contrast(
    metric: str, unit: str, attn: str, ratio: float, lo: float, hi: float, kind: VerdictKind
) -> VariantContrast:
    series = a_series(NAME, unit, metric, attn=f"'{attn}'", batch=8)
    before = 0.012 if unit == "seconds" else 2.0**30
    pairs_to_decide = 14 if kind is VerdictKind.INCONCLUSIVE else None
    verdict = a_verdict(
        kind, ratio, (lo, hi), series=series, levels=(before, before * ratio), pairs_to_decide=pairs_to_decide
    )
    return VariantContrast(BASE, verdict)


def numerics(attn: str, parity: ParityOutcome, text: str = "") -> NumericsCheck:
    return NumericsCheck(a_series(NAME, "loss", "loss_at_step_k", attn=f"'{attn}'", batch=8), parity, text)


def variants() -> VariantResults:
    faster = contrast("cpu_step_time", "seconds", "flash", 0.7, 0.69, 0.71, VerdictKind.IMPROVEMENT)
    larger = contrast("peak_allocated", "bytes", "flash", 1.125, 1.125, 1.125, VerdictKind.REGRESSION)
    unsure = contrast("cpu_step_time", "seconds", "math", 1.04, 0.98, 1.1, VerdictKind.INCONCLUSIVE)
    wrong = VariantRejection(
        NAME, (("attn", "'wrong'"), ("batch", "8")), "loss at step 2 is 2.4 against 2.2 of the reference"
    )
    held = (
        numerics("flash", ParityOutcome.AGREES),
        numerics("math", ParityOutcome.UNDECIDED, "loss_at_step_k is 2.21 against 2.2"),
    )
    return VariantResults(("attn",), (faster, larger, unsure), (wrong,), held)


def trades(comparison: VariantResults) -> list[Tradeoff]:
    return [Tradeoff(comparison.contrasts[0].verdict, comparison.contrasts[1].verdict)]


def test_puts_every_variant_next_to_the_baseline_benchmark_by_benchmark() -> None:
    comparison = variants()

    assert format_variants(comparison, trades(comparison)) == (
        "1 regression, 1 inconclusive, 1 improvement, 1 variant rejected.\n"
        "\n"
        "✕ model.Gpt('wrong', 8) is rejected, whatever its speed: "
        "loss at step 2 is 2.4 against 2.2 of the reference\n"
        "\n"
        "model.Gpt.measure_training, batch=8\n"
        "     metric          variant       base       head   change   95 % interval  pairs  verdict\n"
        "  ▼  cpu_step_time   flash     12.00 ms   8.400 ms  −30.0 %  [−31.0, −29.0]     10  improvement\n"
        "  ?  cpu_step_time   math      12.00 ms   12.48 ms   +4.0 %   [−2.0, +10.0]     10"
        "  inconclusive: about 14 more pairs would decide\n"
        "  ▲  peak_allocated  flash    1.000 GiB  1.125 GiB  +12.5 %           exact     10  regression\n"
        "  ≈  flash agrees with the baseline in loss_at_step_k\n"
        "  ?  math, undecided: loss_at_step_k is 2.21 against 2.2\n"
        "\n"
        "⇄ trade-off at model.Gpt('flash', 8): cpu_step_time got 30.0 % faster, "
        "but peak_allocated needs 12.5 % more memory\n"
    )


def test_a_variant_shows_what_its_tail_did() -> None:
    comparison = variants()
    first = comparison.contrasts[0]
    tail = TailVerdict(VerdictKind.IMPROVEMENT, 0.6, Interval(0.55, 0.66))
    with_tail = replace(first, verdict=replace(first.verdict, tail=tail))

    text = format_variants(replace(comparison, contrasts=(with_tail, *comparison.contrasts[1:])))

    assert "  −30.0 %  [−31.0, −29.0]  p90 ▼ better −40.0 % [−45.0, −34.0]     10  improvement\n" in text


def test_a_verdict_between_variants_names_both_sides() -> None:
    verdict = build_contrast_verdict(variants().contrasts[0])

    assert verdict.series.label == "model.Gpt.measure_training('sdpa' → 'flash', 8) · cpu_step_time"


def test_rejections_stand_above_the_comparison_in_a_comment() -> None:
    comparison = variants()
    verdicts = [build_contrast_verdict(contrast) for contrast in comparison.contrasts]

    lines = render_pull_comment(
        Findings(verdicts, Commit("ab" * 20), Commit("ab" * 20), rejections=comparison.rejections)
    ).splitlines()

    rejection = "- ✕ rejected: `model.Gpt('wrong', 8)`: `loss at step 2 is 2.4 against 2.2 of the reference`"
    assert "1 variant rejected" in lines[0]
    assert lines.index(rejection) < next(k for k, line in enumerate(lines) if line.startswith("|"))


def step(
    metric: str, unit: str, ratio: float, half_width: float, levels: tuple[float, float], rounds: int = 10
) -> Verdict:
    kind = VerdictKind.IMPROVEMENT if ratio < 0.97 else VerdictKind.REGRESSION
    series = a_series(NAME, unit, metric)
    return a_verdict(
        kind, ratio, (ratio - half_width, ratio + half_width), series=series, levels=levels, pairs=rounds
    )


def build_ablation() -> Ablation:
    gib = 2.0**30
    bf16 = (
        step("peak_allocated", "bytes", 0.5, 0.0, (2 * gib, gib)),
        step("cpu_step_time", "seconds", 0.65, 0.01, (0.012, 0.0078)),
    )
    checkpointing = (
        step("peak_allocated", "bytes", 0.75, 0.0, (gib, 0.75 * gib)),
        step("cpu_step_time", "seconds", 1.2, 0.02, (0.0078, 0.00936)),
    )
    total = (
        step("peak_allocated", "bytes", 0.375, 0.0, (2 * gib, 0.75 * gib)),
        step("cpu_step_time", "seconds", 0.78, 0.015, (0.012, 0.00936)),
    )
    steps = (
        AblationStep("baseline", ()),
        AblationStep("+bf16", (), bf16, "baseline"),
        AblationStep(
            "+flash", (), rejection_reason="rejected: fails parity, loss_at_step_k is 2.4 against 2.2"
        ),
        AblationStep("+checkpointing", (), checkpointing, "+bf16"),
    )
    return Ablation("memory first", NAME, (("batch", "8"),), steps, total)


EXPECTED_TEXT = (EXPECTED / "ablation.txt").read_text()


def test_an_ablation_lists_each_step_and_the_total_for_time_and_memory() -> None:
    assert format_ablation(build_ablation(), Policy()) == EXPECTED_TEXT


def test_an_ablation_keeps_its_columns_in_a_comment() -> None:
    assert (
        render_ablations_markdown([build_ablation()], Policy())
        == f"### ablation `memory first`\n\n```\n{EXPECTED_TEXT}```\n"
    )


def test_an_ablation_without_two_accepted_steps_says_so() -> None:
    ablation = Ablation(
        "short",
        NAME,
        (),
        (AblationStep("baseline", ()), AblationStep("+bf16", (), rejection_reason="oom: CUDA out of memory")),
    )

    assert format_ablation(ablation, Policy()) == (
        "ablation short: model.Gpt.measure_training\n"
        "\n"
        "✕ +bf16 oom: CUDA out of memory\n"
        "fewer than two steps can be compared\n"
    )
