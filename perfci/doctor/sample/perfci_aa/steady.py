"""A step of a small model, with the clocks perfci judges by; a loop of Python without torch."""

from __future__ import annotations

try:
    import torch

    from perfci.bench import metrics
    from perfci.bench.devices.torch_devices import this_device
    from perfci.bench.timers.timed_blocks import time_blocks
    from perfci.model import Metric
except ImportError:

    def time_python_loop() -> None:
        total = 0
        for number in range(20_000):
            total += number * number

else:

    @metrics(Metric("time", "seconds"))
    def measure_training_step() -> dict[str, object]:
        device = this_device().torch_device
        model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256)).to(
            device
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        batch = torch.randn(64, 256, device=device)

        def step() -> None:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()

        return {"time": time_blocks(step, warmup_s=0.3, budget_s=0.7).reading()}
