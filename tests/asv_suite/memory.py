"""Peak memory of training: of tensors (exact, on any device), CUDA's allocator, and the whole process."""

from __future__ import annotations

from perfci.bench import peak_allocated_bytes, peak_tensor_bytes

from .sizes import PRECISIONS, SIZES
from .training import Training

STEPS = 2  # the first step makes the optimizer's state, the second has it beside the activations


class TrainingMemory:
    params = (PRECISIONS, SIZES.batches, ["none", "full"], [SIZES.name])
    param_names = ("precision", "batch", "checkpointing", "model")
    rounds = 1

    def setup(self, precision: str, batch: int, checkpointing: str, model: str) -> None:
        self.arguments = {"precision": precision, "batch": batch, "checkpointing": checkpointing}

    def track_peak_tensors(self, precision: str, batch: int, checkpointing: str, model: str) -> int:
        return peak_tensor_bytes(self.train)

    def track_peak_allocated(self, precision: str, batch: int, checkpointing: str, model: str) -> int:
        return peak_allocated_bytes(self.train)

    def peakmem_training(self, precision: str, batch: int, checkpointing: str, model: str) -> None:
        self.train()

    def train(self) -> None:
        training = Training(SIZES, **self.arguments)
        for _ in range(STEPS):
            training.step()

    track_peak_tensors.metric = "peak_tensor_bytes"
    track_peak_tensors.clock = "exact"
    track_peak_tensors.unit = track_peak_allocated.unit = "bytes"
    track_peak_tensors.direction = track_peak_allocated.direction = "lower"
    track_peak_allocated.metric = "peak_allocated_bytes"
