"""A stream is driven and read on a fake machine, whose clocks move only when something is computed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_device import FakeDevice

from perfci.bench.devices.torch_devices import this_device
from perfci.bench.readings import Absent, Measurement, Reading, check_and_serialize_readings
from perfci.bench.streams.request_metrics import RequestTrace
from perfci.bench.streams.stream_requests import (
    GENERATION_METRICS,
    RecordedRequests,
    StreamRequest,
    measure_stream,
    trace_requests_after_warmup,
)
from perfci.model import Clock

PREFILL_S, TOKEN_S = 0.03, 0.002
CLOCKED = (
    "perfci.bench.streams.stream_requests",
    "perfci.bench.streams.stream_clock",
    "perfci.bench.timers.warmup",
)


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return FakeDevice(kind="cpu", uuid=None).install(monkeypatch, *CLOCKED)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return FakeDevice(uuid=None, launch_s=0.0).install(monkeypatch, *CLOCKED)


def tokens(device: FakeDevice, count: int = 11) -> Callable[[], Iterator[int]]:
    """A prefill of 30 ms and a token every 2 ms, computed on the host or queued on the device."""
    compute = device.work if device.kind == "cpu" else device.kernel

    def stream() -> Iterator[int]:
        compute(PREFILL_S)
        for token in range(count):
            compute(TOKEN_S if token else 0.0)
            yield token

    return stream


def read(measured: Measurement, name: str) -> Reading:
    reading = measured.readings[name]
    assert isinstance(reading, Reading), reading
    return reading


def reason(measured: Measurement, name: str) -> str:
    absent = measured.readings[name]
    assert isinstance(absent, Absent), absent
    return absent.reason


def test_reads_every_latency_by_the_wall_clock_and_in_cpu_seconds(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu), device=cpu, requests=3)

    assert read(measured, "ttft").samples == pytest.approx([0.03] * 3)
    assert read(measured, "tpot").samples == pytest.approx([0.002] * 3)
    assert read(measured, "itl").samples == pytest.approx([0.002] * 30)
    assert read(measured, "e2el").cpu == pytest.approx([0.05] * 3)
    assert read(measured, "e2el").clock is Clock.WALL


def test_excludes_other_processes_from_the_cpu_seconds(cpu: FakeDevice) -> None:
    def preempted() -> Iterator[int]:
        for chunk in tokens(cpu)():
            cpu.host_s += 0.01
            yield chunk

    measured = measure_stream(preempted, device=cpu, requests=1)

    assert read(measured, "itl").samples == pytest.approx([0.012] * 10)
    assert read(measured, "itl").cpu == pytest.approx([0.002] * 10)


def test_sees_a_token_when_the_device_has_made_it_and_not_when_it_was_launched(gpu: FakeDevice) -> None:
    measured = measure_stream(tokens(gpu), device=gpu, requests=2)

    assert read(measured, "ttft").samples == pytest.approx([0.03] * 2)
    assert not read(measured, "ttft").cpu


def test_waits_for_the_device_once_per_chunk_and_at_both_ends(gpu: FakeDevice) -> None:
    StreamRequest(tokens(gpu, count=5), gpu)()

    assert gpu.synchronised == 5 + 2


def test_finishes_queued_work_before_the_clock_starts(gpu: FakeDevice) -> None:
    gpu.kernel(5.0)

    wall, _ = StreamRequest(tokens(gpu), gpu)()

    assert wall.ended_at - wall.sent_at == pytest.approx(0.05)


def test_discards_what_the_first_requests_compile(cpu: FakeDevice) -> None:
    requests = iter(range(100))

    def compiling() -> Iterator[int]:
        cpu.work(3.0 if next(requests) == 0 else 0.0)
        yield from tokens(cpu)()

    measured = measure_stream(compiling, device=cpu, requests=2, warmup_s=4.0)

    assert read(measured, "e2el").samples == pytest.approx([0.05] * 2)
    assert measured.flags == ()


def test_flags_a_stream_that_did_not_settle(cpu: FakeDevice) -> None:
    requests = iter(range(100))

    def slower() -> Iterator[int]:
        cpu.work(0.02 * 1.1 ** next(requests))
        yield from tokens(cpu)()

    measured = measure_stream(slower, device=cpu, requests=1, warmup_s=0.04)

    assert [flag.split(":")[0] for flag in measured.flags] == ["unsettled"]


def test_flags_a_measured_request_that_compiled_something(
    cpu: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, compiled = iter(range(100)), []
    monkeypatch.setattr("perfci.bench.timers.warmup.count_compile_events", lambda: len(compiled))

    def compiling_late() -> Iterator[int]:
        if next(requests) == 20:
            compiled.append("another shape")
        yield from tokens(cpu)()

    measured = measure_stream(compiling_late, device=cpu, requests=20)

    assert measured.flags == ("unsettled: something was compiled in a measured request",)


def test_keeps_the_collector_out_of_the_clock_and_turns_it_on_again(cpu: FakeDevice) -> None:
    enabled = []

    def watching() -> Iterator[int]:
        enabled.append(gc.isenabled())
        yield from tokens(cpu)()

    trace_requests_after_warmup(StreamRequest(watching, cpu), requests=1)

    assert set(enabled) == {False}
    assert gc.isenabled()


def test_collects_what_a_request_left_before_the_next_one(cpu: FakeDevice) -> None:
    left: list[weakref.ref[Knot]] = []

    def leaking() -> Iterator[int]:
        left.append(weakref.ref(Knot()))
        yield from tokens(cpu)()

    trace_requests_after_warmup(StreamRequest(leaking, cpu), requests=5)

    assert [knot() for knot in left[-5:]] == [None] * 5


class Knot:
    """Garbage that only the cycle collector can find."""

    def __init__(self) -> None:
        self.itself = self


def test_counts_the_tokens_of_a_chunk_outside_the_clock(cpu: FakeDevice) -> None:
    def slow_count(chunk: int) -> int:
        cpu.work(7.0)
        return 2

    measured = measure_stream(tokens(cpu), device=cpu, requests=1, tokens_of=slow_count)

    assert read(measured, "e2el").samples == pytest.approx([0.05])
    assert read(measured, "tpot").samples == pytest.approx([0.02 / 20])


def test_distinguishes_time_between_chunks_from_time_between_tokens(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu), device=cpu, requests=1, tokens_of=lambda chunk: 4)

    assert read(measured, "itl").samples == pytest.approx([0.002] * 10)
    assert read(measured, "itl_per_token").samples == pytest.approx([0.0005] * 10)
    assert measured.flags == ("a chunk holds up to 4 tokens: itl is the time between chunks",)


def test_skips_a_first_chunk_without_a_token(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu), device=cpu, requests=1, tokens_of=lambda chunk: int(chunk > 0))

    assert read(measured, "ttft").samples == pytest.approx([0.032])


def test_counts_every_sequence_of_a_batch_in_rates(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu), device=cpu, requests=2, batch=8, sla={"ttft": 1.0})

    assert read(measured, "generate_tok_s").samples == pytest.approx([8 * 22 / 0.1])
    assert read(measured, "goodput").samples == pytest.approx([8 * 2 / 0.1])
    assert read(measured, "tpot").samples == pytest.approx([0.002] * 2)


def test_shows_rates_and_percentiles_as_informational_metrics(cpu: FakeDevice) -> None:
    measured = measure_stream(
        tokens(cpu), device=cpu, requests=64, audio_seconds=lambda chunk: 0.1, warmup_s=0.01
    )

    shown = {
        name
        for name, reading in measured.readings.items()
        if getattr(reading, "clock", None) is Clock.INFORMATIONAL
    }

    assert shown == {"ttft_p50", "ttft_p90", "e2el_p50", "e2el_p90", "generate_tok_s", "tpot_slope", "rtfx"}
    assert read(measured, "e2el_p90").samples == pytest.approx([0.05])


def test_withholds_a_percentile_from_too_few_requests(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu), device=cpu, requests=12)

    assert reason(measured, "ttft_p90") == "needs 64 requests, measured 12"
    assert reason(measured, "e2el_p99") == "needs 662 requests, measured 12"


def test_measures_audio_by_its_length(cpu: FakeDevice) -> None:
    measured = measure_stream(
        tokens(cpu), device=cpu, requests=1, audio_seconds=lambda chunk: 0.1 * (chunk > 0)
    )

    assert read(measured, "rtf").samples == pytest.approx([0.05])
    assert read(measured, "rtfx").samples == pytest.approx([20.0])
    assert read(measured, "ttfb").samples == pytest.approx([0.032])


def test_rejects_audio_of_zero_length(cpu: FakeDevice) -> None:
    with pytest.raises(ValueError, match="needs audio"):
        measure_stream(tokens(cpu), device=cpu, requests=1, audio_seconds=lambda chunk: 0.0)


def test_counts_requests_that_keep_the_sla_over_the_time_spent_in_requests(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu), device=cpu, requests=4, sla={"e2el_p90": 0.06})

    assert read(measured, "sla_attainment").samples == [1.0]
    assert read(measured, "goodput").samples == pytest.approx([20.0])
    assert read(measured, "goodput").cpu == pytest.approx([20.0])


def test_divides_by_the_tokens_after_the_first_chunk(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu, count=2), device=cpu, requests=1, tokens_of=lambda chunk: 24)

    # The second chunk took 2 ms and brought 24 tokens; dividing by 47 would halve that.
    assert read(measured, "tpot").samples == pytest.approx([0.002 / 24])
    assert read(measured, "itl_per_token").samples == pytest.approx([0.002 / 24])


def test_reads_the_sequences_of_a_request_from_its_first_chunk(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu), device=cpu, requests=2, batch=lambda chunk: 8, sla={"ttft": 1.0})

    assert read(measured, "generate_tok_s").samples == pytest.approx([8 * 22 / 0.1])
    assert read(measured, "goodput").samples == pytest.approx([8 * 2 / 0.1])


def test_gives_no_rate_where_the_sequences_of_a_request_are_unknown(cpu: FakeDevice) -> None:
    measured = measure_stream(
        tokens(cpu), device=cpu, requests=2, batch=lambda chunk: None, sla={"ttft": 1.0}
    )

    assert reason(measured, "generate_tok_s").endswith("is not known: name them in sequences")
    assert reason(measured, "goodput") == reason(measured, "generate_tok_s")
    assert read(measured, "sla_attainment").samples == [1.0]


def test_makes_a_prompt_before_the_clock_starts(cpu: FakeDevice) -> None:
    def prompt() -> str:
        cpu.work(5.0)
        return "a text"

    given_prompts = []

    def stream(text: str) -> Iterator[int]:
        given_prompts.append(text)
        yield from tokens(cpu)()

    measured = measure_stream(stream, device=cpu, requests=2, prompt=prompt)

    assert read(measured, "ttft").samples == pytest.approx([0.03] * 2)
    assert set(given_prompts) == {"a text"}


def transcribe(device: FakeDevice, seconds_per_piece: float) -> Callable[[Iterator[str]], Iterator[str]]:
    """Work on each piece of sound when it has arrived, and give all text at the end."""

    def stream(audio: Iterator[str]) -> Iterator[str]:
        for _ in audio:
            device.work(seconds_per_piece)
        yield "text"
        device.work(0.01)

    return stream


def test_counts_latency_from_the_end_of_the_sound_that_came_in(cpu: FakeDevice) -> None:
    measured = measure_stream(
        transcribe(cpu, 0.2), device=cpu, requests=1, audio_in=lambda: [("piece", 1.0)] * 5, warmup_s=0.1
    )

    assert read(measured, "ttft").samples == pytest.approx([0.2])
    assert read(measured, "e2el").samples == pytest.approx([0.21])
    assert read(measured, "rtf").samples == pytest.approx([(5 * 0.2 + 0.01) / 5])
    assert read(measured, "rtf").cpu == pytest.approx(read(measured, "rtf").samples)


def test_falls_behind_sound_that_takes_longer_to_read_than_to_speak(cpu: FakeDevice) -> None:
    measured = measure_stream(
        transcribe(cpu, 1.5), device=cpu, requests=1, audio_in=lambda: [("piece", 1.0)] * 4, warmup_s=0.1
    )

    # The first piece is there after 1 s, the work on four ends at 1 + 4 * 1.5 s: 3 s after the last one.
    assert read(measured, "ttft").samples == pytest.approx([3.0])
    assert read(measured, "rtf").samples == pytest.approx([(4 * 1.5 + 0.01) / 4])


def test_counts_the_first_output_from_the_newest_piece_it_rests_on(cpu: FakeDevice) -> None:
    def stream(audio: Iterator[str]) -> Iterator[str]:
        for _ in audio:
            cpu.work(0.1)
            yield "word"

    measured = measure_stream(
        stream, device=cpu, requests=1, audio_in=lambda: [("piece", 2.0)] * 3, warmup_s=0.1
    )

    assert read(measured, "ttft").samples == pytest.approx([0.1])
    assert read(measured, "e2el").samples == pytest.approx([0.1])
    assert read(measured, "itl").samples == pytest.approx([2.0] * 2)


def test_rejects_sound_that_nobody_reads_or_that_has_no_length(cpu: FakeDevice) -> None:
    with pytest.raises(ValueError, match="read none of the sound that audio_in gave it"):
        measure_stream(lambda audio: iter("ab"), device=cpu, audio_in=lambda: [("piece", 1.0)])
    with pytest.raises(ValueError, match=r"pieces of sound with their seconds, not \[0.0\]"):
        measure_stream(lambda audio: iter("ab"), device=cpu, audio_in=lambda: [("piece", 0.0)])


def test_flags_a_violated_sla(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu), device=cpu, requests=4, sla={"ttft": 0.02})

    assert read(measured, "goodput").samples == [0.0]
    assert measured.flags == ("sla: 0.0 % of 4 requests keep ttft <= 0.02, required: 100 %",)


def test_reads_the_sla_before_anything_runs(cpu: FakeDevice) -> None:
    with pytest.raises(ValueError, match="names 'latency'"):
        measure_stream(lambda: pytest.fail("it ran"), device=cpu, sla={"latency": 1.0})


def test_detects_a_dropped_kv_cache_by_growth_and_a_slow_one_by_tpot(cpu: FakeDevice) -> None:
    def recomputing() -> Iterator[int]:
        for token in range(1, 34):
            cpu.work(0.001 * token)
            yield token

    dropped = measure_stream(recomputing, device=cpu, requests=1)
    cached = measure_stream(tokens(cpu, count=34), device=cpu, requests=1)

    assert read(dropped, "tpot_slope").samples == pytest.approx([0.001])
    assert read(dropped, "tpot_growth").samples == pytest.approx([29.5 / 5.5])
    assert read(cached, "tpot_growth").samples == pytest.approx([1.0])


def test_gives_every_declared_metric_or_a_reason(cpu: FakeDevice) -> None:
    measured = measure_stream(tokens(cpu, count=1), device=cpu, requests=1)

    report = check_and_serialize_readings(GENERATION_METRICS, measured)

    skipped = {row["name"]: row["reason"] for row in report["metrics"] if row["status"] == "skipped"}
    assert skipped == {
        "ttfb": "no audio_seconds was given",
        "tpot": "every request gave all its output in one chunk, so the time per token is unknown",
        "tpot_slope": "needs a request with 8 gaps between chunks",
        "tpot_growth": "needs a request with 8 gaps between chunks",
        "itl": "every request gave all its output in one chunk, so the time per token is unknown",
        "itl_per_token": "every request gave all its output in one chunk, so the time per token is unknown",
        "ttft_p90": "needs 64 requests, measured 1",
        "ttft_p99": "needs 662 requests, measured 1",
        "e2el_p90": "needs 64 requests, measured 1",
        "e2el_p99": "needs 662 requests, measured 1",
        "rtf": "neither audio_in nor audio_seconds was given",
        "rtfx": "neither audio_in nor audio_seconds was given",
        "sla_attainment": "no SLA was given",
        "goodput": "no SLA was given",
    }


@pytest.mark.parametrize(
    ("stream", "hooks", "message"),
    [
        (lambda: iter(()), {}, "the stream yielded nothing"),
        (lambda: None, {}, "the stream returned NoneType; something that yields chunks was expected"),
        (lambda: iter("ab"), {"tokens_of": lambda chunk: 0}, "no chunk of it holds a token"),
        (lambda: iter("ab"), {"tokens_of": lambda chunk: 1.5}, "tokens_of returned 1.5; a whole number"),
        (lambda: iter("ab"), {"tokens_of": lambda chunk: None}, "tokens_of returned None"),
        (lambda: iter("ab"), {"requests": 0}, "at least 1 request"),
    ],
)
def test_explains_what_is_wrong_with_a_stream(
    cpu: FakeDevice, stream: Callable[[], Any], hooks: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        measure_stream(stream, device=cpu, **hooks)


def test_takes_torch_streams_on_the_real_machine() -> None:
    import torch

    layer = torch.nn.Linear(8, 8)

    def stream() -> Iterator[torch.Tensor]:
        state = torch.ones(2, 8)
        for _ in range(12):
            state = layer(state).detach()
            yield state

    request = StreamRequest(stream, this_device())
    recording = trace_requests_after_warmup(request, requests=2, warmup_s=0.01)

    assert isinstance(recording, RecordedRequests)
    assert [len(trace.chunks) for trace in recording.wall] == [12, 12]
    assert all(isinstance(trace, RequestTrace) for trace in recording.wall + recording.cpu)
