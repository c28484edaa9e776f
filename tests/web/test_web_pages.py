"""The pages over HTTP, against a real database."""

import csv
import gzip
import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from web_builders import (
    COMMITS,
    EMULATED,
    FAILED_AT,
    HOSTILE_SUBJECT,
    NOW,
    PROJECT,
    STEP,
    a_commit,
    a_run,
    a_store,
    fill,
)

from perfci.model import Machine, PerfciError
from perfci.store import Store
from perfci.store.writes import add_run, start_session, upsert_commits
from perfci_web import create_app

P = "/acme:tiny-lm"
SERIES = f"{P}/s/train.Step.time_step/cpu_time"
BF16 = "?p.batch=8&p.dtype='bf16'"
MANY, MANY_BF16 = f"{P}/s/models.Tiny.measure_training", "?p.precision='bf16'&p.batch=4"
COMPARE = f"{P}/compare/{a_commit(STEP - 1).sha}...{a_commit(STEP).sha}"

EVERY_PAGE = [
    f"{P}/",
    f"{P}/benchmarks",
    f"{P}/benchmarks?q=step&sort=change&page=1",
    f"{P}/benchmarks?show=unavailable",
    f"{MANY}/data_stall{MANY_BF16}",
    f"{MANY}/mfu{MANY_BF16}",
    f"{SERIES}{BF16}",
    f"{P}/compare",
    f"{P}/calibration",
    COMPARE,
    f"{P}/commit/{a_commit(STEP).sha}",
]


def words(html: str) -> str:
    """What a reader sees: no tags, entities resolved, one space at a time."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", re.sub(r"(?s)<svg.*?</svg>", "", html))))


def read(client: FlaskClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return answer.text


def test_the_only_project_opens_at_once(client: FlaskClient) -> None:
    answer = client.get("/")

    assert (answer.status_code, answer.location) == (302, f"{P}/")


def test_the_overview_answers_in_its_first_words(client: FlaskClient) -> None:
    told = words(read(client, f"{P}/"))

    assert "1 open regression. train.Step.time_step(8, 'bf16') got 18.3 % slower [15.9, 20.8], 10 pairs" in told
    assert "Last measured 21 minutes ago" in told
    assert "2 candidates not confirmed · 1 verdict inconclusive" in told


def test_the_overview_counts_what_head_has(client: FlaskClient) -> None:
    told = words(read(client, f"{P}/"))

    assert re.search(r"measured ?9 not available ?5 failed ?1 not run ?1", told)


def test_the_overview_counts_processes_and_not_what_each_gave(client: FlaskClient) -> None:
    told = words(read(client, f"{P}/"))

    cells = COMMITS * 7 - 3 - 1  # three commits ran out of memory, and the newest has no throughput
    assert f"40 commits · 14 series · {5 * cells + COMMITS:,} processes · 5 more not available here" in told


def test_the_overview_tells_a_reason_once(client: FlaskClient) -> None:
    told = words(read(client, f"{P}/"))

    assert told.count(EMULATED) == 1
    assert f"3 {EMULATED}" in told


def test_the_overview_links_a_finding_to_its_evidence(client: FlaskClient) -> None:
    html = read(client, f"{P}/")

    assert COMPARE in html
    assert f"{P}/commit/{a_commit(STEP).sha}" in html


def test_benchmarks_are_found_by_every_word(client: FlaskClient) -> None:
    found = read(client, f"{P}/benchmarks?q=step+fp32")

    assert "1 series of 14 with “step fp32”" in words(found)
    assert len(re.findall('<th scope="row">', found)) == 1


def test_benchmarks_name_a_cell_once_above_its_metrics(client: FlaskClient) -> None:
    html = read(client, f"{P}/benchmarks?q=models")
    rows = re.findall(r'<th scope="row">(.*?)</th>', html)

    assert html.count(">models.<wbr>Tiny.<wbr>measure_<wbr>training(&#39;bf16&#39;, 4)<") == 1
    assert list(map(words, rows)) == [
        "cpu_step_time", "step_time shown, not judged", "optimizer_state_bytes", "data_stall shown, not judged",
    ]  # fmt: skip


def test_benchmarks_leave_out_what_was_never_measured_and_say_where_it_is(client: FlaskClient) -> None:
    html = read(client, f"{P}/benchmarks")

    assert "14 series of 9 benchmarks." in words(html)
    assert "5 more were never measured here: why." in words(html)
    assert f'href="{P}/benchmarks?show=unavailable"' in html
    assert "mfu" not in words(html)


def test_benchmarks_name_the_place_of_a_cell_where_there_are_several(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        start_session(tx, PROJECT, "history-1", "history", "spec", 7, 1, NOW)
        add_run(tx, a_run(1))
        elsewhere = tuple(
            replace(result, series=replace(result.series, machine=Machine(name="laptop")))
            for result in a_run(1).results
        )
        add_run(tx, replace(a_run(1), machine=Machine(name="laptop"), results=elsewhere))

    html = read(create_app(empty_store).test_client(), f"{P}/benchmarks?q=models")

    assert html.count('<span class="advice">laptop</span>') == 1
    assert "AMD EPYC 9354, 2 cores, 16 GB" in words(html)


def test_a_list_takes_as_many_queries_however_long_it_is(client: FlaskClient) -> None:
    asked: list[str] = []

    def count(*given: object) -> None:
        asked.append(str(given[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    try:
        read(client, f"{P}/benchmarks?q=models")
        few = len(asked)
        read(client, f"{P}/benchmarks")
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", count)

    assert len(asked) - few == few <= 25


def test_what_was_never_measured_is_grouped_by_reason(client: FlaskClient) -> None:
    told = words(read(client, f"{P}/benchmarks?show=unavailable"))

    assert "5 series were never measured here." in told
    assert f"3 {EMULATED} models.Tiny.measure_training('fp16', 4) step_time forward_time backward_time" in told
    assert "failed" not in told


def test_a_search_that_finds_only_what_is_not_available_says_so(client: FlaskClient) -> None:
    told = words(read(client, f"{P}/benchmarks?q=mfu"))

    assert "No series with “mfu” has a value; 1 series with it cannot be measured here. See which, and why" in told


def test_the_list_and_the_series_page_name_the_same_level(client: FlaskClient) -> None:
    rows = client.get(f"{P}/benchmarks.json").get_json()["series"]
    told = client.get(f"{SERIES}.json{BF16}").get_json()

    (row,) = [one for one in rows if one["metric"] == "cpu_time" and one["parameters"].get("dtype") == "'bf16'"]
    assert row["level"] == told["levels"][-1]["value"]


def test_a_search_without_result_says_what_to_do(client: FlaskClient) -> None:
    told = words(read(client, f"{P}/benchmarks?q=zebra"))

    assert "No series has “zebra”" in told
    assert "Show all 14" in told


def test_knobs_that_make_no_sense_are_forgiven(client: FlaskClient) -> None:
    assert read(client, f"{P}/benchmarks?page=-3&sort=%00&q=") == read(client, f"{P}/benchmarks")


def test_the_series_page_reads_without_javascript(client: FlaskClient) -> None:
    html = read(client, f"{SERIES}{BF16}")

    assert "stands at 14.6" in words(html)
    assert html.count('<circle class="pc-dot"') == 2 * COMMITS + 1
    assert html.count('<th scope="row">') == COMMITS + 1
    assert a_commit(STEP).sha in html


def test_the_series_page_tells_failures_with_their_reason(client: FlaskClient) -> None:
    html = read(client, f"{SERIES}?p.batch=8&p.dtype='fp32'")

    assert "3 commits failed" in words(html)
    assert "CUDA out of memory" in words(html)
    assert f"oom · {a_commit(FAILED_AT).sha[:10]}" in html


def test_a_candidate_is_not_shown_as_confirmed(client: FlaskClient) -> None:
    told = words(read(client, f"{P}/s/train.Step.peakmem_step/peak_memory"))

    assert "1 candidate change not confirmed" in told
    assert "seen while screening, not yet confirmed on fresh pairs" in told


def test_a_series_known_from_comparisons_only_says_so(client: FlaskClient) -> None:
    html = read(client, f"{P}/s/train.Step.time_compiled/cpu_time")

    assert "it is known from comparisons only" in words(html)
    assert "was not measured on both sides: the benchmark is new at head" in words(html)
    assert '<script type="module" src="/static/chart' not in html


def test_a_witness_says_that_it_is_never_judged(client: FlaskClient) -> None:
    told = words(read(client, f"{MANY}/data_stall{MANY_BF16}"))

    assert re.search(rf"data_stall was 19\.\d % at {a_commit(COMMITS - 1).short}\.", told)
    assert "A witness: shown beside the judged metrics of the same processes" in told
    assert "Changes" not in told


def test_a_witness_that_moved_is_told_at_its_newest_value(client: FlaskClient) -> None:
    """Nobody looks for moves in it, so the middle of its whole history would be a level it never stood at."""
    [row] = client.get(f"{P}/benchmarks.json?q=data_stall").get_json()["series"]
    told = client.get(f"{MANY}/data_stall.json{MANY_BF16}").get_json()

    assert row["level"] == told["points"][-1]["value"]
    assert (row["judged"], told["levels"]) == (False, [])


def test_two_clocks_name_each_other_and_say_which_is_judged(client: FlaskClient) -> None:
    cpu, wall = (words(read(client, f"{MANY}/{name}{MANY_BF16}")) for name in ("cpu_step_time", "step_time"))

    assert re.search(r"CPU time: judged\. The wall time of the same processes is .* step_time, at 4\d\.\d\d ms\.", cpu)
    assert re.search(r"Wall time: shown, not judged\. Judged is .* cpu_step_time, at 3\d\.\d\d ms\.", wall)


def test_a_series_that_was_only_skipped_says_why_and_draws_nothing(client: FlaskClient) -> None:
    html = read(client, f"{MANY}/mfu{MANY_BF16}")

    assert "mfu is not available here. Why: the peak of this CPU is not known." in words(html)
    assert "<figure" not in html
    assert "✕" not in html


def test_verdicts_that_nobody_acts_on_are_folded(client: FlaskClient) -> None:
    html = read(client, f"{SERIES}?p.batch=8&p.dtype='fp32'")

    assert "<details><summary>1 inconclusive</summary>" in html
    assert "inconclusive" not in read(client, f"{SERIES}{BF16}")


def test_an_address_of_several_cells_offers_them(client: FlaskClient) -> None:
    answer = client.get(SERIES)

    assert answer.status_code == 404
    assert "has 2 series; the address names none of them exactly" in words(answer.text)
    assert "fp32" in answer.text


def test_hostile_words_stay_words(client: FlaskClient) -> None:
    after = a_commit(STEP + 1).sha
    for path in (f"{P}/commit/{after}", f"{SERIES}{BF16}", f"{P}/compare/{a_commit(STEP).sha}...{after}"):
        html = read(client, path)
        assert "<script>alert" not in html
        assert HOSTILE_SUBJECT in unescape(html)


def test_the_comparison_names_every_word(client: FlaskClient) -> None:
    told = words(read(client, COMPARE))

    counts = "1 failed, 1 regression, 1 inconclusive, 1 not comparable, 1 missing, 1 improvement, 2 unchanged"
    assert counts in told
    assert "about 14 more pairs would decide" in told
    assert "Worst: serve.Generate.time_batch(64) failed" in told


def test_the_comparison_shows_the_witness_unjudged(client: FlaskClient) -> None:
    assert re.search(
        r"3 witnesses, shown and not judged.*time_step\(8, 'bf16'\) time \+1\d\.\d %", words(read(client, COMPARE))
    )


def test_the_comparison_folds_what_neither_side_could_measure(client: FlaskClient) -> None:
    told = words(read(client, COMPARE))

    assert f"5 not available on either side 3 {EMULATED}" in told


def test_the_comparison_shows_what_else_changed(client: FlaskClient) -> None:
    assert "torch2.12.12.13.0" in words(read(client, COMPARE))


def test_a_comparison_takes_prefixes_and_swaps_sides(client: FlaskClient) -> None:
    short = f"{P}/compare/{a_commit(STEP - 1).sha[:8]}...{a_commit(STEP).sha[:8]}"

    assert words(read(client, short)) == words(read(client, COMPARE))
    assert f"{P}/compare/{a_commit(STEP).sha}...{a_commit(STEP - 1).sha}" in read(client, COMPARE)


def test_two_shas_in_a_form_become_an_address(client: FlaskClient) -> None:
    answer = client.get(f"{P}/compare?base=abc&head=def")

    assert (answer.status_code, answer.location) == (302, f"{P}/compare/abc...def")
    assert "3 comparisons to read" in words(read(client, f"{P}/compare"))


def test_a_commit_shows_what_it_measured(client: FlaskClient) -> None:
    told = words(read(client, f"{P}/commit/{a_commit(COMMITS - 1).sha[:10]}"))

    assert "9 series measured; 1 failed; 5 not available here." in told
    assert f"5 not available here 3 {EMULATED}" in told
    assert "3 witnesses, shown and not judged" in told
    assert "Failed 1 oom: torch.OutOfMemoryError" in told
    assert "governor" in told
    assert f"perfci run {a_commit(COMMITS - 1).short}" in told


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_every_page_is_sound(client: FlaskClient, path: str) -> None:
    html = read(client, path)

    assert html.count("<h1>") == 1
    assert re.search(r"<title>[^<]+ · perfci</title>", html)
    assert not re.search(r"<[^>]+\sstyle=|<style|\son[a-z]+=|javascript:", html)
    assert not re.search(r"(?:src|href)=\"(?:https?:)?//", html)
    assert all('scope="' in head for head in re.findall(r"<th\b[^>]*>", html))
    assert html.count("<table>") == html.count("<caption")
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("path", EVERY_PAGE)
def test_every_link_of_a_page_leads_somewhere(client: FlaskClient, path: str) -> None:
    found = re.findall(r'(?:href|src)="([^"]+)"', read(client, path))
    addresses = {unescape(address).partition("#")[0] for address in found}

    for address in sorted(filter(None, addresses)):
        assert client.get(address).status_code in (200, 302), address


def test_the_json_twin_of_a_series_says_what_the_page_says(client: FlaskClient) -> None:
    told = client.get(f"{SERIES}.json{BF16}").get_json()

    assert told["sentence"] in words(read(client, f"{SERIES}{BF16}"))
    assert len(told["points"]) == COMMITS
    assert told["points"][STEP + 1]["subject"] == HOSTILE_SUBJECT
    assert [change["state"] for change in told["changes"]] == ["convicted"]


def test_a_chart_may_ask_for_fewer_points(client: FlaskClient) -> None:
    told = client.get(f"{SERIES}.json{BF16}&most=10").get_json()

    assert len(told["points"]) < 20
    assert sum(point["merged"] for point in told["points"]) == COMMITS


def test_the_csv_twin_of_a_series_is_exact(client: FlaskClient) -> None:
    answer = client.get(f"{SERIES}.csv{BF16}")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    told = client.get(f"{SERIES}.json{BF16}").get_json()

    assert answer.content_type.startswith("text/csv")
    assert [float(row["value"]) for row in rows] == [point["value"] for point in told["points"]]


def test_the_svg_twin_stands_alone(client: FlaskClient) -> None:
    answer = client.get(f"{SERIES}.svg{BF16}")

    assert answer.content_type.startswith("image/svg+xml")
    assert "prefers-color-scheme" in answer.text
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    ElementTree.fromstring(answer.text)


def test_the_twins_of_the_list_hold_the_same_series(client: FlaskClient) -> None:
    told = client.get(f"{P}/benchmarks.json?q=train").get_json()
    rows = list(csv.DictReader(io.StringIO(client.get(f"{P}/benchmarks.csv?q=train").text)))

    assert told["total"] == len(told["series"]) == len(rows) == 10
    assert {row["parameters"] for row in rows} == {
        "", "batch=8 dtype='bf16'", "batch=8 dtype='fp32'", "precision='bf16' batch=4",
    }  # fmt: skip


def test_the_twins_of_a_comparison_hold_the_same_verdicts(client: FlaskClient) -> None:
    told = client.get(f"{COMPARE}.json").get_json()
    markdown = client.get(f"{COMPARE}.md").text

    assert told["counts"] == dict.fromkeys(
        ("failed", "regression", "inconclusive", "not_comparable", "missing", "improvement"), 1
    ) | {"unchanged": 2}
    assert [reading["series"]["metric"] for reading in told["witnesses"]] == ["data_stall", "step_time", "time"]
    assert {reason["reason"]: len(reason["series"]) for reason in told["unavailable"]}[EMULATED] == 3
    assert "### 1 failed, 1 regression, 1 inconclusive" in markdown
    assert f"[details](http://localhost{COMPARE})" in markdown


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/nobody:home/", "There is no project nobody/home in this store"),
        ("/acme/tiny-lm/", "acme/tiny-lm"),
        (f"{P}/nothing/here", "Benchmarks"),
        (f"{P}/s/train.Step.time_stop/cpu_time", "train.Step.time_step(8, 'bf16')"),
        (f"{P}/commit/ffffffff", "knows no commit that starts with ffffffff"),
        (f"{P}/compare/ffffffff...eeeeeeee", "knows no commit"),
        ("/api/", "There is no page at /api/"),
        ("/~41/", "There is no page at /~41/"),
        (f"{P}/benchmarks.png", "There is no page"),
    ],
)
def test_a_page_that_does_not_exist_is_helpful(client: FlaskClient, path: str, told: str) -> None:
    answer = client.get(path, follow_redirects=True)

    assert answer.status_code == 404
    assert told in words(answer.text)


def test_a_missing_slash_is_added(client: FlaskClient) -> None:
    answer = client.get(P)

    assert (answer.status_code, answer.location) == (308, f"http://localhost{P}/")


def test_an_empty_store_says_how_to_fill_it(empty_store: Store) -> None:
    told = words(create_app(empty_store).test_client().get("/").text)

    assert "nothing was measured yet" in told
    assert "perfci run" in told


def test_an_empty_project_says_how_to_fill_it(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        upsert_commits(tx, "lonely", [a_commit(0)])
        start_session(tx, "lonely", "s", "history", "spec", 1, 1, NOW)
    client = create_app(empty_store).test_client()

    for path in ("/lonely/", "/lonely/benchmarks", "/lonely/compare", f"/lonely/commit/{a_commit(0).sha}"):
        assert re.search(r"perfci (run|compare|init)", words(read(client, path))), path


def test_several_projects_are_listed(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        for name in ("acme/one", "acme/two words"):
            upsert_commits(tx, name, [a_commit(0)])
    html = create_app(empty_store).test_client().get("/").text

    assert "2 projects in this store" in words(html)
    assert "/acme:two~20words/" in html


def test_a_short_series_says_how_many_commits_are_missing(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    fill(store, commits=3)
    told = words(create_app(store).test_client().get(f"{SERIES}{BF16}").text)
    store.close()

    assert "5 more measured commits needed" in told


def test_a_store_that_cannot_be_read_is_explained(empty_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tx: object) -> None:
        raise PerfciError(f"The database {empty_store.url} is locked by another perfci process: wait for it to finish.")

    monkeypatch.setattr("perfci.store.reads.projects", broken)
    answer = create_app(empty_store).test_client().get("/")

    assert answer.status_code == 503
    assert "The database behind this dashboard is locked by another perfci process" in words(answer.text)
    assert empty_store.url not in answer.text


def test_health_is_one_question_to_the_store(client: FlaskClient) -> None:
    assert client.get("/healthz").get_json() == {"status": "ok"}


def test_every_answer_forbids_what_it_does_not_need(client: FlaskClient) -> None:
    for path in [*EVERY_PAGE, "/nobody:home/", f"{SERIES}.json{BF16}"]:
        headers = client.get(path).headers
        policy = dict(part.partition(" ")[::2] for part in headers["Content-Security-Policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_only_the_chart_page_has_a_nonce_and_never_the_same_twice(client: FlaskClient) -> None:
    first, second = (client.get(f"{SERIES}{BF16}") for _ in range(2))
    nonce = re.search("nonce-([^']+)'", first.headers["Content-Security-Policy"])

    assert nonce
    assert f'nonce="{nonce[1]}"' in first.text
    assert nonce[1] not in second.headers["Content-Security-Policy"]
    assert "nonce" not in client.get(f"{P}/").headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("localhost:8787", 200), ("127.0.0.1:8787", 200), ("[::1]:8787", 200), ("LOCALHOST", 200),
        ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("localhost.evil.example:80", 403),
        ("", 403), ("[::2]", 403),
    ],
)  # fmt: skip
def test_a_server_on_loopback_answers_only_to_its_own_name(empty_store: Store, host: str, status: int) -> None:
    client = create_app(empty_store, loopback_only=True).test_client()

    assert client.get("/healthz", headers={"Host": host}).status_code == status


def test_a_public_server_answers_to_any_name(empty_store: Store) -> None:
    client = create_app(empty_store).test_client()

    assert client.get("/healthz", headers={"Host": "perf.example"}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_server_that_only_shows_takes_no_changes(client: FlaskClient, method: str) -> None:
    assert client.open(f"{P}/", method=method).status_code == 405


def test_an_unchanged_page_is_not_sent_twice(client: FlaskClient) -> None:
    first = client.get(f"{P}/benchmarks")
    again = client.get(f"{P}/benchmarks", headers={"If-None-Match": first.headers["ETag"]})

    assert (again.status_code, again.data) == (304, b"")


def test_pages_travel_packed_where_the_browser_can(client: FlaskClient) -> None:
    packed = client.get(f"{P}/", headers={"Accept-Encoding": "gzip"})

    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data).decode() == read(client, f"{P}/")
    assert "Content-Encoding" not in client.get(f"{P}/", headers={"Accept-Encoding": "gzip;q=0"}).headers


def test_files_are_kept_forever_under_a_name_that_changes_with_them(client: FlaskClient) -> None:
    html = read(client, f"{SERIES}{BF16}")
    files = set(re.findall(r'(/static/[^"]+)', html))

    assert len(files) == 5
    for path in files:
        answer = client.get(path)
        assert "immutable" in answer.headers["Cache-Control"], path
    assert client.get("/static/style.css").status_code == 404
    assert client.get("/static/..%2fguards.py").status_code == 404


def test_the_chart_library_comes_from_the_installed_package(client: FlaskClient) -> None:
    path = re.search(r'data-plotly="([^"]+)"', read(client, f"{SERIES}{BF16}"))
    assert path
    packed = client.get(path[1], headers={"Accept-Encoding": "gzip"})
    known = {"Accept-Encoding": "gzip", "If-None-Match": packed.headers["ETag"]}

    assert len(packed.data) < 1_700_000
    assert b"plotly.js v" in gzip.decompress(packed.data)[:100]
    assert client.get(path[1], headers=known).status_code == 304


def test_the_readers_theme_is_drawn_by_the_server(client: FlaskClient) -> None:
    client.set_cookie("perfci-theme", "dark")
    dark = read(client, f"{P}/")
    client.set_cookie("perfci-theme", '"><script>')
    other = read(client, f"{P}/")
    client.delete_cookie("perfci-theme")

    assert '<html lang="en" data-theme="dark">' in dark
    assert '<html lang="en">' in other


def test_the_application_can_be_mounted_below_a_path(client: FlaskClient) -> None:
    html = client.get(f"{P}/", base_url="http://localhost/perf").text

    links = re.findall(r'(?:href|src)="([^"#]+)"', html)
    assert links
    assert all(link.startswith("/perf/") for link in links)
