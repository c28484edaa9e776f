"""Requests to a model are computed as its parameters say, by every group of metrics that sends some."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from test_model_bench import Served, measure
from tiny_gpt import WIDTH, TinyGPT, some_tokens
from torch import Tensor, nn

from perfci.bench import ModelBench
from perfci.bench.compilers.compile_model import compile_model
from perfci.bench.metric_groups.cold_start import run_to_first_output
from perfci.bench.metric_groups.model_requests import infer_sequence_count
from perfci.bench.timers.stage_timers import Stages
from perfci.model import PerfciError

SEEN: list[tuple[torch.dtype, bool, bool]] = []


class Answering(ModelBench):
    """A GPT that notes the type of its logits, whether gradients are on, and whether it autocasts."""

    params = {"dtype": ["fp32", "bf16"], "held": ["fp32", "bf16"]}
    requests = 1

    def build(self, p: Mapping[str, Any]) -> nn.Module:
        return TinyGPT().to(torch.bfloat16 if p["held"] == "bf16" else torch.float32)

    def stream(self, model: Any, p: Mapping[str, Any]) -> Iterator[Tensor]:
        past = None
        tokens = some_tokens(4)
        for _ in range(3):
            logits, past = model.last_logits(tokens, past)
            SEEN.append((logits.dtype, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
            tokens = logits.argmax(dim=-1, keepdim=True)
            yield tokens


def start_cold(bench: type[ModelBench], parameters: Mapping[str, Any]) -> None:
    """What a fresh interpreter does, in this one."""
    folder = str(Path(__file__).parent)
    run_to_first_output(folder, bench.__module__, bench.__qualname__, repr(parameters), time.monotonic())


def send_by_every_group(bench: type[ModelBench], parameters: Mapping[str, Any]) -> None:
    for group in ("generation", "stages", "stream_counts"):
        measure(bench, group, *parameters.values())
    start_cold(bench, parameters)


def test_computes_requests_in_the_format_of_the_cell_and_without_gradients() -> None:
    SEEN.clear()
    send_by_every_group(Answering, {"dtype": "bf16", "held": "fp32"})

    assert set(SEEN) == {(torch.bfloat16, False, True)}

    SEEN.clear()
    send_by_every_group(Answering, {"dtype": "fp32", "held": "fp32"})

    assert set(SEEN) == {(torch.float32, False, False)}


def test_leaves_a_model_alone_that_is_in_the_format_itself() -> None:
    SEEN.clear()
    send_by_every_group(Answering, {"dtype": "bf16", "held": "bf16"})

    assert set(SEEN) == {(torch.bfloat16, False, False)}


README = Path(__file__).parents[2] / "README.md"


class ReadmeModel(TinyGPT):
    """What the ten lines of the README import: 256 tokens, and ``generate`` that streams."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(256, WIDTH), nn.Linear(WIDTH, 256, bias=False)

    def generate(self, tokens: Tensor, count: int) -> Iterator[Tensor]:
        for _ in range(count):
            logits = self(tokens)[:, -1]
            SEEN.append((logits.dtype, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
            tokens = logits.argmax(dim=-1, keepdim=True)
            yield tokens


def test_the_ten_lines_of_the_readme_compute_in_the_format_of_each_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lines,) = (part for part in README.read_text().split("```") if "class MyModel(ModelBench)" in part)
    (tmp_path / "readme_bench.py").write_text(lines.removeprefix("python\n"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "mymodel", SimpleNamespace(Model=ReadmeModel))
    bench = importlib.import_module("readme_bench").MyModel

    SEEN.clear()
    readings = measure(bench, "generation", 8, "bf16")

    assert {dtype for dtype, _, _ in SEEN} == {torch.bfloat16}
    tokens = 8 * 16 * len(readings["e2el"]["samples"]) / sum(readings["e2el"]["samples"])
    assert readings["generate_tok_s"]["samples"] == [pytest.approx(tokens)]

    SEEN.clear()
    measure(bench, "stream_counts", 8, "fp32")

    assert {dtype for dtype, _, _ in SEEN} == {torch.float32}


class Prompted(Served):
    """Needs its prompt and its sound; what the prompt costs is nobody's latency."""

    def prompt(self, p: Mapping[str, Any]) -> Tensor:
        return torch.randint(16, (2, 1), generator=torch.Generator().manual_seed(0))

    def audio_in(self, p: Mapping[str, Any]) -> list[tuple[Tensor, float]]:
        return [(torch.ones(4), 0.25)] * 4

    def stream(  # type: ignore[override]
        self, model: nn.Module, p: Mapping[str, Any], token: Tensor, audio: Iterator[Tensor]
    ) -> Iterator[Tensor]:
        assert sum(float(piece.sum()) for piece in audio) == 16
        for _ in range(p["tokens"]):
            token = model(token).argmax(dim=-1)
            yield token


def test_gives_every_group_the_prompt_and_the_sound() -> None:
    send_by_every_group(Prompted, {"tokens": 4})

    readings = measure(Prompted, "generation")

    # Latency counts from the end of a second of sound, of which the request slept through nearly all.
    assert readings["ttft"]["samples"][0] < 1
    assert readings["rtf"]["samples"][0] < 1


def test_a_prompt_is_in_no_count() -> None:
    class Costly(Served):
        def prompt(self, p: Mapping[str, Any]) -> Tensor:
            return torch.ones(64, 64) @ torch.ones(64, 64)

        def stream(self, model: nn.Module, p: Mapping[str, Any], text: Tensor) -> Iterator[Tensor]:  # type: ignore[override]
            return super().stream(model, p)

    assert measure(Costly, "stream_counts") == measure(Served, "stream_counts")


def test_counts_all_sequences_of_a_batch_in_the_rate() -> None:
    def rate(bench: type[ModelBench]) -> float:
        readings = measure(bench, "generation")
        seconds = sum(readings["e2el"]["samples"])
        return float(readings["generate_tok_s"]["samples"][0] * seconds / (Served.requests * 4))

    class Batched(Served):
        def stream(self, model: nn.Module, p: Mapping[str, Any]) -> Iterator[Tensor]:
            for token in super().stream(model, p):
                yield token.expand(8, 1)

    class Named(Served):
        def sequences(self, p: Mapping[str, Any]) -> int:
            return 5

    assert [rate(Served), rate(Batched), rate(Named)] == pytest.approx([1, 8, 5])


@pytest.mark.parametrize(
    ("chunk", "batch", "sequences"),
    [
        (torch.zeros(8, 1, dtype=torch.long), 8, 8),
        (torch.zeros(8, 1, dtype=torch.long), 1, 8),
        (torch.zeros(8, dtype=torch.long), 8, 8),
        (torch.zeros(8, dtype=torch.long), 1, 1),
        (torch.zeros(2, 640), 1, 1),
        ("text", 1, 1),
        ("text", 8, None),
        (torch.zeros(2, 640), 8, None),
    ],
)
def test_reads_sequences_from_a_chunk_or_says_that_they_are_unknown(
    chunk: Any, batch: int, sequences: int | None
) -> None:
    assert infer_sequence_count(chunk, batch) == sequences


class Ready(Served):
    def init(self, model: nn.Module, p: Mapping[str, Any]) -> None:
        model.register_buffer("ready", torch.ones(1))

    def stream(self, model: Any, p: Mapping[str, Any]) -> Iterator[Tensor]:
        assert model.ready.all()
        return super().stream(model, p)


def test_makes_a_model_ready_in_a_stage_of_its_own() -> None:
    send_by_every_group(Ready, {"tokens": 4})

    assert measure(Ready, "stages")["init"]["status"] == "ok"
    assert measure(Served, "stages")["init"]["reason"] == "it defines no init"


def test_a_start_that_another_process_interrupted_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, begin_stage = [], Stages.enter

    def enter_later(stages: Stages, name: str) -> None:
        if name == "first_call":
            time.sleep(0.05)
        entered.append(name)
        begin_stage(stages, name)

    monkeypatch.setattr(Stages, "enter", enter_later)

    assert measure(Served, "stages")["first_call"]["status"] == "ok"
    assert entered[:2] == ["load", "first_call"]


class Choosing(Served):
    params = {"tokens": [4], "compile": [False, True, "max-autotune"]}


@pytest.fixture
def compiled_with(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The modes that modules were compiled in; nothing is."""
    modes: list[Any] = []
    monkeypatch.setattr(nn.Module, "compile", lambda self, **options: modes.append(options["mode"]))
    monkeypatch.setattr("perfci.bench.model_bench.require_compiled_graphs", lambda choice: None)
    return modes


def test_compiles_the_model_where_a_parameter_says_so(compiled_with: list[Any]) -> None:
    for choice in (False, True, "max-autotune"):
        send_by_every_group(Choosing, {"tokens": 4, "compile": choice})

    assert compiled_with == [None] * 4 + ["max-autotune"] * 4


def test_calls_the_compiled_model_from_its_own_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def compile_in_place(module: nn.Module, **_: Any) -> None:
        module._compiled_call_impl = calls.append  # type: ignore[assignment]

    monkeypatch.setattr(nn.Module, "compile", compile_in_place)

    class Caller(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + 1

        def generate(self, x: Tensor) -> Tensor:
            return self(x)

    compile_model(Caller(), "default").generate(torch.ones(1))

    assert len(calls) == 1


def test_leaves_a_model_alone_that_its_author_compiled(compiled_with: list[Any]) -> None:
    model = torch.compile(nn.Linear(2, 2), backend="eager")

    assert compile_model(model, True) is model
    assert compiled_with == []


@pytest.mark.parametrize(
    ("model", "choice", "sentence"),
    [
        (nn.Linear(2, 2), "max", r"^compile 'max' is unknown; known are True, False, default, "),
        ("a pipeline", True, r"^build returned str, which has no compile\(\); define compile"),
    ],
)
def test_rejects_what_it_cannot_compile(model: Any, choice: Any, sentence: str) -> None:
    with pytest.raises(PerfciError, match=sentence):
        compile_model(model, choice)
