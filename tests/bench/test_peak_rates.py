"""The one table of peaks: which device a name means, and that no figure with sparsity slipped in."""

from __future__ import annotations

import pytest

from perfci.bench.devices.peak_rates import DEVICE_PEAKS, DevicePeak, peak_bandwidth, peak_flops


@pytest.mark.parametrize(
    ("name", "bf16", "bandwidth"),
    [
        ("NVIDIA A100-SXM4-40GB", 312e12, 1.555e12),
        ("NVIDIA A100-SXM4-80GB", 312e12, 2.039e12),
        ("NVIDIA A100 80GB PCIe", 312e12, 1.935e12),
        ("NVIDIA H100 80GB HBM3", 989.4e12, 3.35e12),
        ("NVIDIA H100 PCIe", 756e12, 2.0e12),
        ("NVIDIA H100 NVL", 835.5e12, 3.9e12),
        ("NVIDIA H200", 989.4e12, 4.8e12),
        ("NVIDIA GH200 480GB", 989.4e12, 4.0e12),
        ("NVIDIA B200", 2250e12, 8.0e12),
        ("NVIDIA L4", 121e12, 0.3e12),
        ("NVIDIA L40", 181e12, 0.864e12),
        ("NVIDIA L40S", 362.1e12, 0.864e12),
        ("NVIDIA A10G", 70e12, 0.6e12),
        ("NVIDIA GeForce RTX 4090", 165.2e12, 1.008e12),
        ("AMD Instinct MI300X", 1307.4e12, 5.3e12),
        ("AMD Instinct MI250X", 191.5e12, 1.638e12),
    ],
)
def test_finds_devices_by_the_names_they_report(name: str, bf16: float, bandwidth: float) -> None:
    assert peak_flops(name, "bf16") == pytest.approx(bf16)
    assert peak_bandwidth(name) == pytest.approx(bandwidth)


@pytest.mark.parametrize(
    "name",
    [
        "AMD EPYC 9R14",
        "CPU (AVX512)",
        "NVIDIA RTX A4000",  # holds "a40"
        "NVIDIA T400 4GB",  # holds "t4"
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "GRID A100-10C",
        "",
    ],
)
def test_has_no_peak_for_unknown_and_partitioned_devices(name: str) -> None:
    assert peak_flops(name, "bf16") is None
    assert peak_bandwidth(name) is None


def test_has_no_peak_where_the_hardware_has_no_such_path() -> None:
    assert peak_flops("Tesla V100-SXM2-16GB", "bf16") is None
    assert peak_flops("Tesla V100-SXM2-16GB", "fp16") == 125e12
    assert peak_flops("Tesla T4", "tf32") is None


@pytest.mark.parametrize("dtype", ["fp8", "int8", "fp64", ""])
def test_has_no_peak_for_other_formats(dtype: str) -> None:
    assert peak_flops("NVIDIA H100 80GB HBM3", dtype) is None


@pytest.mark.parametrize("peak", DEVICE_PEAKS, ids=lambda peak: peak.name_words)
def test_every_row_can_be_reached_and_is_in_order(peak: DevicePeak) -> None:
    formats = [flops for flops in (peak.fp16, peak.tf32, peak.fp32) if flops is not None]

    assert peak_flops(peak.name_words, "fp32") == peak.fp32
    assert formats == sorted(formats, reverse=True)
    assert peak.bf16 in (peak.fp16, None)
    assert peak.source


@pytest.mark.parametrize(
    "peak", [peak for peak in DEVICE_PEAKS if peak.tf32], ids=lambda peak: peak.name_words
)
def test_half_precision_is_twice_tf32(peak: DevicePeak) -> None:
    assert peak.fp16 is not None
    assert peak.tf32 is not None
    assert peak.fp16 / peak.tf32 == pytest.approx(2, rel=0.03)
