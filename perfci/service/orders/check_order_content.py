"""Check what an order asks for: it comes from strangers and reaches a machine that measures."""

from __future__ import annotations

import re
from typing import Final

from perfci.model import PerfciError
from perfci.net.api_schemas.measurement_orders import NewOrder, OrderShape
from perfci.store.jobs.measurement_orders import OrderContent

COMPARE, MEASURE, BISECT, BACKFILL = "compare", "measure", "bisect", "backfill"
KINDS: Final = (COMPARE, MEASURE, BISECT, BACKFILL)
"""A/B pairs of base against head, one commit into the history, the search for the commit that moved a level,
and the commits of a range into the history.
"""

LOCAL_ENGINE, GITHUB_ENGINE, RAY_ENGINE = "local", "github", "ray"
ENGINES: Final = (LOCAL_ENGINE, GITHUB_ENGINE, RAY_ENGINE)

SOURCES: Final = ("cli", "api", "page", "comment", "label")
SUITES: Final = ("", "default", "full")

MAX_BENCH_LENGTH: Final = 200
MIN_PAIRS, MAX_PAIRS = 4, 200
MIN_BISECT_PROCESSES, MAX_PROCESSES = 10, 10_000
MIN_BUDGET_S, MAX_BUDGET_S = 60, 7 * 86_400
MAX_STRIDE = 10_000
MAX_METRIC_LENGTH: Final = 200
FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def build_order_content(new_order: NewOrder) -> OrderContent:
    """Build the content of an order that came as a request: without a kind, a comparison where it names a
    base.
    """
    kind = new_order.kind or (MEASURE if new_order.base is None else COMPARE)
    return _build_content(kind, new_order)


def read_order_content(order: OrderShape) -> OrderContent:
    """Read the content of an order as a worker received it, which checks it again."""
    return _build_content(order.kind, order)


def _build_content(kind: str, order: NewOrder | OrderShape) -> OrderContent:
    return OrderContent(
        kind,
        order.base,
        order.head,
        order.bench,
        order.pairs,
        order.suite,
        order.engine,
        order.metric,
        order.max_processes,
        order.budget_s,
        order.stride,
    )


def check_order_content(content: OrderContent) -> None:
    """Raise a sentence where an order is not of known words, full commit ids and a valid expression.

    Nothing of it is ever a part of a command line that a shell reads; the expression must not begin with a
    dash, so that no program takes it for an option.
    """
    _check_word("kind", content.kind, KINDS)
    _check_word("engine", content.engine, ENGINES)
    _check_word("suite", content.suite, SUITES)
    _check_commits(content)
    check_bench_expression(content.bench)
    check_pair_count(content.pairs)
    if content.pairs is not None and content.kind != COMPARE:
        raise PerfciError("A number of pairs belongs to a comparison: name a base too.")
    _check_bisect_and_backfill(content)


def check_bench_expression(bench: str) -> None:
    """Raise a sentence where the expression that selects benchmarks is none, too long or like an option."""
    if len(bench) > MAX_BENCH_LENGTH:
        raise PerfciError(f"An expression of at most {MAX_BENCH_LENGTH} characters was expected.")
    if bench.startswith("-"):
        raise PerfciError("An expression must not begin with a dash: write [-] for one.")
    if not bench.isprintable():
        raise PerfciError("An expression is one line of printable characters.")
    try:
        re.compile(bench)
    except (re.error, RecursionError, OverflowError) as error:
        raise PerfciError(f"{bench!r} is not a regular expression: {error}") from None


def check_pair_count(pairs: int | None) -> None:
    """Raise a sentence where a fixed number of pairs is beyond the limits."""
    if pairs is not None and not MIN_PAIRS <= pairs <= MAX_PAIRS:
        raise PerfciError(f"{MIN_PAIRS} to {MAX_PAIRS} pairs can be ordered, not {pairs}.")


def _check_bisect_and_backfill(content: OrderContent) -> None:
    """Raise a sentence where an order has a bound of another kind, or one beyond the limits."""
    if content.metric and content.kind != BISECT:
        raise PerfciError("A metric belongs to a bisect; other orders measure all of a benchmark.")
    if len(content.metric) > MAX_METRIC_LENGTH or not content.metric.isprintable():
        raise PerfciError(f"A metric is one line of at most {MAX_METRIC_LENGTH} printable characters.")
    if content.budget_s is not None and content.kind != BISECT:
        raise PerfciError("A budget of time belongs to a bisect; a backfill is bounded by processes.")
    if content.stride is not None and content.kind != BACKFILL:
        raise PerfciError("A stride belongs to a backfill: it measures every so many commits.")
    if content.max_processes is not None and content.kind not in (BISECT, BACKFILL):
        raise PerfciError("A number of processes belongs to a bisect or a backfill.")
    least = MIN_BISECT_PROCESSES if content.kind == BISECT else 1
    _check_limit("processes", content.max_processes, least, MAX_PROCESSES)
    _check_limit("seconds", content.budget_s, MIN_BUDGET_S, MAX_BUDGET_S)
    _check_limit("commits", content.stride, 1, MAX_STRIDE)


def _check_limit(what: str, value: int | None, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise PerfciError(f"{least} to {most} {what} were expected, not {value}.")


def _check_commits(content: OrderContent) -> None:
    if content.kind in (BISECT, BACKFILL) and content.base_sha is None:
        raise PerfciError(f"A {content.kind} needs the last good commit as its base, and a head after it.")
    if (content.base_sha is None) != (content.kind == MEASURE):
        raise PerfciError("A comparison needs a base and a head; one measured commit has no base.")
    for sha in (content.base_sha, content.head_sha):
        if sha is not None and not FULL_SHA.fullmatch(sha):
            raise PerfciError(f"{sha[:80]!r} is not the full id of a commit (40 or 64 hexadecimal digits).")


def _check_word(name: str, word: str, words: tuple[str, ...]) -> None:
    if word not in words:
        expected = ", ".join(item or "nothing" for item in words)
        raise PerfciError(f"The {name} of an order is one of {expected}, not {word[:80]!r}.")
