"""What the tail of the samples did is judged once, stored, and shown beside the median wherever that stands.

Pairs of four benchmarks are uploaded and judged: the tail of one moved without its median, of one both moved,
one has more tokens where it is better, one too few samples to have a tail.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from flask.testing import FlaskClient
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.history.comparisons.judge_uploaded_pairs import UploadedPairs, save_verdicts_with_decisions
from perfci.history.verify_stored_verdicts import remove_tail_sentence, verify_stored_verdicts
from perfci.model import Interval, Process, Role, Series, TailVerdict, Verdict, VerdictKind
from perfci.net.api_schemas.series import TailVerdictShape
from perfci.number_format import format_signed_percent
from perfci.report.serializers import serialize_verdict
from perfci.report.verdict_groups import VerdictGroup
from perfci.report.verdict_table import format_comparison
from perfci.report.verdict_text import format_interval, tail_cell, tail_phrase, verdict_sentence
from perfci.store import Store, open_store
from perfci.store.maintenance.backup_restore_upgrade import backup
from perfci.store.verdicts_and_change_points import add_verdicts, load_verdict_records
from perfci.store.writes.measured_sessions import start_session
from perfci.verdicts.compare.pairwise_verdict import interim_analysis
from perfci.verdicts.compare.tail_shift import describe_tail
from perfci.verdicts.judging_policy import Policy
from perfci_web import create_app
from perfci_web.page_urls import ProjectLinks
from tests.support.builders import (
    NOON,
    PROJECT,
    a_commit,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_verdict,
)
from tests.support.stored_runs import ingest_run

P = "/acme:model"
PAIRS, SAMPLES = 8, 20
TAIL_ALONE, BOTH, FEW = (a_series(f"serving.Gpt.time_{name}") for name in ("cache", "token", "start"))
TOKENS = replace(
    a_series("serving.Gpt.track_tokens"),
    metric=replace(a_series().metric, name="throughput", unit="tokens/s", direction="higher"),
)
HEADS = {TAIL_ALONE: (1.0, 0.2), BOTH: (1.25, 0.0), FEW: (1.0, 0.2), TOKENS: (1.0, 0.2)}
"""The level of most samples of the head, and the share of its samples that take half as long again."""


def a_side(series: Series, role: Role, level: float, slow_share: float) -> list[Process]:
    rng = np.random.default_rng([role is Role.HEAD, *series.benchmark.name.encode()])
    count = 3 if series == FEW else SAMPLES
    sides = []
    for pair in range(PAIRS):
        slow = rng.permutation(count) < round(slow_share * count)
        costs = level * np.where(slow, 1.5, 1.0) * np.exp(rng.normal(0, 0.01, count))
        values = costs if series.metric.direction == "lower" else 8000 / costs
        sides.append(a_process(*map(float, values), index=pair, pair=pair, role=role))
    return sides


def upload(store: Store) -> None:
    sides = {
        Role.BASE: {series: a_side(series, Role.BASE, 1.0, 0.0) for series in HEADS},
        Role.HEAD: {series: a_side(series, Role.HEAD, *shape) for series, shape in HEADS.items()},
    }
    for number, by_series in enumerate(sides.values(), start=1):
        results = [a_result(series, *processes) for series, processes in by_series.items()]
        with store.begin() as tx:
            run = a_run(*results, commit=a_commit(number), session="pairs")
            ingest_run(tx, run, str(number), str(number), kind="compare")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path = tmp_path_factory.mktemp("tail") / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        upload(store)
        yield store


@pytest.fixture(scope="module")
def judged(store: Store) -> Mapping[Series, Verdict]:
    """The verdicts as they were judged, before they were stored."""
    with store.begin() as tx:
        decided = UploadedPairs.load(tx, PROJECT, "pairs").judge(Policy())
        save_verdicts_with_decisions(tx, PROJECT, "pairs", decided, NOON)
    return {verdict.series: verdict for verdict, _ in decided}


@pytest.fixture(scope="module")
def client(store: Store) -> Iterator[FlaskClient]:
    app = create_app(store, read_only=False)
    yield app.test_client()
    app.extensions["perfci"].group_commit.close()


def read_page(client: FlaskClient, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    plain = re.sub(r"<(?!wbr)[^>]+>", " ", answer.get_data(as_text=True)).replace("<wbr>", "")
    return " ".join(html.unescape(plain).split())


def test_judges_the_tail_beside_the_median(judged: Mapping[Series, Verdict]) -> None:
    kinds = {series: (verdict.kind, verdict.tail and verdict.tail.kind) for series, verdict in judged.items()}

    assert kinds == {
        TAIL_ALONE: (VerdictKind.UNCHANGED, VerdictKind.REGRESSION),
        BOTH: (VerdictKind.REGRESSION, VerdictKind.REGRESSION),
        FEW: (VerdictKind.UNCHANGED, None),
        TOKENS: (VerdictKind.UNCHANGED, VerdictKind.REGRESSION),
    }


def test_stores_what_was_judged(store: Store, judged: Mapping[Series, Verdict]) -> None:
    with store.read() as tx:
        stored = [record.verdict for record in load_verdict_records(tx, PROJECT)]

    assert {verdict.series: verdict for verdict in stored} == judged
    assert verify_stored_verdicts(store, PROJECT).differences == []


def test_shows_what_was_stored(client: FlaskClient, judged: Mapping[Series, Verdict]) -> None:
    links = ProjectLinks(PROJECT, list(judged))
    pair = f"{P}/compare/{a_sha(1)}...{a_sha(2)}"
    compared, comment = read_page(client, f"{pair}?show=all"), client.get(f"{pair}.md").get_data(as_text=True)
    document = client.get(f"{pair}.json").get_json()
    answered = client.get(f"/api/v1/projects/{P[1:]}/comparisons/{a_sha(1)}...{a_sha(2)}").get_json()

    for series, verdict in judged.items():
        tail = verdict.tail
        in_json, in_api = (
            next(item for item in items if item["series"]["benchmark"] == series.benchmark.name)
            for items in (document["verdicts"], answered["items"])
        )
        if tail is None or tail.interval is None:
            assert in_json["tail"] is None
            assert "tail" not in in_api or in_api["tail"] is None
            continue
        name = series.metric.tail_name
        assert in_json["tail"] == {
            "quantile": name,
            "verdict": tail.kind,
            "ratio": tail.ratio,
            "interval": [tail.interval.lo, tail.interval.hi],
        }
        assert in_api["tail"] == in_json["tail"]
        size, interval = format_signed_percent(tail.ratio - 1), format_interval(tail.interval)
        assert f"{size} {interval} {name} worse" in compared
        arrow = "▲" if tail.ratio > 1 else "▼"
        assert f"<br>{name} {arrow} **worse {size}** {interval}" in comment.replace("\N{NO-BREAK SPACE}", " ")
        assert f"{verdict_sentence(verdict)}." in read_page(client, f"{P}/commit/{a_sha(2)}")
        own_page = read_page(client, links.series(series))
        assert describe_tail(verdict) in own_page
        assert "never judged" not in own_page
        assert f"; {name} " in verdict_sentence(verdict)
        assert f"{name} {arrow} worse {size} {interval}" in format_comparison([VerdictGroup(verdict)])


def test_the_values_of_a_commit_have_it_beside_their_change(
    client: FlaskClient, judged: Mapping[Series, Verdict]
) -> None:
    verdict = judged[BOTH]
    assert verdict.tail is not None
    assert verdict.interval is not None
    assert verdict.ratio is not None

    size, interval = format_signed_percent(verdict.ratio - 1), format_interval(verdict.interval)
    phrase = tail_phrase(verdict.tail, BOTH.metric)
    assert f"1.250 s {size} {interval} % {phrase}" in read_page(client, f"{P}/commit/{a_sha(2)}")


def test_the_comment_names_tails_that_moved_alone(
    client: FlaskClient, judged: Mapping[Series, Verdict]
) -> None:
    comment = client.get(f"{P}/compare/{a_sha(1)}...{a_sha(2)}.md").get_data(as_text=True)

    assert (
        "**Only the tail is known to have moved:** `serving.Gpt.time_cache · time` p90 ▲ worse, "
        "`serving.Gpt.track_tokens · throughput` p10 ▼ worse.\n" in comment
    )


def test_a_verdict_from_before_tails_is_no_difference(
    store: Store, judged: Mapping[Series, Verdict], tmp_path: Path
) -> None:
    with closing(copy_of(store, tmp_path)) as older:
        with older.begin() as tx:
            tx.execute(sa.text("DROP TRIGGER verdicts_are_not_edited"))
            for verdict in judged.values():
                reason = {"old": remove_tail_sentence(verdict.reason), "new": verdict.reason}
                tx.execute(sa.text("UPDATE verdicts SET reason = :old WHERE reason = :new"), reason)
            absent = "tail_kind = NULL, tail_ratio = NULL, tail_interval_lo = NULL, tail_interval_hi = NULL"
            tx.execute(sa.text(f"UPDATE verdicts SET {absent}"))

        assert verify_stored_verdicts(older, PROJECT).differences == []
        with older.read() as tx:
            assert {record.verdict.tail for record in load_verdict_records(tx, PROJECT)} == {None}


@pytest.mark.parametrize(("figure", "is_difference"), [("+2", False), ("+9", True)])
def test_a_reason_in_older_words_is_no_difference_but_another_figure_is(
    store: Store, judged: Mapping[Series, Verdict], tmp_path: Path, figure: str, is_difference: bool
) -> None:
    with closing(copy_of(store, tmp_path)) as older:
        with older.begin() as tx:
            tx.execute(sa.text("DROP TRIGGER verdicts_are_not_edited"))
            for verdict in judged.values():
                old = (
                    verdict.reason.replace(" %", "%")
                    .replace("\N{MINUS SIGN}", "-")
                    .replace("threshold", "bar")
                )
                reason = {"old": old.replace("+2", figure), "new": verdict.reason}
                tx.execute(sa.text("UPDATE verdicts SET reason = :old WHERE reason = :new"), reason)

        differences = verify_stored_verdicts(older, PROJECT).differences

    assert bool(differences) is is_difference
    assert all(difference.description.startswith("reason was ") for difference in differences)


def test_a_tail_that_was_changed_is_a_difference(
    store: Store, judged: Mapping[Series, Verdict], tmp_path: Path
) -> None:
    with closing(copy_of(store, tmp_path)) as edited:
        with edited.begin() as tx:
            tx.execute(sa.text("DROP TRIGGER verdicts_are_not_edited"))
            tx.execute(sa.text("UPDATE verdicts SET tail_ratio = 1.0 WHERE tail_kind = 'regression'"))
            tx.execute(sa.text("UPDATE verdicts SET tail_kind = 'unchanged' WHERE tail_kind = ''"))
            tx.execute(sa.text("UPDATE verdicts SET tail_ratio = 1.0 WHERE tail_ratio IS NULL"))

        differences = verify_stored_verdicts(edited, PROJECT).differences

    texts = sorted(difference.description for difference in differences)
    assert len(texts) == len(HEADS)
    assert re.fullmatch(
        r"tail was regression 1\.0 \[\S+, \S+\], now regression 1\.2\d+ \[\S+, \S+\]", texts[1]
    )
    assert "tail was unchanged 1.0 None, now None" in texts


def copy_of(store: Store, folder: Path) -> Store:
    backup(store.url, folder / "copy.db")
    return open_store(f"sqlite:///{folder}/copy.db", create=False)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of verdicts that rest on no process of it."""
    path = tmp_path_factory.mktemp("written") / "perfci.db"
    with closing(open_store(f"sqlite:///{path}", create=True)) as store:
        with store.begin() as tx:
            start_session(tx, PROJECT, "pairs", "compare", "spec", 7, 0, NOON)
        yield store


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    level=st.floats(0.7, 1.4),
    slow_share=st.sampled_from((0.0, 0.1, 0.3)),
    samples=st.sampled_from((3, 10, 25)),
    direction=st.sampled_from(("lower", "higher")),
)
def test_judged_stored_and_shown_are_one(
    written: Store, seed: int, level: float, slow_share: float, samples: int, direction: str
) -> None:
    rng = np.random.default_rng(seed)
    metric = replace(a_series().metric, direction=direction)  # type: ignore[arg-type]
    series = replace(a_series(f"made.time_{seed}"), metric=metric)
    sides = [
        [
            a_process(*map(float, by * np.where(rng.random(samples) < slow, 1.5, 1.0) * noise), pair=pair)
            for pair, noise in enumerate(np.exp(rng.normal(0, 0.03, (6, samples))))
        ]
        for by, slow in ((1.0, 0.0), (level, slow_share))
    ]
    verdict = interim_analysis(series, a_sha(1), a_sha(2), *sides).verdict

    with written.begin() as tx:
        add_verdicts(tx, PROJECT, "pairs", [verdict], NOON)
        (stored,) = [record.verdict for record in load_verdict_records(tx, PROJECT, limit=1)]

    assert stored == verdict
    shown = json.loads(json.dumps(serialize_verdict(stored)))["tail"]
    if verdict.tail is None:
        assert (shown, tail_cell(stored)) == (None, "")
        assert samples < 25
        return
    shape = TailVerdictShape.model_validate(shown)
    interval = Interval(*shape.interval) if shape.interval else None
    assert TailVerdict(VerdictKind(shape.verdict), shape.ratio, interval) == verdict.tail
    assert format_signed_percent(verdict.tail.ratio - 1) in tail_cell(stored)
    assert f"; {shape.quantile} " in verdict_sentence(stored)


def test_old_and_new_verdicts_stand_in_one_table() -> None:
    tail = TailVerdict(VerdictKind.IMPROVEMENT, 0.8, Interval(0.75, 0.85))

    verdicts = [a_verdict(a_series("a.time"), tail=tail), a_verdict(a_series("b.time"))]
    text = format_comparison([VerdictGroup(verdict) for verdict in verdicts])

    header, first, second = text.splitlines()[2:5]
    assert "  95 % interval  " in header
    assert "  [+15.0, +25.0]  p90 ▼ better −20.0 % [−25.0, −15.0]     10  " in first
    assert f"  [+15.0, +25.0]  {'':35}     10  " in second
