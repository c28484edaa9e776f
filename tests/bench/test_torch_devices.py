from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from perfci.bench.devices.torch_devices import VALIDATION_STATUS, Accelerator, Cpu, MpsDevice, this_device


def gpus(monkeypatch: pytest.MonkeyPatch, **counts: int) -> None:
    """Let torch see so many devices, and fail when one is started."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: counts.get("cuda", 0))
    monkeypatch.setattr(torch.xpu, "device_count", lambda: counts.get("xpu", 0))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: bool(counts.get("mps")))
    for backend in (torch.cuda, torch.xpu):
        monkeypatch.setattr(backend, "_lazy_init", lambda: pytest.fail("a device was started"))
        monkeypatch.setattr(backend, "init", lambda: pytest.fail("a device was started"))


@pytest.mark.parametrize(
    ("seen", "kind", "torch_device"),
    [
        ({}, "cpu", "cpu"),
        ({"cuda": 1}, "cuda", "cuda"),
        ({"xpu": 2}, "xpu", "xpu"),
        ({"mps": 1}, "mps", "mps"),
        ({"cuda": 1, "xpu": 1}, "cuda", "cuda"),
    ],
)
def test_finds_the_device_without_starting_it(
    monkeypatch: pytest.MonkeyPatch, seen: dict[str, int], kind: str, torch_device: str
) -> None:
    gpus(monkeypatch, **seen)

    device = this_device()

    assert (device.kind, device.torch_device) == (kind, torch_device)


def test_calls_torchs_cuda_on_an_amd_gpu_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, cuda=1)
    monkeypatch.setattr(torch.version, "hip", "6.4")

    device = this_device()

    assert (device.kind, device.torch_device, device.uuid) == ("rocm", "cuda", None)


def test_reports_for_every_device_kind_whether_it_is_validated() -> None:
    assert [kind for kind, (measured, _) in VALIDATION_STATUS.items() if measured] == ["cpu"]
    assert all(sentence for _, sentence in VALIDATION_STATUS.values())


def test_a_cpu_has_no_events_no_allocator_and_nothing_to_wait_for() -> None:
    cpu = Cpu()

    cpu.synchronize()
    cpu.empty_cache()
    cpu.reset_peak_memory()

    assert (cpu.create_event_pair(), cpu.memory_stats(), cpu.uuid, cpu.l2_bytes) == (None, None, None, None)
    assert cpu.name.startswith("CPU (")


def backend(**answers: object) -> SimpleNamespace:
    calls: list[str] = []
    names = ("init", "synchronize", "empty_cache", "reset_peak_memory_stats")
    return SimpleNamespace(
        calls=calls,
        current_device=lambda: 0,
        get_device_properties=lambda index: SimpleNamespace(uuid="1234-abcd", L2_cache_size=50 << 20),
        get_device_name=lambda: "NVIDIA H100",
        Event=lambda enable_timing: SimpleNamespace(timed=enable_timing),
        **{name: lambda name=name: calls.append(name) for name in names},
        **answers,
    )


def test_an_accelerator_queries_torch_for_the_current_device() -> None:
    torch_cuda = backend()
    device = Accelerator("cuda", "cuda", torch_cuda)

    device.synchronize()
    device.empty_cache()
    device.reset_peak_memory()

    assert (device.name, device.uuid, device.l2_bytes) == ("NVIDIA H100", "GPU-1234-abcd", 50 << 20)
    assert torch_cuda.calls == ["synchronize", "empty_cache", "reset_peak_memory_stats"]
    assert [event.timed for event in device.create_event_pair()] == [True, True]


def test_the_allocator_is_initialised_before_its_statistics_are_read() -> None:
    torch_cuda = backend(memory_stats=lambda: {"allocated_bytes.all.peak": 7} if torch_cuda.calls else {})

    assert Accelerator("cuda", "cuda", torch_cuda).memory_stats() == {"allocated_bytes.all.peak": 7}


@pytest.mark.parametrize(
    ("capability", "dtype", "reason"),
    [
        ((8, 0), torch.float8_e4m3fn, "float8_e4m3fn needs compute capability 8.9; this GPU has 8.0"),
        ((8, 9), torch.float8_e4m3fn, None),
        ((9, 0), torch.float8_e5m2, None),
        ((7, 5), torch.bfloat16, "bfloat16 needs compute capability 8.0; this GPU has 7.5"),
        ((7, 5), torch.float16, None),
    ],
)
def test_refuses_what_a_gpu_would_only_emulate(
    capability: tuple[int, int], dtype: torch.dtype, reason: str | None
) -> None:
    device = Accelerator("cuda", "cuda", backend(get_device_capability=lambda: capability))

    assert device.unsupported_dtype_reason(dtype) == reason


def test_a_cpu_refuses_float8_alone() -> None:
    assert Cpu().unsupported_dtype_reason(torch.bfloat16) is None
    assert (
        Cpu().unsupported_dtype_reason(torch.float8_e4m3fn)
        == "no CPU multiplies float8 natively: its timing is meaningless"
    )


def test_the_mps_allocator_reports_current_bytes_and_no_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 3)
    monkeypatch.setattr(torch.mps, "driver_allocated_memory", lambda: 8)

    assert MpsDevice().memory_stats() == {"allocated_bytes.all.current": 3, "reserved_bytes.all.current": 8}
    assert MpsDevice().unsupported_dtype_reason(torch.float64) == "Apple's GPU does not compute in float64"
