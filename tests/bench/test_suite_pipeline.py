"""The pipeline suite ends in time at real sizes, and loads the model it saved."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_serving_has_the_time_its_requests_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.pipeline import Serving, plan_serving_seconds
    from benchmarks.workload_sizes import PIPELINE
    from perfci.bench.streams.serving import poisson_arrivals

    slowest = max(poisson_arrivals(1.0, 662))

    assert slowest > 600
    assert plan_serving_seconds([1.0, 4.0], 662) > 2 * slowest
    assert Serving.timeout == plan_serving_seconds(PIPELINE.rates, PIPELINE.served_requests)


def test_loading_keeps_the_head_tied_to_the_embedding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.pipeline import Stages
    from benchmarks.workload_sizes import SIZES

    monkeypatch.chdir(tmp_path)
    stages = Stages()
    stages.setup("warm", SIZES.name)

    model = stages.build({"disk": "warm", "sizes": SIZES.name})

    assert model.head.weight is model.tokens.weight
