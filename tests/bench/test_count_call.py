"""Exact counts of one call, held against counts made by hand."""

from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import tiny_gpt as tiny
import torch
from fake_device import FakeDevice
from torch.nn import functional

from perfci.bench.call_counts import (
    COUNT_METRICS,
    FAKE_DEVICE,
    CallCounts,
    count_call,
    count_operators,
    fake_tensors,
)
from perfci.bench.call_counts import instruction_counter as counter_of_instructions
from perfci.bench.call_counts.compilation_counts import (
    GraphCounts,
    count_breaks_and_recompiles,
    count_generated_kernels,
)
from perfci.bench.call_counts.count_call import count_kernel_launches, count_launch_events
from perfci.bench.call_counts.count_flops import count_flops_by_format
from perfci.bench.call_counts.instruction_counter import count_instructions
from perfci.bench.memory_use.peak_memory import peak_tensor_bytes
from perfci.bench.memory_use.storage_tracker import tensor_storage_bytes
from perfci.bench.readings import UNITS, Absent, Reading
from perfci.model import Clock, PerfciError

HERE = Path(__file__).parent


# Operators


def test_counts_operators_that_autograd_runs_too() -> None:
    x = torch.ones(3, requires_grad=True)

    assert count_operators(lambda: x * 2) == 1
    assert count_operators(lambda: (x * 2).sum().backward()) == 6  # mul, sum, ones_like, expand, mul, detach


def test_counts_operators_that_return_nothing() -> None:
    weights = [torch.ones(3), torch.ones(3)]

    assert count_operators(lambda: torch._foreach_add_(weights, 1.0)) == 1


def test_counts_the_same_whichever_way_gradients_are_off() -> None:
    model, tokens = tiny.TinyGPT(), tiny.some_tokens()

    without = [
        count_operators(off(lambda: model(tokens))) for off in (torch.no_grad(), torch.inference_mode())
    ]

    assert without[0] == without[1] > 40


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_counts_are_absent_where_a_call_runs_only_compiled() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    query = torch.randn(1, 1, 16, 16)
    reason = "it runs an operator of higher order (flex_attention), and no counter sees what that computes"

    counts = count_call(lambda: flex_attention(query, query, query))

    assert counts.flops == counts.operators == counts.peak_tensor_bytes == Absent(reason)
    torch.compile(lambda x: x, backend="eager")(query)  # compiled code runs as eager code from now on
    assert count_flops_by_format(lambda: flex_attention(query, query, query)).total == Absent(reason)
    torch._dynamo.reset()


# What the host waits for


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}])
def test_steps_that_an_optimizer_counts_on_the_host_are_no_syncs(options: dict[str, bool]) -> None:
    layer = torch.nn.Linear(2, 2)
    adam = torch.optim.Adam(layer.parameters(), **options)

    def step() -> None:
        layer(torch.ones(2, 2)).sum().backward()
        adam.step()

    step()
    assert count_call(step).host_syncs == 0


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (lambda x: x.sum().item(), 1),
        (lambda x: float(x[0, 0]) + int(x[0, 1]), 2),
        (lambda x: 1 if x.sum() > 3 else 0, 1),
        (lambda x: x.nonzero(), 1),
        (lambda x: x[x > 0], 1),
        (lambda x: torch.equal(x, x), 1),
        (lambda x: x.repeat_interleave(torch.tensor([1, 2]), dim=0), 1),
        (lambda x: x.repeat_interleave(torch.tensor([1, 2]), dim=0, output_size=3), 0),
        (lambda x: x[torch.tensor([1, 0])], 0),
        (lambda x: x.masked_fill(x > 0, 1.0).argmax(), 0),
        (lambda x: x.shape[0] * x.numel(), 0),
    ],
)
def test_counts_host_syncs_where_values_are_needed(
    read: Callable[[torch.Tensor], object], expected: int
) -> None:
    assert count_call(lambda: read(torch.ones(2, 2))).host_syncs == expected


def test_does_not_wait_for_what_is_on_the_host_while_a_device_is_in_use() -> None:
    with fake_tensors():
        on_host, on_device = torch.ones(3), torch.ones(3, device=FAKE_DEVICE)

        proxies = count_call(lambda: (on_host.sum().item(), on_device.sum().item(), on_device.sum().item()))

    assert proxies.host_syncs == 2


def test_counts_a_copy_to_the_host_as_blocking_unless_declared_non_blocking() -> None:
    with fake_tensors():
        on_device = torch.ones(3, device=FAKE_DEVICE)

        assert count_call(on_device.cpu).host_syncs == 1
        assert count_call(lambda: on_device.to("cpu", non_blocking=True)).host_syncs == 0


# What is converted


@pytest.mark.parametrize(
    ("convert", "expected"),
    [
        (lambda x: x.float(), 400),
        (lambda x: x.double(), 800),
        (lambda x: torch.empty(100).copy_(x), 0),  # the room was there
        (lambda x: x.float().bfloat16(), 400),
        (lambda x: x * torch.ones(100), 400),  # promoted without a word
        (lambda x: x * 2.0, 0),
        (lambda x: x.sum(dtype=torch.float32), 4),
        (lambda x: torch.ones(100).add_(x), 0),
        (lambda x: x.view(torch.int16), 0),
        (
            lambda x: torch.nn.functional.layer_norm(x, (100,)),
            0,
        ),  # its statistics are wider, its result is not
        (lambda x: x.argmax(), 0),
    ],
)
def test_counts_bytes_that_float_wider_than_what_was_read(
    convert: Callable[[torch.Tensor], torch.Tensor], expected: int
) -> None:
    x = torch.ones(100, dtype=torch.bfloat16)

    assert count_call(lambda: convert(x)).upcast_bytes == expected


def test_a_widening_conversion_is_not_an_operator_and_a_narrowing_one_is() -> None:
    x = torch.ones(100, dtype=torch.bfloat16)

    assert count_operators(x.float) == 0
    assert count_operators(lambda: x.float().bfloat16()) == 1


# What is copied to a device


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (lambda x: x.to(FAKE_DEVICE), (400, 400, 0)),
        (
            lambda x: x.to(FAKE_DEVICE, non_blocking=True),
            (400, 400, 0),
        ),  # waits all the same: nothing pinned it
        (lambda x: x.pin_memory().to(FAKE_DEVICE), (400, 0, 400)),
        (lambda x: x.pin_memory().to(FAKE_DEVICE, non_blocking=True), (400, 0, 0)),
        (lambda x: x.pin_memory()[:50].to(FAKE_DEVICE, non_blocking=True), (200, 0, 0)),
        (lambda x: torch.empty(100, device=FAKE_DEVICE).copy_(x), (400, 400, 0)),
        (
            lambda x: torch.empty(100, device=FAKE_DEVICE).copy_(x.pin_memory(), non_blocking=True),
            (400, 0, 0),
        ),
        (lambda x: x.to(FAKE_DEVICE).cpu(), (400, 400, 0)),
        (lambda x: x.to("cpu"), (0, 0, 0)),
        (lambda x: x.clone(), (0, 0, 0)),
    ],
)
@pytest.mark.skipif(
    torch.accelerator.is_available(), reason="memory is really pinned for the accelerator here"
)
def test_counts_bytes_copied_to_a_device_and_why_the_host_waited(
    copy: Callable[[torch.Tensor], torch.Tensor], expected: tuple[int, int, int]
) -> None:
    with fake_tensors():
        x = torch.ones(100)

        proxies = count_call(lambda: copy(x))

    assert (
        proxies.copied_to_device_bytes,
        proxies.pageable_copy_bytes,
        proxies.blocking_copy_bytes,
    ) == expected
    assert proxies.upcast_bytes == 0


def test_counts_copies_of_real_tensors_too() -> None:
    x = torch.ones(100)

    assert count_call(lambda: x.to(FAKE_DEVICE, non_blocking=True)).pageable_copy_bytes == 400


# What is kept


def test_counts_a_storage_once_and_in_full() -> None:
    buffer = torch.ones(100)

    assert tensor_storage_bytes([buffer[:10], {"a": buffer.view(10, 10)}, (buffer, None, 3)]) == 400
    assert tensor_storage_bytes([]) == 0


def test_reports_tensors_it_cannot_measure() -> None:
    with pytest.raises(PerfciError, match="a Linear was given"):
        tensor_storage_bytes(torch.nn.Linear(2, 2))


def test_measures_parameters_optimizer_state_and_cache_after_the_call() -> None:
    model = tiny.TinyGPT()
    model.head.weight = model.embedding.weight  # tied: once
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    cache: list[torch.Tensor] = []

    def step() -> None:
        model.loss(tiny.some_tokens()).backward()
        optimizer.step()
        cache.append(torch.ones(25))

    proxies = count_call(step, parameters=model.parameters(), optimizer=optimizer, cache=lambda: cache)

    assert proxies.parameter_bytes == 4 * sum(p.numel() for p in model.parameters())
    assert proxies.optimizer_state_bytes == proxies.parameter_bytes  # one momentum per weight
    assert proxies.kv_cache_bytes == 100


# Fake tensors


def test_the_fake_peak_equals_the_real_peak() -> None:
    def whole(dtype: torch.dtype = torch.float32) -> None:
        model = tiny.TinyGPT().to("cpu").to(dtype)  # a module's own way to move its parameters
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            model.loss(tiny.some_tokens()).backward()
            optimizer.step()

    proxies = count_call(whole, rebuild=whole)

    assert proxies.fake_peak_bytes == proxies.peak_tensor_bytes
    assert isinstance(proxies.fake_peak_bytes, int)
    assert (
        count_call(lambda: None, rebuild=lambda: whole(torch.float64)).fake_peak_bytes
        > proxies.fake_peak_bytes
    )


def test_a_value_that_is_only_stored_needs_no_computing() -> None:
    logged = []

    assert (
        count_call(lambda: None, rebuild=lambda: logged.append(torch.ones(3).sum().item())).fake_peak_bytes
        == 12 + 4
    )


@pytest.mark.parametrize(
    "needs_values",
    [
        lambda: 1 if torch.ones(3).sum() > 2 else 0,
        lambda: torch.zeros(torch.ones(3).nonzero().shape[0] * 2 + 1),
    ],
    ids=["branch", "size"],
)
def test_the_fake_peak_is_absent_where_values_decide(needs_values: Callable[[], object]) -> None:
    proxies = count_call(lambda: None, rebuild=needs_values)

    assert isinstance(proxies.fake_peak_bytes, Absent)
    assert "needs a computed value" in proxies.fake_peak_bytes.reason


def test_the_peak_is_absent_where_fake_tensors_meet_real_ones() -> None:
    real = torch.ones(3)

    proxies = count_call(lambda: None, rebuild=lambda: torch.ones(3) + real)

    assert proxies.fake_peak_bytes == Absent(
        "the function uses a tensor that was made outside of it; for fake tensors it has to build everything"
    )


def test_the_reason_why_fake_tensors_fail_is_one_line_without_addresses() -> None:
    def fail() -> None:
        raise ValueError(f"no such {object()}\nand what follows")

    reason = count_call(lambda: None, rebuild=fail).fake_peak_bytes

    assert reason == Absent("the function does not run on fake tensors: ValueError: no such <object object>")


# Graphs


def test_counts_breaks_and_what_is_compiled_again() -> None:
    x, calls = torch.ones(4), [1, 2]

    def smooth() -> torch.Tensor:
        return x.sin() + x.cos()

    def broken() -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    def another_shape_each_time() -> torch.Tensor:
        calls.append(0)
        return torch.ones(len(calls)).sin()

    assert count_breaks_and_recompiles(smooth) == GraphCounts(breaks=0, recompiles=0)
    assert count_breaks_and_recompiles(broken) == GraphCounts(breaks=1, recompiles=0)
    assert count_breaks_and_recompiles(another_shape_each_time) == GraphCounts(breaks=0, recompiles=1)


def test_tracing_leaves_nothing_behind() -> None:
    from torch._dynamo.utils import counters, get_compilation_metrics

    count_breaks_and_recompiles(lambda: torch.ones(4).sin())

    assert not counters["stats"]
    assert get_compilation_metrics() == []


def test_graphs_are_absent_where_compiling_is_switched_off() -> None:
    with torch.compiler.set_stance("force_eager"):
        traced = count_breaks_and_recompiles(lambda: torch.ones(4).sin())

    assert isinstance(traced, Absent)
    assert "switched off" in traced.reason


def test_graphs_are_absent_where_dynamo_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(graph: object, examples: object) -> None:
        raise RuntimeError("no such thing as a cosine")

    monkeypatch.setattr("perfci.bench.call_counts.compilation_counts._run_unchanged", fail)

    traced = count_breaks_and_recompiles(lambda: torch.ones(4).cos())

    assert isinstance(traced, Absent)
    assert "no such thing as a cosine" in traced.reason


def test_an_error_of_the_function_itself_propagates() -> None:
    with pytest.raises(ZeroDivisionError):
        count_breaks_and_recompiles(lambda: 1 / 0)


def test_kernels_are_absent_without_a_compiler() -> None:
    from torch._inductor import config

    with config.patch({"cpp.cxx": ("/no/such/compiler",)}):
        kernels = count_generated_kernels(lambda: torch.ones(8).sin())

    assert isinstance(kernels, Absent)


@pytest.mark.slow
def test_counts_the_kernels_inductor_writes() -> None:
    from torch._inductor import config

    x = torch.ones(8)

    # What g++ makes of a kernel is nothing to count: no vectors to try out, no headers for many kernels more.
    with config.patch({"cpp.vec_isa_ok": False, "cpp_cache_precompile_headers": False}):
        generated_kernels = count_generated_kernels(lambda: (x * 2 + 1).sum())
        if isinstance(generated_kernels, Absent):
            pytest.skip(generated_kernels.reason)
        two = count_generated_kernels(lambda: (x * 2).sort().values * 3)  # nothing is fused over a sort

    assert (generated_kernels, two) == (1, 2)


def test_generated_kernels_are_counted_only_on_request() -> None:
    proxies = count_call(lambda: None, compiled_function=lambda: torch.ones(4).sin())

    assert isinstance(proxies.generated_kernels, Absent)
    assert (proxies.graph_breaks, proxies.recompiles) == (0, 0)


# Launches


def test_launches_are_absent_where_nothing_launches() -> None:
    absent = count_kernel_launches(lambda: None, FakeDevice(kind="cpu", name="CPU (AVX2)"))

    assert isinstance(absent, Absent)
    assert "CPU (AVX2)" in absent.reason


def test_counts_launches_and_neither_kernels_nor_copies() -> None:
    names = [
        "aten::mm",
        "cudaLaunchKernel",
        "sgemm_128x128",
        "cudaMemcpyAsync",
        "Memcpy HtoD",
        "cudaLaunchKernelExC",
        "cuLaunchKernelEx",
        "cudaLaunchCooperativeKernel",
        "cuLaunchCooperativeKernel",
        "hipLaunchCooperativeKernel_spt",
        "cudaLaunchHostFunc",
        "cudaGraphLaunch",
        "hipExtModuleLaunchKernel",
        "cudaStreamSynchronize",
    ]

    assert count_launch_events(names) == 8


def test_the_launches_of_a_device_are_read_between_two_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    device, order = FakeDevice(), []

    class Profile:
        def __init__(self, activities: object) -> None: ...
        def __enter__(self) -> Profile:
            order.append(device.synchronised)
            return self

        def __exit__(self, *_: object) -> None:
            order.append(device.synchronised)

        def events(self) -> list[object]:
            return [
                torch.autograd.profiler_util.FunctionEvent(0, "cudaLaunchKernel", 0, 0, 1) for _ in range(3)
            ]

    monkeypatch.setattr("torch.profiler.profile", Profile)

    assert count_kernel_launches(lambda: None, device) == 3
    assert order == [1, 2]


# Instructions


def test_counts_instructions_or_gives_a_reason() -> None:
    counted = count_instructions(lambda: sum(range(100_000)))

    if isinstance(counted, Absent):
        assert "instructions" in counted.reason
    else:
        assert counted > 100_000


@pytest.mark.skipif(sys.platform != "linux", reason="perf_event_open is Linux's")
def test_reads_the_counter_as_the_kernel_lays_it_out() -> None:
    software, nanoseconds_on_cpu = 1, 1
    try:
        counter = counter_of_instructions._open_counter(software, nanoseconds_on_cpu)
    except OSError as error:
        pytest.skip(str(error))

    try:
        little = counter_of_instructions._count_call(counter, lambda: sum(range(1_000)))
        much = counter_of_instructions._count_call(counter, lambda: sum(range(3_000_000)))
    finally:
        os.close(counter)

    assert 0 < little < much


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (errno.ENOENT, "offers no counter"),
        (errno.EACCES, "perf_event_paranoid"),
        (errno.ENOSYS, "not implemented"),
    ],
)
def test_names_what_prevents_counting(monkeypatch: pytest.MonkeyPatch, number: int, word: str) -> None:
    def refuse(kind: int, event: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(counter_of_instructions, "_open_counter", refuse)

    counted = count_instructions(lambda: pytest.fail("nothing is run that cannot be counted"))

    assert isinstance(counted, Absent)
    assert word in counted.reason.lower()


def test_a_multiplexed_counter_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        counter_of_instructions, "_open_counter", lambda kind, event: os.open(os.devnull, os.O_RDONLY)
    )
    monkeypatch.setattr(counter_of_instructions, "_count_call", lambda counter, function: 0)

    assert "shared" in count_instructions(lambda: None).reason


# As a whole


def test_every_count_is_a_declared_metric_with_a_known_unit() -> None:
    assert [metric.name for metric in COUNT_METRICS] == [
        field.name for field in dataclasses.fields(CallCounts)
    ]
    assert {metric.unit for metric in COUNT_METRICS} == {"FLOP", "count", "bytes", "instructions"} <= UNITS


def test_readings_are_exact_but_for_instructions() -> None:
    proxies = dataclasses.replace(count_call(lambda: torch.ones(3) @ torch.ones(3)), instructions=1_000_000)

    readings = proxies.readings()

    assert readings["flops"] == Reading((6.0,), Clock.EXACT)
    assert readings["instructions"] == Reading((1e6,), Clock.VALUE)
    assert isinstance(readings["parameter_bytes"], Absent)


def test_nothing_that_was_not_counted_is_zero() -> None:
    proxies = count_call(lambda: None)

    absent = {
        field.name
        for field in dataclasses.fields(CallCounts)
        if isinstance(getattr(proxies, field.name), Absent)
    }

    assert absent >= {
        "fake_peak_bytes",
        "parameter_bytes",
        "optimizer_state_bytes",
        "kv_cache_bytes",
        "graph_breaks",
    }


def test_repeats_exactly_in_a_fresh_process_of_another_hash_seed() -> None:
    this_process = everything()
    other_process = subprocess.run(
        [sys.executable, "-c", "import test_count_call; print(test_count_call.everything())"],
        env={
            **os.environ,
            "PYTHONHASHSEED": "22",
            "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])]),
        },
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()

    assert other_process == this_process
    assert "flops=0" not in this_process


def everything() -> str:
    """All that is counted of a training step, in words."""
    torch.manual_seed(0)
    model, optimizer = trained_once()

    def step() -> float:
        optimizer.zero_grad()
        loss = model.loss(tiny.some_tokens())
        loss.double().backward()
        optimizer.step()
        return float(loss.item())

    proxies = count_call(
        step,
        rebuild=trained_once,
        compiled_function=lambda: model.loss(tiny.some_tokens()),
        parameters=model.parameters(),
        optimizer=optimizer,
    )
    return str(dataclasses.replace(proxies, instructions=0))


def trained_once() -> tuple[tiny.TinyGPT, torch.optim.Optimizer]:
    model = tiny.TinyGPT(checkpointing=True)
    optimizer = torch.optim.AdamW(model.parameters())
    model.loss(tiny.some_tokens()).backward()
    optimizer.step()
    return model, optimizer


def test_counts_an_operator_with_a_kernel_as_one_and_none_of_its_parts() -> None:
    """The backward pass of SiLU could be taken apart, into eight operators with temporary tensors."""

    def train(activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        activation(torch.ones(32, 32, requires_grad=True)).sum().backward()

    with_silu, with_gelu = (partial(train, kind) for kind in (functional.silu, functional.gelu))

    assert count_call(with_silu).peak_tensor_bytes == peak_tensor_bytes(with_silu)
    assert count_operators(with_silu) == count_operators(with_gelu)
