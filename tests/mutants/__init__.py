"""A small language model with its suite, and one careless change at a time: which metrics have to say so.

``base/`` is the repository before the change, ``<name>.patch`` the change. Metrics are named by the
measuring function and themselves, ``training.step_time``, whichever clock judges them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Mutant:
    """``caught_in`` has to be confirmed as a regression. ``may_move``, for the reason given, may; nothing
    else does.
    """

    name: str
    caught_in: frozenset[str]
    may_move: Mapping[str, str] = field(default_factory=dict)

    @property
    def patch(self) -> Path:
        return HERE / f"{self.name}.patch"


def _all(names: str, reason: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


MUTANTS = (
    Mutant(
        "cache-dropped",
        frozenset(
            {
                "generation.tpot",
                "generation.tpot_growth",
                "generation.itl",
                "generation.itl_per_token",
                "generation.e2el",
                "stages.decode",
                "stream_counts.flops",
            }
        ),
        {
            **_all("stages.first_call", "the first call generates all tokens too"),
            **_all("stream_counts.peak_tensor_bytes", "a whole text at once takes more room than one token"),
            **_all("stream_counts.operators", "joining the text is an operator"),
            **_all("stream_counts.instructions", "computing again takes instructions"),
        },
    ),
    Mutant(
        "loss-read",
        # Dynamo gives the code back to Python where Python needs a value.
        frozenset({"step_counts.host_syncs", "step_counts.graph_breaks"}),
    ),
    Mutant("pageable-copy", frozenset({"copy.pageable_copy_bytes"})),
    Mutant(
        "loader-starved",
        frozenset({"loader.data_time", "loader.data_stall"}),
        _all("loader.loader_startup", "no worker has to start"),
    ),
    Mutant(
        "math-attention",
        frozenset(
            {
                "training.step_time",
                "training.forward_time",
                "training.backward_time",
                "step_counts.operators",
                "step_counts.peak_tensor_bytes",
                "step_counts.fake_peak_bytes",
                "stream_counts.operators",
            }
        ),
        {
            **_all(
                "generation.ttft generation.tpot generation.tpot_growth generation.itl "
                "generation.itl_per_token "
                "generation.e2el stages.first_call stages.prefill stages.decode",
                "answers use attention as well",
            ),
            **_all("stream_counts.peak_tensor_bytes", "scores are kept as a whole"),
            **_all(
                "step_counts.instructions stream_counts.instructions", "more operators take more instructions"
            ),
            **_all("numerics.loss_at_step_k", "another order of summation rounds differently"),
        },
    ),
    Mutant("graph-break", frozenset({"step_counts.graph_breaks"})),
    Mutant(
        "checkpointing-off",
        frozenset({"step_counts.peak_tensor_bytes", "step_counts.fake_peak_bytes"}),
        _all(
            "step_counts.flops step_counts.operators step_counts.instructions training.step_time "
            "training.forward_time training.backward_time",
            "what is kept is not computed again",
        ),
    ),
    Mutant("master-copy", frozenset({"step_counts.optimizer_state_bytes", "step_counts.fake_peak_bytes"})),
)


def write_base(folder: Path) -> None:
    """Write the files of the repository before any change."""
    shutil.copytree(HERE / "base", folder, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)


def apply(mutant: Mutant, folder: Path) -> None:
    subprocess.run(["git", "apply", str(mutant.patch)], cwd=folder, check=True)
