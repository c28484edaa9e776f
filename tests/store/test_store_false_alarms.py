"""Count all verdicts ever given, superseded ones included, and those of A/A runs."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import perfci
from perfci.model import Series, Stage, Verdict, VerdictKind
from perfci.store import Store
from perfci.store.queries.false_alarm_inputs import (
    count_aa_sessions,
    count_aa_verdicts,
    load_verdicts_of_changed_pairs,
)
from perfci.store.queries.query_records import VerdictCount
from perfci.store.verdicts_and_change_points import add_verdicts
from perfci.store.writes.measured_sessions import find_or_add_run, start_session
from tests.support.builders import NOON, PROJECT, a_commit, a_result, a_run, a_series, a_sha, a_verdict

SCREENING, CONFIRMATION = Stage.SCREENING, Stage.CONFIRMATION
WORSE, SAME = VerdictKind.REGRESSION, VerdictKind.UNCHANGED
SERIES = a_series()


def add_verdicts_of_session(
    store: Store, kind: str, verdicts: Iterable[Verdict], *, at: datetime = NOON, suite: str = "benchmarks"
) -> str:
    """A session of a kind gave these verdicts."""
    with store.begin() as tx:
        uid = f"{kind}-{at.isoformat()}-{suite}"
        start_session(tx, PROJECT, uid, kind, "spec", 1, 0, at)
        find_or_add_run(tx, a_run(a_result(SERIES), commit=a_commit(1), session=uid, suite=suite))
        add_verdicts(tx, PROJECT, uid, list(verdicts), at)
    return uid


def an_aa_verdict(kind: VerdictKind, stage: Stage = SCREENING, series: Series = SERIES) -> Verdict:
    return a_verdict(series, kind, stage=stage, base=a_sha(1), head=a_sha(1))


def counted(store: Store, since: datetime = NOON - timedelta(days=1)) -> dict[tuple[Stage, VerdictKind], int]:
    with store.read() as tx:
        tallies = count_aa_verdicts(tx, PROJECT, since)
    return {(tally.stage, tally.kind): tally.count for tally in tallies}


def test_a_superseded_verdict_is_counted(store: Store) -> None:
    for night in range(3):
        add_verdicts_of_session(
            store, "aa", [an_aa_verdict(WORSE if night == 0 else SAME)], at=NOON + timedelta(days=night)
        )

    assert counted(store) == {(SCREENING, WORSE): 1, (SCREENING, SAME): 2}


def test_counts_the_confirmation_of_an_aa_run_with_it(store: Store) -> None:
    add_verdicts_of_session(store, "aa", [an_aa_verdict(WORSE)])
    add_verdicts_of_session(
        store, "confirm", [an_aa_verdict(SAME, CONFIRMATION)], at=NOON + timedelta(minutes=1)
    )

    assert counted(store) == {(SCREENING, WORSE): 1, (CONFIRMATION, SAME): 1}


def test_counts_verdicts_on_identical_commits_as_aa_verdicts(store: Store) -> None:
    alike = {"base": a_sha(1), "head": a_sha(2)}
    add_verdicts_of_session(store, "aa", [a_verdict(SERIES, WORSE, stage=SCREENING, **alike)])
    add_verdicts_of_session(
        store,
        "confirm",
        [a_verdict(SERIES, WORSE, stage=CONFIRMATION, **alike)],
        at=NOON + timedelta(minutes=1),
    )

    assert counted(store) == {(SCREENING, WORSE): 1, (CONFIRMATION, WORSE): 1}
    with store.read() as tx:
        assert list(load_verdicts_of_changed_pairs(tx, PROJECT)) == []


def test_does_not_count_verdicts_on_different_commits(store: Store) -> None:
    add_verdicts_of_session(store, "compare", [a_verdict(SERIES, WORSE, stage=SCREENING)])
    add_verdicts_of_session(
        store,
        "confirm",
        [a_verdict(SERIES, WORSE), an_aa_verdict(WORSE, CONFIRMATION)],
        at=NOON + timedelta(minutes=1),
    )

    assert counted(store) == {}


def test_counts_suites_and_series_separately(store: Store) -> None:
    other = a_series("generation.Gpt")
    add_verdicts_of_session(
        store, "aa", [an_aa_verdict(SAME), an_aa_verdict(SAME, series=other)], suite="fast"
    )
    add_verdicts_of_session(store, "aa", [an_aa_verdict(WORSE)], suite="slow")

    with store.read() as tx:
        aa_verdicts = count_aa_verdicts(tx, PROJECT)

    assert {(item.series, item.suite, item.kind, item.count) for item in aa_verdicts} == {
        (SERIES, "fast", SAME, 1),
        (other, "fast", SAME, 1),
        (SERIES, "slow", WORSE, 1),
    }
    assert all(isinstance(item, VerdictCount) for item in aa_verdicts)


def test_counts_only_the_requested_period(store: Store) -> None:
    add_verdicts_of_session(store, "aa", [an_aa_verdict(WORSE)])
    add_verdicts_of_session(store, "aa", [an_aa_verdict(SAME)], at=NOON + timedelta(days=40))

    later = NOON + timedelta(days=10)

    assert counted(store, later) == {(SCREENING, SAME): 1}
    with store.read() as tx:
        assert count_aa_sessions(tx, PROJECT, later) == (1, NOON + timedelta(days=40))
        assert count_aa_sessions(tx, PROJECT)[0] == 2


def test_loads_commit_pairs_in_the_order_of_their_verdicts(store: Store) -> None:
    quiet = a_series("training.Step.quiet")
    add_verdicts_of_session(
        store, "compare", [a_verdict(SERIES, WORSE, stage=SCREENING), a_verdict(quiet, SAME, stage=SCREENING)]
    )
    add_verdicts_of_session(store, "confirm", [a_verdict(SERIES, SAME)], at=NOON + timedelta(minutes=1))
    add_verdicts_of_session(store, "aa", [an_aa_verdict(WORSE)], at=NOON + timedelta(minutes=2))

    with store.read() as tx:
        verdict_sequences = list(load_verdicts_of_changed_pairs(tx, PROJECT))

    assert verdict_sequences == [[(SCREENING, WORSE), (CONFIRMATION, SAME)]]


def test_an_empty_store_has_nothing_to_count(store: Store) -> None:
    with store.read() as tx:
        assert (count_aa_verdicts(tx, PROJECT), list(load_verdicts_of_changed_pairs(tx, PROJECT))) == ([], [])
        assert count_aa_sessions(tx, PROJECT) == (0, None)


# ------------------------------------------------------------------ nothing is unsaid

ALLOWED = {
    "insert": ["_add_verdict"],
    "update": ["_set_superseded_by", "_supersede", "_mark_verdicts", "_move_verdicts"],
    "delete": ["_delete_verdicts"],
}
"""The functions of the whole program that write verdicts, by what they do to them."""


@pytest.mark.parametrize("doing", list(ALLOWED))
def test_verdicts_are_written_in_one_place_only(doing: str) -> None:
    names = [name for name, call in writers_of_verdicts() if attribute(call) == doing]

    assert sorted(names) == sorted(ALLOWED[doing])


def test_those_places_change_nothing_that_a_verdict_says() -> None:
    changed = {
        (function.name, word.arg)
        for function in functions()
        if function.name in ALLOWED["update"]
        for call in calls(function)
        if attribute(call) == "values"
        for word in call.keywords
    }

    assert changed == {
        ("_set_superseded_by", "superseded_by"),
        ("_supersede", "superseded_by"),
        ("_mark_verdicts", "invalid"),
        ("_move_verdicts", "series_id"),
    }


def test_no_sql_of_the_program_names_the_table_of_verdicts() -> None:
    texts = [
        node.value
        for module in program()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]

    wrong = [
        text for text in texts if re.search(r"(?i)\b(update|delete\s+from|drop\s+table)\s+verdicts\b", text)
    ]

    assert wrong == []


PACKAGE = Path(perfci.__file__).parent


@functools.cache
def program() -> list[ast.Module]:
    paths = [path for path in sorted(PACKAGE.rglob("*.py")) if "migrations" not in path.parts]
    return [ast.parse(path.read_text()) for path in paths]


def functions() -> Iterator[ast.FunctionDef]:
    for module in program():
        yield from (node for node in ast.walk(module) if isinstance(node, ast.FunctionDef))


def calls(node: ast.AST) -> Iterator[ast.Call]:
    return (item for item in ast.walk(node) if isinstance(item, ast.Call))


def attribute(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


@functools.cache
def writers_of_verdicts() -> list[tuple[str, ast.Call]]:
    """Every ``sa.insert``, ``sa.update`` and ``sa.delete`` of the table of verdicts, with the function it
    stands in.
    """
    return [
        (function.name, call)
        for function in functions()
        for call in calls(function)
        if attribute(call) in ALLOWED and call.args and "VerdictRow" in ast.unparse(call.args[0])
    ]
