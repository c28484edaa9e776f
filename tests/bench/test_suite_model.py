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
