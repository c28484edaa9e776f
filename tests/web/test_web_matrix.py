"""The matrix of a benchmark: levels and ratios over two axes, what failed, and what was never run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from html import unescape

import pytest
from flask.testing import FlaskClient
from page_reading import P, read, words
from web_builders import NOW, PROJECT, a_commit, a_series, a_store

from perfci.model import (
    Environment,
    ProcessBoundaries,
    Result,
    Run,
    SampleSummary,
    Series,
    Status,
    Variant,
)
from perfci.store import Store
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import find_or_add_run, finish_session, start_session
from perfci_web import create_app
from perfci_web.matrix.axes import list_axes
from perfci_web.matrix.view_model import MatrixQuery, choose_layout

MATRIX = f"{P}/matrix/nn.Attention.time_forward/cpu_time"
HOSTILE = "<script>alert(1)</script>"
RUNS = 12
LEVELS = {(1024, "bf16"): 0.010, (1024, "fp32"): 0.020, (4096, "bf16"): 0.040, (4096, "fp32"): 0.160}


def a_cell(tokens: int, dtype: str) -> Series:
    return a_series("nn.Attention.time_forward", tokens=tokens, dtype=f"'{dtype}'")


def a_level(series: Series, level: float) -> Result:
    return Result(series, Status.OK, boundaries=ProcessBoundaries.POOLED, summary=SampleSummary(level))


def a_matrix_run(number: int) -> Run:
    """A run of all shapes: the last one has a slow 4096 bf16, and 16384 runs out of memory."""
    wobble = 1 + 0.002 * (number % 3)
    results = []
    for (tokens, dtype), level in LEVELS.items():
        moved = 1.5 if (tokens, dtype, number) == (4096, "bf16", RUNS - 1) else 1.0
        results.append(a_level(a_cell(tokens, dtype), level * wobble * moved))
    results.append(Result(a_cell(16384, "fp32"), Status.OOM, reason=f"CUDA out of memory {HOSTILE}"))
    results.append(a_level(a_series(f"x.{HOSTILE}", size=1, **{"<b>": "'<i>'"}), 1.0))
    results.append(a_level(a_series(f"x.{HOSTILE}", size=2, **{"<b>": "'<i>'"}), 2.0))
    started = NOW - timedelta(hours=RUNS - number)
    return Run(
        project=PROJECT,
        session="matrix",
        commit=a_commit(number),
        machine=results[0].series.machine,
        environment=Environment(),
        variant=Variant(),
        suite="benchmarks",
        harness="1",
        started_at=started,
        finished_at=started + timedelta(minutes=1),
        results=tuple(results),
    )


@pytest.fixture(scope="module")
def matrix_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    with closing(a_store(tmp_path_factory.mktemp("matrix"))) as store:
        fill_matrix(store)
        yield create_app(store, clock=lambda: NOW).test_client()


def fill_matrix(store: Store) -> None:
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(number) for number in range(RUNS)])
        start_session(tx, PROJECT, "matrix", "history", "spec", 7, 5, NOW - timedelta(days=1))
        for number in range(RUNS):
            find_or_add_run(tx, a_matrix_run(number))
        finish_session(tx, "matrix", NOW)


def lines(client: FlaskClient, path: str) -> list[str]:
    """The rows of the table as they are read."""
    page = client.get(path).text
    body = page.partition('<table class="matrix">')[2].partition("</table>")[0]
    plain = [re.sub(r"<[^>]+>", " ", row) for row in body.split("</tr>")]
    return [" ".join(unescape(line).split()) for line in plain if line.strip()][1:]


def test_shows_the_level_of_every_cell_and_the_means(matrix_client: FlaskClient) -> None:
    assert lines(matrix_client, MATRIX) == [
        "1024 vs 10.04 ms 20.08 ms 14.20 ms",
        "4096 vs 60.24 ms 160.6 ms 98.37 ms",
        "16384 vs not run ✕ oom CUDA out of memory <script>alert(1)</script> –",
        "Geometric mean 24.59 ms of 2 of 3 56.79 ms of 2 of 3 37.37 ms of 4 of 6",
    ]
    assert "4 of 6 cells measured, 1 failed." in words(read(matrix_client, MATRIX))
    assert HOSTILE not in read(matrix_client, MATRIX)


def test_compares_every_cell_with_another_commit(matrix_client: FlaskClient) -> None:
    base = a_commit(RUNS - 2).sha

    text = "\n".join(lines(matrix_client, f"{MATRIX}?vs={base}"))

    assert "△ +50.3 %" in text
    assert "likely worse" in text
    assert text.count("within noise") == 3
    assert "3 within noise, 1 likely worse. Worst: 4096 · bf16 +50.3 %." in words(
        read(matrix_client, f"{MATRIX}?vs={base}")
    )


def test_gives_the_speed_up_over_a_column(matrix_client: FlaskClient) -> None:
    rows = lines(matrix_client, f"{MATRIX}?vs=col:fp32")

    assert rows[0].startswith("1024 vs ▽ 2.00× [1.99, 2.01] likely better 10.04 ms 20.08 ms reference 2.00×")
    assert rows[3].startswith("Geometric mean 2.31× of 2 of 3 – 2.31× of 2 of 3")


def test_turns_rows_and_columns_by_their_names(matrix_client: FlaskClient) -> None:
    assert lines(matrix_client, f"{MATRIX}?rows=dtype&cols=tokens")[0].startswith("bf16 vs 10.04 ms 60.24 ms")


def test_shows_an_older_commit(matrix_client: FlaskClient) -> None:
    assert "40.00 ms" in lines(matrix_client, f"{MATRIX}?at={a_commit(0).sha[:9]}")[1]


def test_gives_the_cells_as_csv_and_json(matrix_client: FlaskClient) -> None:
    table = matrix_client.get(f"{MATRIX}.csv?vs=col:fp32").text.splitlines()
    document = matrix_client.get(f"{MATRIX}.json").get_json()

    assert table[0] == "row,column,level,unit,status,reason,ratio,interval_lo,interval_hi,outcome"
    assert table[1].startswith("1024,'bf16',0.01004,seconds,ok,,0.5,")
    assert (document["rows"], document["columns"], len(document["cells"])) == ("p.tokens", "p.dtype", 6)
    assert document["cells"][5]["status"] == "oom"


def test_lists_what_has_two_values_of_something(matrix_client: FlaskClient) -> None:
    text = words(read(matrix_client, f"{P}/matrix"))

    assert "2 benchmarks to lay out by parameter, machine and variant." in text
    assert "nn.Attention.time_forward cpu_time tokens (3) × dtype (2) 5" in text
    assert HOSTILE not in read(matrix_client, f"{P}/matrix?q={HOSTILE}")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (f"{P}/matrix/nn.Nothing/time", "has no benchmark nn.Nothing time"),
        (f"{MATRIX}?at=nothing", "knows no commit that starts with nothing"),
        (f"{MATRIX}?vs=0000000", "knows no commit that starts with 0000000"),
    ],
)
def test_says_what_is_not_there(matrix_client: FlaskClient, path: str, sentence: str) -> None:
    answer = matrix_client.get(path)

    assert answer.status_code == 404
    assert sentence in words(answer.text)


def test_ignores_values_that_choose_nothing(matrix_client: FlaskClient) -> None:
    odd = f"{MATRIX}?rows={HOSTILE}&cols=nothing&p.tokens=x&vs=row:{HOSTILE}"

    page = read(matrix_client, odd)

    assert HOSTILE not in page
    assert "nothing to compare with: not measured" in words(page)


def test_lays_out_first_what_measured_series_differ_in() -> None:
    series = [
        a_series("x", old=old, tokens=tokens, dtype=dtype)
        for old in (1, 2)
        for tokens in (8, 16)
        for dtype in ("bf16", "fp32")
    ]
    axes, measured = list_axes(series), series[4:]

    layout = choose_layout(axes, MatrixQuery(), measured)
    turned = choose_layout(axes, MatrixQuery(cols="tokens"), measured)

    assert (layout.rows.label, layout.cols and layout.cols.label) == ("tokens", "dtype")
    assert layout.chosen == {"p.old": "2"}
    assert (turned.rows.label, turned.cols and turned.cols.label) == ("dtype", "tokens")


@pytest.mark.parametrize("cols", ["tokens", "machine", ""])
def test_lays_out_a_single_axis_whatever_the_address_says(cols: str) -> None:
    series = [a_series("x", tokens=tokens) for tokens in (8, 16)]

    layout = choose_layout(list_axes(series), MatrixQuery(cols=cols), series)

    assert (layout.rows.label, layout.cols) == ("tokens", None)


def test_has_no_matrix_of_one_parameter_set(client: FlaskClient) -> None:
    answer = client.get(f"{P}/matrix/serve.Generate.time_token/cpu_time")

    assert answer.status_code == 404
    assert "has one parameter set at one place: it makes no matrix" in words(answer.text)
