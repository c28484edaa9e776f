"""Read what ``vllm bench`` writes: latency of a batch, a load served, throughput of a data set.

Written after vllm/benchmarks/{latency,serve,throughput}.py of vLLM; a file of serve may hold one object on each line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from perfci.formats import Document, Given, Warn
from perfci.formats.input_files import read_bytes
from perfci.formats.run_builder import Assembly
from perfci.formats.value_parsing import MAX_BYTES, file_time, finite, listed, pairs, parse_json_lines, text, whole
from perfci.model import Clock, Metric, Pairs, PerfciError, Status, Summary

CHANGED: Literal["refuse", "add"] = "refuse"

TOOL = "vllm"

LOAD = (
    *("model_id", "backend", "request_rate", "burstiness", "max_concurrency", "num_prompts"),
    *("ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"),
)
"""What the load was: another one is another line."""

KNOWN = {
    *("date", "endpoint_type", "label", "tokenizer_id", "duration", "completed", "failed", "total_input_tokens"),
    *("total_input", "total_output_tokens", "input_lens", "output_lens", "ttfts", "itls", "generated_texts", "errors"),
    *("start_times", "rps_change_events", "max_concurrent_requests", "best_of"),
}

RATES = {
    "request_throughput": Metric("request_throughput", "requests/s", "higher"),
    "request_goodput": Metric("goodput", "requests/s", "higher"),
    "request_goodput:": Metric("goodput", "requests/s", "higher"),  # as older vLLM spelt it
    "output_throughput": Metric("output_throughput", "tokens/s", "higher"),
    "total_token_throughput": Metric("total_token_throughput", "tokens/s", "higher"),
    "max_output_tokens_per_s": Metric("max_output_tokens_per_s", "tokens/s", "higher"),
}

THROUGHPUT = {
    "requests_per_second": Metric("request_throughput", "requests/s", "higher"),
    "tokens_per_second": Metric("total_token_throughput", "tokens/s", "higher"),
}

MARKS = (
    (b'"avg_latency"', b'"percentiles"'),
    (b'"request_throughput"', b'"total_input_tokens"'),
    (b'"requests_per_second"', b'"elapsed_time"'),
)
"""What each of the three commands writes near the start of its file."""

SUMMARY = re.compile(r"(?P<which>mean|median|std|p\d+(?:\.\d+)?)_(?P<what>ttft|tpot|itl|e2el)_ms")


def recognises(path: Path, head: bytes) -> bool:
    return b'"benchmark_values"' not in head and any(all(mark in head for mark in marks) for marks in MARKS)


def documents(path: Path, given: Given, warn: Warn) -> Iterator[Document]:
    """A run for each object. The command is told by what it wrote, for none of them names itself."""
    objects = [one for one in parse_json_lines(read_bytes(path, MAX_BYTES), str(path)) if isinstance(one, dict)]
    readers = [(_reader(content), content) for content in objects]
    if not any(reader for reader, _ in readers):
        raise PerfciError(f"{path} is no file of vllm bench: expected latency, serve or throughput.")
    for read, content in readers:
        if read is None:
            warn("an object that is neither latency, serve nor throughput is left out")
            continue
        run = Assembly(
            TOOL,
            str(path),
            given,
            warn,
            started_at=_date(content.get("date")) or file_time(path),
            environment=pairs({"tokenizer": content.get("tokenizer_id"), "label": content.get("label")}),
            variant=_variant(content) if read is _serve else (),
        )
        read(run, content, _setting(content, path), warn)
        yield run.document(json.dumps(content, sort_keys=True).encode())


Reader = Callable[[Assembly, Mapping[str, Any], Pairs, Warn], None]


def _reader(content: Mapping[str, Any]) -> Reader | None:
    if "avg_latency" in content:
        return _latency
    if "request_throughput" in content:
        return _serve
    return _throughput if "requests_per_second" in content else None


def _latency(run: Assembly, content: Mapping[str, Any], setting: Pairs, warn: Warn) -> None:
    metric, mean = Metric("latency", "seconds"), finite(content.get("avg_latency"))
    if latencies := listed(content.get("latencies")):
        run.samples("latency", setting, metric, latencies, Clock.WALL)
    elif mean is not None:
        run.summary("latency", setting, metric, Summary(mean))
    else:
        run.ended("latency", setting, metric, Status.FAILED, "no latency was measured")


def _throughput(run: Assembly, content: Mapping[str, Any], setting: Pairs, warn: Warn) -> None:
    for name, metric in THROUGHPUT.items():
        if name in content:
            run.samples("throughput", setting, metric, [content[name]], Clock.WALL)


def _serve(run: Assembly, content: Mapping[str, Any], setting: Pairs, warn: Warn) -> None:
    """Rates of the whole load, and the latencies of its requests: all of them with ``--save-detailed``, else sums."""
    failed = _failed(content)
    for name, metric in RATES.items():
        if content.get(name) is not None:
            if failed:
                run.ended("serve", setting, metric, Status.FAILED, failed)
            else:
                run.samples("serve", setting, metric, [content[name]], Clock.WALL)
    if failed:
        return
    raw = _requests(content)
    for name, values in raw.items():
        run.samples("serve", setting, Metric(name, "seconds"), values, Clock.WALL)
    if not raw:
        warn("requests were not saved: give --save-detailed, or latencies of two commits cannot be compared in pairs")
    _summaries(run, content, setting, raw)


def _summaries(run: Assembly, content: Mapping[str, Any], setting: Pairs, raw: Mapping[str, object]) -> None:
    """What vLLM computed: medians stand in for requests that were not saved, all else is only shown."""
    for name, value in content.items():
        found, number = SUMMARY.fullmatch(name), finite(value)
        if found is None or number is None or found["which"] == "std":
            continue
        what, seconds = found["what"], number / 1000
        if found["which"] == "median" and what not in raw:
            run.summary("serve", setting, Metric(what, "seconds"), Summary(seconds, n=whole(content.get("completed"))))
        elif found["which"] != "median":
            shown = Metric(f"{what}_{found['which'].replace('.', '_')}", "seconds")
            run.samples("serve", setting, shown, [seconds], Clock.WITNESS)


def _requests(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Time to first token, mean time of each further one, and every gap; of requests that ended well."""
    good = [not error for error in listed(content.get("errors"))]
    ttfts, itls = listed(content.get("ttfts")), listed(content.get("itls"))
    good = good if len(good) == len(ttfts) else [True] * len(ttfts)
    gaps = [listed(one) for one, fine in zip(itls, good, strict=False) if fine]
    means = [sum(one) / len(one) for one in gaps if one and all(finite(gap) is not None for gap in one)]
    found = {
        "ttft": [one for one, fine in zip(ttfts, good, strict=False) if fine],
        "tpot": means,
        "itl": [gap for one in gaps for gap in one],
    }
    return {name: values for name, values in found.items() if values}


def _failed(content: Mapping[str, Any]) -> str:
    """Requests that failed make a load another one: fewer tokens, shorter queues."""
    asked, done, failed = (finite(content.get(name)) for name in ("num_prompts", "completed", "failed"))
    if failed is None and asked is not None and done is not None:
        failed = asked - done
    return f"{failed:g} requests failed" if failed and failed > 0 else ""


def _setting(content: Mapping[str, Any], path: Path) -> Pairs:
    """The load; latency and throughput say nothing of theirs, so that the file's name has to tell it."""
    named = {name: content.get(name) for name in LOAD}
    return pairs(named) if "model_id" in content else (("file", path.name.split(".json")[0]),)


def _variant(content: Mapping[str, Any]) -> Pairs:
    """What ``--metadata KEY=VALUE`` added, which somebody chose to say; dates and versions only date it."""
    known = {*LOAD, *KNOWN, *RATES}
    said = {name: value for name, value in content.items() if name not in known and isinstance(value, str)}
    return pairs({name: value for name, value in said.items() if not re.search(r"version|commit|sha|date|time", name)})


def _date(told: object) -> datetime | None:
    """``20250401-120000``, by the clock of the machine, whose zone is not written: taken as UTC."""
    try:
        return datetime.strptime(text(told), "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
