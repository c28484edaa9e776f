"""Variants of the GPT against a baseline: what each costs per step, and how well it learns.

Fewer heads of keys and values, a narrower feed-forward part and SwiGLU compute something else than the
baseline, so that their parity is a validation loss. Attention kernels compute the same and have to agree.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from perfci.bench import Bench, Clock, Measurement, Metric, ModelBench, Reading, exact, informational, metrics
from perfci.bench.parity import ParityFailed

from .attention_kernels import ATTENTIONS, require_attention, sparse_mask
from .gpt_model import BASELINE, GPT, Architecture
from .training import next_token_loss, random_text
from .workload_sizes import (
    DEVICE,
    DTYPES,
    LEARNING,
    SIZES,
    TRAINING,
    Sizes,
    declare_cost,
    seed_and_pin_threads,
)

VARIANTS = ["baseline", "grouped-query", "multi-query", "expansion-3", "swiglu", "multi-query-swiglu"]
SPARSE_MASKS = ["window-16", "window-4", "blocks-50", "blocks-75", "blocks-90"]

WORST_LOSS_RATIO = 1.05
"""A variant whose validation loss is 5 % above the baseline's is rejected: seeds differ by about 1 %."""


def variant_architecture(name: str, sizes: Sizes) -> Architecture:
    """The architecture of a variant in a model of these sizes: grouped queries share half of the heads."""
    return {
        "baseline": BASELINE,
        "grouped-query": Architecture(kv_heads=sizes.heads // 2),
        "multi-query": Architecture(kv_heads=1),
        "expansion-3": Architecture(expansion=3),
        "swiglu": Architecture(feedforward="swiglu"),
        "multi-query-swiglu": Architecture(kv_heads=1, feedforward="swiglu"),
    }[name]


class _GPTStep(ModelBench):
    """A training step of a GPT on random tokens, by hooks that the variants share."""

    precision_name = "fp32" if DEVICE == "cpu" else "bf16"

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return random_text(SIZES, SIZES.batches[0], seed=i).to(self.device)

    def loss(self, model: GPT, batch: Tensor) -> Tensor:
        return next_token_loss(model, batch)

    def precision(self, p: Mapping[str, Any]) -> str:
        return self.precision_name

    def tokens_per_batch(self, p: Mapping[str, Any]) -> int:
        return SIZES.batches[0] * SIZES.length


class ArchitectureStep(_GPTStep):
    """Step time, tokens/s, MFU and peak memory of every architecture: see ``ValidationLoss`` for its loss."""

    cost_s = declare_cost(smoke=2, real=14)
    default_suite = {"variant": ["multi-query-swiglu"]}
    params = {"variant": VARIANTS, "sizes": [SIZES.name]}
    groups = ("training", "step_counts")
    budget_s = TRAINING.budget_s

    def build(self, p: Mapping[str, Any]) -> GPT:
        return GPT(SIZES, architecture=variant_architecture(p["variant"], SIZES)).to(self.device)


class AttentionStep(_GPTStep):
    """The same step with each attention kernel; one that computes something else is rejected."""

    cost_s = declare_cost(smoke=2, real=14)
    default_suite = False
    params = {"attention": list(ATTENTIONS), "sizes": [SIZES.name]}
    groups = ("training",)
    reference = {"attention": "automatic"}
    budget_s = TRAINING.budget_s

    def build(self, p: Mapping[str, Any]) -> GPT:
        require_attention(p["attention"], dtype=DTYPES[self.precision_name], device=self.device)
        return GPT(SIZES, architecture=Architecture(attention=p["attention"])).to(self.device)


class ValidationLoss(Bench):
    """How well each architecture learns: the loss on texts it never saw, the median of a few seeds."""

    cost_s = declare_cost(smoke=2.6, real=15)
    default_suite = {"variant": ["multi-query-swiglu"]}
    params = ([name for name in VARIANTS if name != "baseline"], [SIZES.name])
    param_names = ("variant", "sizes")

    @metrics(
        Metric("validation_loss", "loss"),
        Metric("baseline_loss", "loss"),
        Metric("loss_ratio", "ratio"),
        Metric("parameters", "count"),
    )
    def measure_validation_loss(self, variant: str, sizes: str) -> Measurement:
        architecture = variant_architecture(variant, LEARNING.model)
        readings = compare_learning(architecture)
        model = GPT(LEARNING.model, architecture=architecture)
        readings["parameters"] = exact(sum(parameter.numel() for parameter in model.parameters()))
        (ratio,) = readings["loss_ratio"].samples
        if ratio > WORST_LOSS_RATIO:
            raise ParityFailed(
                f"{variant} learns worse than the baseline: its validation loss is {ratio:.3f} times that, "
                f"allowed are {WORST_LOSS_RATIO}"
            )
        return Measurement(readings)


class SparseAttentionLoss(Bench):
    """What a sparse mask costs in accuracy: the validation loss of a model that is trained under it."""

    cost_s = declare_cost(smoke=5.1, real=15)
    default_suite = False
    params = (SPARSE_MASKS, [SIZES.name])
    param_names = ("mask", "sizes")

    @metrics(
        Metric("validation_loss", "loss"),
        Metric("baseline_loss", "loss"),
        Metric("loss_ratio", "ratio"),
        Metric("hidden_share", "ratio", "higher"),
    )
    def measure_sparse_loss(self, mask: str, sizes: str) -> Measurement:
        length = LEARNING.model.length
        shown = float(sparse_mask(mask, length).sum()) / (length * (length + 1) / 2)
        readings = compare_learning(Architecture(attention=mask))
        return Measurement({**readings, "hidden_share": informational(1 - shown)})


def compare_learning(architecture: Architecture) -> dict[str, Reading]:
    """Train a model of this architecture and a baseline on the same texts, from the same seeds."""
    losses = [learn_topics(architecture, seed) for seed in range(LEARNING.seeds)]
    baseline = [learn_topics(BASELINE, seed) for seed in range(LEARNING.seeds)]
    ratio = statistics.median(losses) / statistics.median(baseline)
    return {
        "validation_loss": Reading((statistics.median(losses),), Clock.VALUE),
        "baseline_loss": informational(statistics.median(baseline)),
        "loss_ratio": informational(ratio),
    }


def learn_topics(architecture: Architecture, seed: int) -> float:
    """Train for ``LEARNING.validated_steps`` steps; return the loss on texts of another seed."""
    seed_and_pin_threads()
    torch.manual_seed(seed)
    model = GPT(LEARNING.model, architecture=architecture).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING.rate, fused=True)
    drawn = torch.Generator().manual_seed(1000 + seed)
    for _ in range(LEARNING.validated_steps):
        optimizer.zero_grad(set_to_none=True)
        next_token_loss(model, generate_topic_text(LEARNING.model, 16, drawn)).backward()
        optimizer.step()
    unseen = generate_topic_text(LEARNING.model, 512, torch.Generator().manual_seed(7))
    with torch.no_grad():
        loss = float(next_token_loss(model, unseen))
    if not math.isfinite(loss):
        raise ParityFailed(f"the validation loss of seed {seed} is {loss}")
    return loss


def generate_topic_text(sizes: Sizes, rows: int, drawn: torch.Generator) -> Tensor:
    """(rows, length + 1) tokens; each text has one of 16 topics, that says how frequent every token is.

    The more of a text a model sees, the better it knows the topic: attention that sees less foretells less.
    """
    topics = topic_frequencies(sizes.vocab)
    chosen = torch.randint(len(topics), (rows,), generator=drawn)
    text = torch.multinomial(topics[chosen], sizes.length + 1, replacement=True, generator=drawn)
    return text.to(DEVICE)


@functools.lru_cache(maxsize=2)
def topic_frequencies(vocabulary: int) -> Tensor:
    """(16, vocabulary), rows that add up to one, the same in every process."""
    drawn = torch.Generator().manual_seed(0)
    return (1.5 * torch.randn(16, vocabulary, generator=drawn)).softmax(dim=1)
