"""The list of benchmarks: its search, its cells, and series that were never measured."""

import re
from dataclasses import replace

import sqlalchemy as sa
from flask.testing import FlaskClient
from page_reading import BF16, MANY, MANY_BF16, SERIES, P, read, words
from web_builders import COMMITS, EMULATED, NOW, PROJECT, a_commit, a_run

from perfci.model import Machine
from perfci.number_format import format_day
from perfci.store import Store
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from perfci_web import create_app


def test_searches_benchmarks_by_every_word(client: FlaskClient) -> None:
    content = read(client, f"{P}/benchmarks?q=step+fp32")

    assert "1 series of 14 with “step fp32”" in words(content)
    assert len(re.findall('<th scope="row">', content)) == 1


def test_shows_a_cell_once_above_its_metrics(client: FlaskClient) -> None:
    html = read(client, f"{P}/benchmarks?q=models")
    rows = re.findall(r'<th scope="row">(.*?)</th>', html)

    assert html.count(">models.<wbr>Tiny.<wbr>measure_<wbr>training(&#39;bf16&#39;, 4)<") == 1
    assert list(map(words, rows)) == [
        "cpu_step_time",
        "step_time shown, not judged",
        "optimizer_state_bytes",
        "data_stall shown, not judged",
    ]


def test_hides_series_without_measurement_and_links_to_them(client: FlaskClient) -> None:
    html = read(client, f"{P}/benchmarks")

    assert "14 series of 9 benchmarks." in words(html)
    assert "5 more were never measured here: why." in words(html)
    assert f'href="{P}/benchmarks?show=unavailable"' in html
    assert "mfu" not in words(html)


def test_shows_the_machine_of_a_cell_where_there_are_several(empty_store: Store) -> None:
    with empty_store.begin() as tx:
        start_session(tx, PROJECT, "history-1", "history", "spec", 7, 1, NOW)
        find_or_add_run(tx, a_run(1))
        elsewhere = tuple(
            replace(result, series=replace(result.series, machine=Machine(name="laptop")))
            for result in a_run(1).results
        )
        find_or_add_run(tx, replace(a_run(1), machine=Machine(name="laptop"), results=elsewhere))

    html = read(create_app(empty_store).test_client(), f"{P}/benchmarks?q=models")

    assert html.count('<span class="place">laptop</span>') == 1
    assert "AMD EPYC 9354, 2 cores, 16 GB" in words(html)


def test_needs_the_same_number_of_queries_for_any_list_length(client: FlaskClient) -> None:
    requests: list[str] = []

    def count(*arguments: object) -> None:
        requests.append(str(arguments[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    try:
        read(client, f"{P}/benchmarks?q=fp32")
        few = len(requests)
        read(client, f"{P}/benchmarks")
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", count)

    assert few <= len(requests) - few <= 30


def test_groups_series_without_measurement_by_reason(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/benchmarks?show=unavailable"))

    assert "5 series were never measured here." in text
    assert (
        f"3 {EMULATED} models.Tiny.measure_training('fp16', 4) step_time forward_time backward_time" in text
    )
    assert "failed" not in text


def test_explains_a_search_that_matches_only_unavailable_series(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/benchmarks?q=mfu"))

    assert (
        "No series with “mfu” has a value; 1 series with it cannot be measured here. See which, and why"
        in text
    )


def test_shows_the_same_level_in_the_list_and_on_the_series_page(client: FlaskClient) -> None:
    rows = client.get(f"{P}/benchmarks.json").get_json()["series"]
    document = client.get(f"{SERIES}.json{BF16}").get_json()

    (row,) = [
        each_row
        for each_row in rows
        if each_row["metric"] == "cpu_time" and each_row["parameters"].get("dtype") == "'bf16'"
    ]
    assert row["level"] == document["levels"][-1]["value"]


def test_suggests_what_to_do_after_an_empty_search(client: FlaskClient) -> None:
    text = words(read(client, f"{P}/benchmarks?q=zebra"))

    assert "No series has “zebra”" in text
    assert "Show all 14" in text


def test_sorts_failures_first_on_request(client: FlaskClient) -> None:
    by_state, by_name = (
        [row["last_status"] for row in client.get(f"{P}/benchmarks.json?sort={sort}").get_json()["series"]]
        for sort in ("state", "name")
    )

    assert (by_state[0], by_name[0]) == ("oom", "ok")
    assert sorted(by_state) == sorted(by_name)


def test_sorts_the_longest_histories_first_on_request(client: FlaskClient) -> None:
    commits = [row["commits"] for row in client.get(f"{P}/benchmarks.json?sort=commits").get_json()["series"]]

    assert commits == sorted(commits, reverse=True)
    assert len(set(commits)) > 1


def test_ignores_invalid_query_options(client: FlaskClient) -> None:
    odd, plain = read(client, f"{P}/benchmarks?page=-3&sort=%00&q="), read(client, f"{P}/benchmarks")

    # The foot links the other formats with the query as it is.
    bodies = [html.split("<body>")[1].partition("<footer")[0] for html in (odd, plain)]
    assert bodies[0] == bodies[1]


def test_shows_the_newest_value_of_an_informational_series(client: FlaskClient) -> None:
    """Nobody looks for moves in it, so the middle of its whole history would be a level it never stood at."""
    [row] = client.get(f"{P}/benchmarks.json?q=data_stall").get_json()["series"]
    document = client.get(f"{MANY}/data_stall.json{MANY_BF16}").get_json()

    assert row["level"] == document["points"][-1]["value"]
    assert (row["judged"], document["levels"]) == (False, [])


def test_says_since_when_a_benchmark_is_broken(client: FlaskClient) -> None:
    html = read(client, f"{P}/benchmarks?q=time_step+fp32")

    assert f"broken since {format_day(a_commit(COMMITS - 1).committed_at)}" in words(html)
    assert words(html).count("broken since") == 1
