"""Find what variants and ablations cost beside what they gain, whether or not a goal asks for it."""

from __future__ import annotations

from perfci.measure.compare_variants import VariantComparison
from perfci.measure.measure_ablation_steps import AblationResult
from perfci.verdicts.goals.tradeoffs import Tradeoff, find_tradeoffs


def find_variant_tradeoffs(comparison: VariantComparison) -> list[Tradeoff]:
    """Every speedup of a variant that costs memory or a slower start, whether or not a goal asks for it."""
    return find_tradeoffs(
        [contrast.verdict for contrast in comparison.variants.contrasts],
        comparison.variant_session.policy.metric_class_of,
    )


def find_ablation_tradeoffs(ablation: AblationResult) -> list[Tradeoff]:
    """What the last good step of each ablation costs beside what it gains."""
    return find_tradeoffs(
        [verdict for result in ablation.ablations for verdict in result.total_verdicts],
        ablation.variant_session.policy.metric_class_of,
    )
