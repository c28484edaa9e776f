"""Attention of a real torch model by two implementations and a wrong one, from the command line to the last
word.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject

MODEL = """
    import math
    from torch.nn.functional import scaled_dot_product_attention

    def sdpa(q, k, v):
        return scaled_dot_product_attention(q, k, v)

    def by_hand(q, k, v, scale=1 / 8):
        return (q @ k.mT * scale).softmax(dim=-1) @ v

    def unscaled(q, k, v):
        return by_hand(q, k, v, scale=1.0)
"""
SUITE = """
    import model
    import torch
    from perfci.bench import Bench, Measurement, Metric, exact, metrics, peak_tensor_bytes, informational
    from perfci.bench.parity import NumericsRecord, check_parity, default_tolerance
    from perfci.bench.timers.timed_blocks import time_blocks

    class Attention(Bench):
        params = (["sdpa", "by_hand", "unscaled"], [96])
        param_names = ("attn", "length")

        @metrics(
            Metric("forward_time", "seconds"),
            Metric("peak_tensor_bytes", "bytes"),
            Metric("loss", "loss"),
        )
        def measure_forward(self, attn, length):
            torch.manual_seed(0)
            inputs = [torch.randn(1, 4, length, 64) for _ in range(3)]
            def forward(): return getattr(model, attn)(*inputs)
            right = NumericsRecord((), outputs=model.sdpa(*inputs))
            check_parity(NumericsRecord((), outputs=forward()), right, default_tolerance("fp32"))
            timing = time_blocks(forward, warmup_s=0.02, budget_s=0.05)
            loss = exact(float(forward().square().mean()))
            peak = exact(peak_tensor_bytes(forward))
            readings = {"forward_time": timing.reading(), "peak_tensor_bytes": peak, "loss": loss}
            return Measurement(readings, flags=timing.flags)
"""
CONFIG = """
    [judge]
    max_pairs = 5

    [[goal]]
    name = "lean"
    require = ["peak_tensor_bytes <= 1x", "loss within 0.1%"]
"""


@pytest.mark.slow
def test_judges_two_implementations_and_rejects_a_wrong_one(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    GitProject(working_folder).commit(
        "Attention", model=MODEL, benchmarks__suite=SUITE, **{"perfci.toml": CONFIG}
    )

    code = run_cli(
        ["compare", "--vary", "attn=sdpa,by_hand,unscaled", "--at", "HEAD", "--json", "result.json"]
    )

    document = json.loads((working_folder / "result.json").read_text())
    kinds = {
        verdict["verdict"]["series"]["metric"]["name"]: verdict["verdict"]["kind"]
        for verdict in document["verdicts"]
    }
    out = capsys.readouterr().out
    assert code == 1
    assert kinds.keys() == {"cpu_forward_time", "peak_tensor_bytes"}
    assert kinds["peak_tensor_bytes"] == "regression"
    assert [item["parameters"][0][1] for item in document["rejected"]] == ["'unscaled'"]
    assert "✕ suite.Attention('unscaled', 96) is rejected, whatever its speed: outputs are up to " in out
    assert "≈  by_hand agrees with the baseline in loss" in out
    assert [(goal["subject"], goal["outcome"]) for goal in document["goals"]] == [
        ("attn=by_hand", "broken"),
        ("attn=unscaled", "rejected"),
    ]
