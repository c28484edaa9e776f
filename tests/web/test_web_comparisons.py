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


def test_shows_context_metrics_of_a_comparison_in_a_list_of_their_own(client: FlaskClient) -> None:
    text = words(read(client, f"{COMPARE}?show=context"))

    assert "Context metrics 3" in words(read(client, COMPARE))
    assert re.search(r"Context metrics have no verdict.*time_step\(8, 'bf16'\) time.* \+1\d\.\d %", text)


def test_folds_series_that_neither_side_could_measure(client: FlaskClient) -> None:
    text = words(read(client, COMPARE))

    assert f"5 not available on either side 3 {EMULATED}" in text


def test_shows_differences_of_the_environment(client: FlaskClient) -> None:
    assert "torch2.12.12.13.0" in words(read(client, COMPARE))


def test_accepts_sha_prefixes_and_swaps_sides(client: FlaskClient) -> None:
    short = f"{P}/compare/{a_commit(STEP - 1).sha[:8]}...{a_commit(STEP).sha[:8]}"

    sentence = "1 failed, 1 regression, 1 inconclusive, 1 not comparable, 1 missing"
    assert sentence in words(read(client, short))
    assert words(read(client, short)).count("likely") == words(read(client, COMPARE)).count("likely")
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


def test_a_long_comparison_shows_what_needs_attention_and_pages_of_the_rest(long_client: FlaskClient) -> None:
    first, third = read(long_client, LONG), read(long_client, f"{LONG}?show=unchanged&page=3")

    assert benchmarks_in(first) == ["long.time_000", "long.time_001"]
    assert "Needs attention 2 All 130 Worse 2 Better 1 Unchanged 127" in words(first)
    assert benchmarks_in(read(long_client, f"{LONG}?show=better"))[-1] == "long.time_002"
    assert "Page 3 of 3" in words(third)
    assert benchmarks_in(third)[1:] == [f"long.time_{k:03}" for k in range(29, 2, -1)]
    assert f'href="{LONG}?show=unchanged&amp;page=2">← Previous' in third
    assert len(long_client.get(f"{LONG}.json").get_json()["verdicts"]) == 130


def test_sorts_by_the_headings_of_the_table(long_client: FlaskClient) -> None:
    by_change = benchmarks_in(read(long_client, f"{LONG}?show=all&sort=change&page=3"))
    by_name = benchmarks_in(read(long_client, f"{LONG}?show=all&sort=name"))

    assert by_change[-1] == "long.time_002"
    assert by_name[:3] == ["long.time_000", "long.time_001", "long.time_002"]


def test_groups_rows_with_the_geometric_mean_of_each_group(long_client: FlaskClient) -> None:
    page = read(long_client, f"{P}/compare/{a_commit(2).sha}...{a_commit(3).sha}?group=metric")

    assert "ttft 52 worse · geometric mean +50.0 %" in words(page)
    assert "Geometric mean of head over base, as cost: +50.0 %" in words(page)
    assert "over 52 series" in words(page)


def test_expert_columns_show_pairs_noise_and_p(long_client: FlaskClient) -> None:
    simple, expert = read(long_client, LONG), read(long_client, f"{LONG}?columns=expert")

    assert ">MDE<" not in simple
    assert ">MDE<" in expert
    assert "1e-13" in words(expert)


def test_what_moved_with_changes_is_a_list_of_its_own_with_its_tails(long_client: FlaskClient) -> None:
    address = f"{P}/compare/{a_commit(2).sha}...{a_commit(3).sha}"
    first, second = words(read(long_client, address)), read(long_client, f"{address}?show=explaining&page=2")

    assert "52 regressions. Worst: gpt.Gpt.measure_generation(0) · ttft" in first
    assert "Needs attention 52 All 52 Worse 52 Explaining 52" in first
    assert len(re.findall(r"measure_generation\(\d+\) e2el", words(second))) == 2
    assert words(second).count("p90 worse") == 2


def test_a_search_filters_the_table_of_a_comparison(long_client: FlaskClient) -> None:
    matching = read(long_client, f"{LONG}?q=time_00&show=all")
    nothing = read(long_client, f"{LONG}?q=nowhere")

    assert benchmarks_in(matching) == [f"long.time_{k:03}" for k in (0, 1, 2, 9, 8, 7, 6, 5, 4, 3)]
    assert 'value="time_00"' in matching
    assert "Needs attention 2 All 10 Worse 2 Better 1 Unchanged 7" in words(matching)
    assert "No series here has “nowhere” in its name" in words(nothing)


def test_a_long_commit_shows_what_moved_most_and_pages_of_the_rest(long_client: FlaskClient) -> None:
    first, quiet = read(long_client, LONG_COMMIT), read(long_client, f"{LONG_COMMIT}?show=quiet&page=2")

    assert len(benchmarks_in(first)) == 53
    assert "Compared with an earlier state 3 Unchanged or open 127" in words(first)
    assert "127 unchanged" in words(first)
    assert benchmarks_in(quiet) == [f"long.time_{k:03}" for k in range(79, 29, -1)]
    assert f'href="{LONG_COMMIT}?show=quiet&amp;page=3">Next' in quiet


def test_a_short_comparison_has_no_pages(client: FlaskClient) -> None:
    assert "Page 1 of" not in read(client, COMPARE)


def test_compares_branches_and_says_what_they_mean(client: FlaskClient) -> None:
    page = read(client, f"{P}/compare/{a_commit(3).sha[:8]}...main")

    assert "head branch main at 31ef791" in words(page)
    assert f'href="{P}/compare/{a_commit(3).sha}...{a_commit(COMMITS - 1).sha}">link to exactly' in page


def test_separate_runs_are_never_called_a_regression(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/compare/{a_commit(3).sha}...{a_commit(STEP + 3).sha}"))

    assert "Separate runs of " in text
    assert "No A/B comparison is stored: these are separate runs" in text
    assert "regression" not in text


def test_a_side_that_is_none_gets_a_sentence(client: FlaskClient) -> None:
    unknown = client.get(f"{P}/compare/m:nope...m:nada")
    mixed = client.get(f"{P}/compare/m:amd-epyc-9354-042c...main")

    assert unknown.status_code == mixed.status_code == 404
    assert "has no machine nope; it has amd-epyc-9354-042c." in words(unknown.text)
    assert "compare machines, variants or commits" in words(mixed.text)


def test_the_csv_has_every_row(client: FlaskClient) -> None:
    lines = client.get(f"{COMPARE}.csv").text.splitlines()

    assert lines[0].startswith(
        "benchmark,version,parameters,metric,unit,direction,machine,variant,base,head,ratio"
    )
    assert len(lines) == 15
    assert sum(",regression,confirmation,10," in line for line in lines) == 1


def test_lists_the_comparisons_decided_last_first(long_client: FlaskClient) -> None:
    text = words(read(long_client, f"{P}/compare"))

    assert "2 comparisons to read." in text
    assert text.index("104 regressions") < text.index("2 regressions 1 improvement 127 unchanged")


def test_lists_the_commits_after_base_up_to_head(client: FlaskClient) -> None:
    forth = read(client, f"{P}/compare/{a_commit(2).sha}...{a_commit(5).sha}")
    back = read(client, f"{P}/compare/{a_commit(5).sha}...{a_commit(2).sha}")

    listed = forth.split("<h2>Commits")[1].split("</section>")[0]
    assert [a_commit(n).sha[:7] in listed for n in (2, 3, 4, 5)] == [False, True, True, True]
    assert "Head does not follow base on the line of commits" in words(back)
