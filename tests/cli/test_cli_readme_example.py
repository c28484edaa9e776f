"""The ten-line example of the README, in a repository that holds nothing but a torch module."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from perfci.cli import run_cli
from tests.support.git_project import GitProject

README = Path(__file__).parents[2] / "README.md"
MODULE = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(256, 16)
            self.head = nn.Linear(16, 256)

        def forward(self, tokens):
            return self.head(self.tokens(tokens))

        def generate(self, tokens, count):
            for _ in range(count):
                token = self(tokens)[:, -1:].argmax(dim=-1)
                tokens = torch.cat([tokens, token], dim=1)
                yield token
"""


def ten_lines() -> str:
    (block,) = [
        text for text in re.findall(r"```python\n(.*?)```", README.read_text(), re.S) if "ModelBench" in text
    ]
    return str(block)


@pytest.mark.slow
def test_the_readme_example_measures_every_metric_group(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    project.commit("A network", mymodel=MODULE)
    (working_folder / "benchmarks").mkdir()
    (working_folder / "benchmarks" / "mine.py").write_text(ten_lines())

    code = run_cli(["run", "--smoke", "--rounds", "1", "--bench", r"\(1, 'bf16'\)"])
    capsys.readouterr()
    run_cli(["export", "--format", "csv"])

    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    measured = {(row["benchmark"].rpartition("_")[2], row["metric"]) for row in rows if row["status"] == "ok"}
    assert code == 0
    assert {
        ("training", "step_time"),
        ("training", "cpu_step_time"),
        ("training", "data_stall"),
        ("counts", "flops"),
        ("counts", "host_syncs"),
        ("numerics", "loss_at_step_k"),
        ("generation", "ttft"),
        ("generation", "tpot"),
        ("generation", "itl"),
        ("generation", "e2el"),
        ("stages", "prefill"),
        ("stages", "decode_share"),
        ("start", "cold_start_time"),
    } <= measured
    assert {row["status"] for row in rows} == {"ok", "skipped"}
