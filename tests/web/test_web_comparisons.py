"""The page of a comparison, the form that leads to one, and the page of a commit."""

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from flask.testing import FlaskClient
from page_reading import COMPARE, P, read, words
from web_builders import COMMITS, EMULATED, NOW, STEP, a_commit, a_series, a_store, a_verdict

from perfci.model import Interval, TailVerdict, Verdict, VerdictKind
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import start_session
from perfci_web import create_app


def test_counts_verdicts_of_every_kind(client: FlaskClient) -> None:
    text = words(read(client, COMPARE))

    counts = "1 failed, 1 regression, 1 inconclusive, 1 not comparable, 1 missing, 1 improvement, 2 unchanged"
    assert counts in text
    assert "about 14 more pairs would decide" in text
    assert "Worst: serve.Generate.time_batch(64) failed" in text


def test_shows_informational_metrics_of_a_comparison(client: FlaskClient) -> None:
    assert re.search(
        r"3 informational metrics, shown and not judged.*time_step\(8, 'bf16'\) time \+1\d\.\d %",
        words(read(client, COMPARE)),
    )


def test_folds_series_that_neither_side_could_measure(client: FlaskClient) -> None:
    text = words(read(client, COMPARE))

    assert f"5 not available on either side 3 {EMULATED}" in text


def test_shows_differences_of_the_environment(client: FlaskClient) -> None:
    assert "torch2.12.12.13.0" in words(read(client, COMPARE))


def test_accepts_sha_prefixes_and_swaps_sides(client: FlaskClient) -> None:
    short = f"{P}/compare/{a_commit(STEP - 1).sha[:8]}...{a_commit(STEP).sha[:8]}"

    assert words(read(client, short)) == words(read(client, COMPARE))
    assert f"{P}/compare/{a_commit(STEP).sha}...{a_commit(STEP - 1).sha}" in read(client, COMPARE)


def test_redirects_the_form_to_the_address_of_the_comparison(client: FlaskClient) -> None:
    answer = client.get(f"{P}/compare?base=abc&head=def")

    assert (answer.status_code, answer.location) == (302, f"{P}/compare/abc...def")
    assert "3 comparisons to read" in words(read(client, f"{P}/compare"))


def test_shows_the_measurements_of_a_commit(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/commit/{a_commit(COMMITS - 1).sha[:10]}"))

    assert "9 series measured; 1 failed; 5 not available here." in text
    assert f"5 not available here 3 {EMULATED}" in text
    assert "3 informational metrics, shown and not judged" in text
    assert "Failed 1 oom: torch.OutOfMemoryError" in text
    assert "governor" in text
    assert f"perfci run {a_commit(COMMITS - 1).short_sha}" in text


@pytest.fixture(scope="module")
def long_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """A comparison of 130 series, three of which moved, and one of a slower prefill."""
    with closing(a_store(tmp_path_factory.mktemp("long"))) as store:
        ratios = [1.2, 1.1, 0.8, *(1 + k / 10_000 for k in range(127))]
        verdicts = [a_long_verdict(k, ratio) for k, ratio in enumerate(ratios)]
        with store.begin() as tx:
            upsert_commits(tx, "acme/tiny-lm", [a_commit(1), a_commit(2)])
            start_session(tx, "acme/tiny-lm", "pairs", "compare", "spec", 7, 0, NOW)
            add_verdicts(tx, "acme/tiny-lm", "pairs", verdicts, NOW)
            upsert_commits(tx, "acme/tiny-lm", [a_commit(3)])
            add_verdicts(tx, "acme/tiny-lm", "pairs", slower_prefill(), NOW)
        yield create_app(store, clock=lambda: NOW).test_client()


def a_long_verdict(number: int, ratio: float) -> Verdict:
    kind = VerdictKind.UNCHANGED
    if number < 3:
        kind = VerdictKind.REGRESSION if ratio > 1 else VerdictKind.IMPROVEMENT
    return a_verdict(a_series(f"long.time_{number:03}"), 2, kind, ratio)


def slower_prefill() -> list[Verdict]:
    """The time to the first token got worse at 52 batch sizes, and the whole request with it."""
    tail = TailVerdict(VerdictKind.REGRESSION, 1.6, Interval(1.5, 1.7))
    rows = [("ttft", 1.5), ("e2el", 1.2)]
    return [
        replace(
            a_verdict(
                a_series("gpt.Gpt.measure_generation", metric, batch=batch), 3, VerdictKind.REGRESSION, ratio
            ),
            tail=tail,
        )
        for batch in range(52)
        for metric, ratio in rows
    ]


LONG = f"{P}/compare/{a_commit(1).sha}...{a_commit(2).sha}"
LONG_COMMIT = f"{P}/commit/{a_commit(2).sha}"


def benchmarks_in(page: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"long\.time_\d+", words(page))))


def test_a_long_comparison_shows_what_moved_most_and_pages_of_the_rest(long_client: FlaskClient) -> None:
    first, third = read(long_client, LONG), read(long_client, f"{LONG}?show=unchanged&page=3")

    assert benchmarks_in(first)[:4] == [
        "long.time_000",
        "long.time_001",
        "long.time_002",
        "long.time_129",
    ]
    assert len(benchmarks_in(first)) == 53
    assert "Everything Decided and open 3 Unchanged 127" in words(first)
    assert "127 unchanged" in words(first)
    assert "Page 1 of 3" in words(first)
    assert f'href="{LONG}?show=unchanged&amp;page=2">Next' in first
    assert benchmarks_in(third)[1:] == [f"long.time_{k:03}" for k in range(29, 2, -1)]
    assert f'href="{LONG}?show=unchanged&amp;page=2">← Previous' in third
    assert len(long_client.get(f"{LONG}.json").get_json()["verdicts"]) == 130


def test_what_moved_with_changes_is_a_quiet_list_with_its_tails(long_client: FlaskClient) -> None:
    address = f"{P}/compare/{a_commit(2).sha}...{a_commit(3).sha}"
    first, second = words(read(long_client, address)), read(long_client, f"{address}?show=explaining&page=2")

    assert "52 regressions. Worst: gpt.Gpt.measure_generation(0) · ttft" in first
    assert "Everything Decided and open 52 Explaining 52" in first
    assert "52 more that explain these, or gate nothing" in first
    assert len(re.findall(r"measure_generation\(\d+\) e2el", words(second))) == 2
    assert words(second).count("p90 worse") == 2
    assert "<details open>" in second


def test_a_search_filters_every_list_of_a_comparison(long_client: FlaskClient) -> None:
    matching, nothing = read(long_client, f"{LONG}?q=time_00"), read(long_client, f"{LONG}?q=nowhere")

    assert benchmarks_in(matching) == [f"long.time_{k:03}" for k in (0, 1, 2, 9, 8, 7, 6, 5, 4, 3)]
    assert 'value="time_00"' in matching
    assert "Everything Decided and open 3 Unchanged 7" in words(matching)
    assert "No series here has “nowhere” in its name" in words(nothing)


def test_a_long_commit_shows_what_moved_most_and_pages_of_the_rest(long_client: FlaskClient) -> None:
    first, quiet = read(long_client, LONG_COMMIT), read(long_client, f"{LONG_COMMIT}?show=quiet&page=2")

    assert len(benchmarks_in(first)) == 53
    assert "Compared with an earlier state 3 Unchanged or open 127" in words(first)
    assert "127 unchanged" in words(first)
    assert benchmarks_in(quiet) == [f"long.time_{k:03}" for k in range(79, 29, -1)]
    assert f'href="{LONG_COMMIT}?show=quiet&amp;page=3">Next' in quiet


def test_a_short_comparison_has_no_search_and_no_pages(client: FlaskClient) -> None:
    page = read(client, COMPARE)

    assert 'type="search"' not in page
    assert "Page 1 of" not in page
