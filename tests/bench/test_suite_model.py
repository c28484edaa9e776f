"""The model of the reference suites computes what a GPT computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


def test_the_kv_cache_changes_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.gpt_model import GPT, ModelCache, decode, prefill
    from benchmarks.workload_sizes import SMOKE

    torch.manual_seed(0)
    model = GPT(SMOKE).eval()
    prompt = torch.randint(SMOKE.vocab, (3, 20))
    cache = ModelCache(SMOKE, "cpu", batch=3, length=28)

    with torch.no_grad():
        first = prefill(model, prompt, cache)
        cached = torch.cat([first, decode(model, first, cache, 7)], dim=1)
        tokens = prompt
        for _ in range(8):
            tokens = torch.cat([tokens, model(tokens)[:, -1].argmax(dim=-1, keepdim=True)], dim=1)

    assert torch.equal(cached, tokens[:, 20:])


def test_no_token_attends_to_a_later_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.gpt_model import GPT
    from benchmarks.workload_sizes import SMOKE

    torch.manual_seed(0)
    model = GPT(SMOKE)
    tokens = torch.randint(SMOKE.vocab, (1, 12))
    changed = tokens.clone()
    changed[0, -1] = (changed[0, -1] + 1) % SMOKE.vocab

    with torch.no_grad():
        before, after = model(tokens), model(changed)

    assert torch.allclose(before[:, :-1], after[:, :-1], atol=1e-5)
    assert not torch.allclose(before[:, -1], after[:, -1], atol=1e-5)


@pytest.mark.parametrize("kind", ["math", "flash", "hand-written"])
@pytest.mark.parametrize("kv_heads", [4, 1])
def test_attention_kernels_compute_the_same(
    kind: str, kv_heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.attention_kernels import attend

    torch.manual_seed(0)
    query = torch.randn(2, 4, 24, 16)
    key, value = torch.randn(2, 2, kv_heads, 24, 16)

    expected = attend("automatic", query, key, value, causal=True)

    assert torch.allclose(attend(kind, query, key, value, causal=True), expected, atol=1e-5)


@pytest.mark.parametrize(("name", "hidden"), [("window-8", 0.77), ("blocks-50", 0.5), ("blocks-90", 0.87)])
def test_a_sparse_mask_hides_what_its_name_says_and_never_all_of_a_row(
    name: str, hidden: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.attention_kernels import sparse_mask

    mask = sparse_mask(name, 64)

    assert 1 - float(mask.sum()) / (64 * 65 / 2) == pytest.approx(hidden, abs=0.05)
    assert bool(mask.diagonal().all())
    assert not bool(mask.triu(1).any())


def test_shared_heads_and_swiglu_cost_fewer_parameters_or_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.gpt_model import GPT, Architecture
    from benchmarks.workload_sizes import SMOKE

    def count(architecture: Architecture) -> int:
        return sum(parameter.numel() for parameter in GPT(SMOKE, architecture=architecture).parameters())

    baseline = count(Architecture())
    head_width, layers = SMOKE.width // SMOKE.heads, SMOKE.layers
    saved = layers * 2 * (SMOKE.heads - 1) * head_width * (SMOKE.width + 1)
    assert count(Architecture(kv_heads=1)) == baseline - saved
    assert count(Architecture(feedforward="swiglu")) == pytest.approx(baseline, rel=0.01)
    assert count(Architecture(expansion=3)) < baseline


def test_one_process_sends_as_many_requests_as_a_p99_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.generation import GenerateTail
    from perfci.bench.streams.request_metrics import parse_sla, required_percentile_samples

    assert GenerateTail.requests >= required_percentile_samples(0.99)
    assert [objective.name for objective in parse_sla(GenerateTail.sla)] == ["e2el_p99"]
    assert dict(zip(GenerateTail.param_names, GenerateTail.params, strict=True))["precision"] == ["bf16"]


def test_compiled_blocks_answer_prompts_of_any_length_without_a_graph_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from torch._dynamo.utils import counters

    from benchmarks.gpt_model import GPT, ModelCache, decode, prefill
    from benchmarks.workload_sizes import SMOKE

    torch._dynamo.reset()
    counters.clear()
    model = GPT(SMOKE).eval()
    for block in model.blocks:
        block.compile(backend="eager")
    with torch.no_grad():
        for length in (8, 12, 16):
            cache = ModelCache(SMOKE, "cpu", batch=1, length=32)
            decode(model, prefill(model, torch.zeros(1, length, dtype=torch.long), cache), cache, 2)

    assert not counters["graph_break"]
    torch._dynamo.reset()
    counters.clear()
