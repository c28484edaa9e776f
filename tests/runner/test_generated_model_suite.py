"""The module that [[model]] tables become."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from perfci.config import ModelTable
from perfci.runner.generated_model_suite import render_models_module

HOOKS = """
from torch import nn, ones, optim

def build(p):
    return nn.Linear(4, 4)

def loader(p):
    return [ones(2, 4)] * 40

def optimizer(model, p):
    return optim.SGD(model.parameters(), lr=0.1)

def step(model, batch, optimizer, *, device):
    loss = model(batch.to(device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""


def test_a_table_may_name_a_loader_and_a_whole_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_hooks.py").write_text(HOOKS)
    names = {hook: f"own_hooks:{hook}" for hook in ("build", "loader", "optimizer", "step")}
    (tmp_path / "own_models.py").write_text(render_models_module([ModelTable(name="net", **names)]))
    monkeypatch.syspath_prepend(tmp_path)
    import own_models

    report: Any = own_models.net().measure_numerics()

    losses = [row["samples"][0] for row in report["metrics"] if row["name"] == "loss_at_step_k"]
    assert losses[0] > 0
    sys.modules.pop("own_models")
