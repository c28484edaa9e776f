"""The page of one series: its level, its changes, its failures, and informational metrics."""

import re
from pathlib import Path

from flask.testing import FlaskClient
from page_reading import BF16, MANY, MANY_BF16, SERIES, P, read, words
from web_builders import COMMITS, FAILED_AT, PROJECT, STEP, STEP_TIME, a_commit, a_store, fill

from perfci.report.change_id import format_change_id
from perfci.store.column_conversions import series_identity
from perfci_web import create_app
from perfci_web.series.view_model import MAX_ROWS


def test_shows_the_series_page_without_javascript(client: FlaskClient) -> None:
    html = read(client, f"{SERIES}{BF16}")

    sentence = r"is 14\.6\d ms, \+18\.3 % since .{7} \(24 Mar 2026, confirmed by A/B rerun\)"
    assert re.search(sentence, words(html))
    assert html.count('<circle class="pc-dot"') == COMMITS + 1  # in the wide picture and in the legend
    [narrow] = re.findall('<path class="pc-dots" stroke-width="[^"]*" d="([^"]*)"', html)
    assert len(re.findall("m[^mz]+z", narrow)) == COMMITS
    assert html.count('<th scope="row">') == MAX_ROWS + 1
    assert a_commit(STEP).sha in html


def test_names_its_change_on_the_page_in_the_shared_sentence_and_in_the_data(client: FlaskClient) -> None:
    name = format_change_id(series_identity(PROJECT, STEP_TIME), a_commit(STEP).sha)
    text = words(read(client, f"{SERIES}{BF16}"))

    assert text.count(name) == 3  # in the table, the shared sentence and the Markdown
    assert f"({name})" in text
    assert [change["id"] for change in client.get(f"{SERIES}.json{BF16}").json["changes"]] == [name]


def test_lists_failures_with_their_reason(client: FlaskClient) -> None:
    html = read(client, f"{SERIES}?p.batch=8&p.dtype='fp32'")

    assert "is broken since 10 Apr 2026: 1 failure; was 20.6" in words(html)
    assert "3 failed commits below the axis" in words(html)
    assert "CUDA out of memory" in words(html)
    assert f"oom · {a_commit(FAILED_AT).sha[:10]}" in html


def test_shows_no_candidate_as_confirmed(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/s/train.Step.peakmem_step/peak_memory"))

    assert re.search(r"\+9\.0 % since .{7} \(6 Apr 2026, not confirmed\)", text)
    assert "found in screening, not yet confirmed on new pairs" in text


def test_explains_a_series_with_comparisons_only(client: FlaskClient) -> None:
    html = read(client, f"{P}/s/train.Step.time_compiled/cpu_time")

    assert "it is known from comparisons only" in words(html)
    assert "missing" in words(html)
    assert "the benchmark is new at head" in words(html)
    assert '<script type="module" src="/static/chart' not in html


def test_never_judges_an_informational_series(client: FlaskClient) -> None:
    html = read(client, f"{MANY}/data_stall{MANY_BF16}")
    text = words(html)

    assert re.search(rf"data_stall was 19\.\d % at {a_commit(COMMITS - 1).short_sha}\.", text)
    assert "Informational: shown beside the judged metrics of the same processes" in text
    assert "<h2>Changes</h2>" not in html


def test_links_both_clocks_and_names_the_judged_clock(client: FlaskClient) -> None:
    cpu, wall = (words(read(client, f"{MANY}/{name}{MANY_BF16}")) for name in ("cpu_step_time", "step_time"))

    assert re.search(
        r"CPU time: judged\. The wall time of the same processes is .* step_time, at 4\d\.\d\d ms\.", cpu
    )
    assert re.search(r"Wall time: shown, not judged\. Judged is .* cpu_step_time, at 3\d\.\d\d ms\.", wall)


def test_explains_a_skipped_series_without_a_chart(client: FlaskClient) -> None:
    html = read(client, f"{MANY}/mfu{MANY_BF16}")

    assert "mfu cannot be measured on this machine. Reason: the peak of this CPU is not known." in words(html)
    assert "<figure" not in html
    assert "✕" not in html


def test_verdicts_that_nobody_acts_on_are_folded(client: FlaskClient) -> None:
    html = read(client, f"{SERIES}?p.batch=8&p.dtype='fp32'")

    assert "<details><summary>1 inconclusive</summary>" in html
    assert "inconclusive" not in read(client, f"{SERIES}{BF16}")


def test_leads_from_an_ambiguous_address_to_all_series_it_may_mean(client: FlaskClient) -> None:
    answer = client.get(SERIES, follow_redirects=True)

    assert answer.request.full_path == f"{P}/b/train.Step.time_step?metric=cpu_time"
    assert "train.Step.time_step: 2 series." in words(answer.text).replace("\u200b", "").replace(". ", ".")


def test_refuses_data_of_an_ambiguous_address(client: FlaskClient) -> None:
    answer = client.get(f"{SERIES}.json")

    assert answer.status_code == 404
    assert "has 2 series; the address names none of them exactly" in answer.text


def test_shows_how_many_commits_a_short_series_lacks(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    fill(store, commits=3)
    text = words(create_app(store).test_client().get(f"{SERIES}{BF16}").text)
    store.close()

    assert "5 more measured commits needed" in text
