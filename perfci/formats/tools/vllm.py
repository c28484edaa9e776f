"""Read JSON of ``vllm bench``: latency of a batch, serving of a load, throughput of a data set.

Written after vllm/benchmarks/{latency,serve,throughput}.py of vLLM; a file of serve may hold one object on
each line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfci.formats.bounded_files import read_decompressed
from perfci.formats.content_outline import ContentOutline
from perfci.formats.format_types import ImportDefaults, ImportedRun, WarnCallback
from perfci.formats.run_builder import RunBuilder
from perfci.formats.value_parsing import (
    MAX_BYTES,
    file_modified_at,
    list_or_empty,
    parse_count,
    parse_finite,
    parse_json_or_lines,
    to_text,
    to_text_pairs,
)
from perfci.model import Clock, Metric, NamedValues, PerfciError, SampleSummary, Status

TOOL = "vllm"

LOAD_FIELDS = (
    *("model_id", "backend", "request_rate", "burstiness", "max_concurrency", "num_prompts"),
    *("ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps"),
)
"""The load of ``serve``; a different load is a different series."""

IGNORED_FIELDS = {
    *(
        "date",
        "endpoint_type",
        "label",
        "tokenizer_id",
        "duration",
        "completed",
        "failed",
        "total_input_tokens",
    ),
    *(
        "total_input",
        "total_output_tokens",
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "generated_texts",
        "errors",
    ),
    *("start_times", "rps_change_events", "max_concurrent_requests", "best_of"),
}

RATE_METRICS = {
    "request_throughput": Metric("request_throughput", "requests/s", "higher"),
    "request_goodput": Metric("goodput", "requests/s", "higher"),
    "request_goodput:": Metric("goodput", "requests/s", "higher"),  # as older vLLM spelt it
    "output_throughput": Metric("output_throughput", "tokens/s", "higher"),
    "total_token_throughput": Metric("total_token_throughput", "tokens/s", "higher"),
    "max_output_tokens_per_s": Metric("max_output_tokens_per_s", "tokens/s", "higher"),
}

THROUGHPUT_METRICS = {
    "requests_per_second": Metric("request_throughput", "requests/s", "higher"),
    "tokens_per_second": Metric("total_token_throughput", "tokens/s", "higher"),
}

COMMAND_KEYS = (
    ("avg_latency", "percentiles"),
    ("request_throughput", "total_input_tokens"),
    ("requests_per_second", "elapsed_time"),
)
"""Keys that each of the three commands writes near the start of its file."""

SUMMARY_FIELD = re.compile(
    r"(?P<statistic>mean|median|std|p\d+(?:\.\d+)?)_(?P<quantity>ttft|tpot|itl|e2el)_ms"
)


def can_read(path: Path, outline: ContentOutline) -> bool:
    return any(outline.has_keys(*keys) for keys in COMMAND_KEYS)


def read_imported_runs(path: Path, defaults: ImportDefaults, warn: WarnCallback) -> Iterator[ImportedRun]:
    """Yield a run for each object; the command follows from its keys, since its name is not written."""
    objects = [
        value
        for value in parse_json_or_lines(read_decompressed(path, MAX_BYTES), str(path))
        if isinstance(value, dict)
    ]
    readers = [(_find_reader(content), content) for content in objects]
    if not any(reader for reader, _ in readers):
        raise PerfciError(f"{path} is not a file of vllm bench: expected latency, serve or throughput.")
    for read, content in readers:
        if read is None:
            warn("an object that is neither latency, serve nor throughput was skipped")
            continue
        run = RunBuilder(
            TOOL,
            str(path),
            defaults,
            warn,
            started_at=_parse_date(content.get("date")) or file_modified_at(path),
            environment=to_text_pairs(
                {"tokenizer": content.get("tokenizer_id"), "label": content.get("label")}
            ),
            variant=_read_variant(content) if read is _read_serve else (),
        )
        # Files of latency and throughput do not say their load, so their name is the parameter.
        load = to_text_pairs({name: content.get(name) for name in LOAD_FIELDS})
        parameters = load if "model_id" in content else (("file", path.name.split(".json")[0]),)
        read(run, content, parameters, warn)
        yield run.build(json.dumps(content, sort_keys=True).encode())


CommandReader = Callable[[RunBuilder, Mapping[str, Any], NamedValues, WarnCallback], None]


def _find_reader(content: Mapping[str, Any]) -> CommandReader | None:
    if "avg_latency" in content:
        return _read_latency
    if "request_throughput" in content:
        return _read_serve
    return _read_throughput if "requests_per_second" in content else None


def _read_latency(
    run: RunBuilder, content: Mapping[str, Any], parameters: NamedValues, warn: WarnCallback
) -> None:
    metric, mean = Metric("latency", "seconds"), parse_finite(content.get("avg_latency"))
    if latencies := list_or_empty(content.get("latencies")):
        run.add_result_from_samples("latency", parameters, metric, latencies, Clock.WALL)
    elif mean is not None:
        run.add_result_from_summary("latency", parameters, metric, SampleSummary(mean))
    else:
        run.add_result_without_value("latency", parameters, metric, Status.FAILED, "no latency was measured")


def _read_throughput(
    run: RunBuilder, content: Mapping[str, Any], parameters: NamedValues, warn: WarnCallback
) -> None:
    for name, metric in THROUGHPUT_METRICS.items():
        if name in content:
            run.add_result_from_samples("throughput", parameters, metric, [content[name]], Clock.WALL)


def _read_serve(
    run: RunBuilder, content: Mapping[str, Any], parameters: NamedValues, warn: WarnCallback
) -> None:
    """Add rates of the load and latencies of requests: samples with ``--save-detailed``, else summaries."""
    failed = _failed_requests_reason(content)
    for name, metric in RATE_METRICS.items():
        if content.get(name) is not None:
            if failed:
                run.add_result_without_value("serve", parameters, metric, Status.FAILED, failed)
            else:
                run.add_result_from_samples("serve", parameters, metric, [content[name]], Clock.WALL)
    if failed:
        return
    raw = _request_latencies(content)
    for name, values in raw.items():
        run.add_result_from_samples("serve", parameters, Metric(name, "seconds"), values, Clock.WALL)
    if not raw:
        warn(
            "requests were not saved: give --save-detailed, "
            "or latencies of two commits cannot be compared in pairs"
        )
    _add_summaries(run, content, parameters, raw)


def _add_summaries(
    run: RunBuilder, content: Mapping[str, Any], parameters: NamedValues, raw: Mapping[str, object]
) -> None:
    """Add vLLM's statistics: medians replace requests that were not saved, all others are only shown."""
    for name, value in content.items():
        match, number = SUMMARY_FIELD.fullmatch(name), parse_finite(value)
        if match is None or number is None or match["statistic"] == "std":
            continue
        statistic, quantity, seconds = match["statistic"], match["quantity"], number / 1000
        if statistic == "median" and quantity not in raw:
            run.add_result_from_summary(
                "serve",
                parameters,
                Metric(quantity, "seconds"),
                SampleSummary(seconds, n=parse_count(content.get("completed"))),
            )
        elif statistic != "median":
            metric = Metric(f"{quantity}_{statistic.replace('.', '_')}", "seconds")
            run.add_result_from_samples("serve", parameters, metric, [seconds], Clock.INFORMATIONAL)


def _request_latencies(content: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return TTFT, TPOT (mean gap) and ITL (every gap) of the requests that succeeded, in seconds."""
    successes = [not error for error in list_or_empty(content.get("errors"))]
    ttfts, itls = list_or_empty(content.get("ttfts")), list_or_empty(content.get("itls"))
    successes = successes if len(successes) == len(ttfts) else [True] * len(ttfts)
    gaps = [list_or_empty(itl) for itl, succeeded in zip(itls, successes, strict=False) if succeeded]
    means = [
        sum(request_gaps) / len(request_gaps)
        for request_gaps in gaps
        if request_gaps and all(parse_finite(gap) is not None for gap in request_gaps)
    ]
    latencies = {
        "ttft": [ttft for ttft, succeeded in zip(ttfts, successes, strict=False) if succeeded],
        "tpot": means,
        "itl": [gap for request_gaps in gaps for gap in request_gaps],
    }
    return {name: values for name, values in latencies.items() if values}


def _failed_requests_reason(content: Mapping[str, Any]) -> str:
    """Return why a load with failed requests is not a measurement: it has fewer tokens and shorter queues."""
    requested, completed = parse_finite(content.get("num_prompts")), parse_finite(content.get("completed"))
    failed = parse_finite(content.get("failed"))
    if failed is None and requested is not None and completed is not None:
        failed = requested - completed
    return f"{failed:g} requests failed" if failed and failed > 0 else ""


def _read_variant(content: Mapping[str, Any]) -> NamedValues:
    """Return the values of ``--metadata KEY=VALUE`` as the variant, without dates and versions."""
    standard_fields = {*LOAD_FIELDS, *IGNORED_FIELDS, *RATE_METRICS}
    metadata = {
        name: value
        for name, value in content.items()
        if name not in standard_fields and isinstance(value, str)
    }
    return to_text_pairs(
        {
            name: value
            for name, value in metadata.items()
            if not re.search(r"version|commit|sha|date|time", name)
        }
    )


def _parse_date(value: object) -> datetime | None:
    """Parse ``20250401-120000``, local time of the machine without a zone, as UTC."""
    try:
        return datetime.strptime(to_text(value), "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
