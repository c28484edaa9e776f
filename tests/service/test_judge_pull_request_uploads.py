"""What a pull request uploads is judged against recent runs of the main branch, and never enters it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfci.history.verify_stored_verdicts import verify_stored_verdicts
from perfci.model import Clock, Environment, PerfciError, Stage, Status, VerdictKind
from perfci.store import Store
from perfci.store.queries.measured_samples import load_history
from perfci.store.queries.series_commits_machines import load_project_series
from tests.support.builders import (
    PROJECT,
    a_commit,
    a_failed_process,
    a_pair,
    a_process,
    a_result,
    a_run,
    a_series,
    a_sha,
    a_summary,
    an_environment,
)
from tests.support.databases import KINDS
from tests.support.pull_request_uploads import (
    HEAD,
    WOBBLES,
    judge,
    main_run,
    pull_run,
    timed,
    upload,
    upload_main_branch,
)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """The rules are the same on every database; tests of what is selected from it ask for both kinds."""
    return str(getattr(request, "param", "sqlite"))


on_both_databases = pytest.mark.parametrize("kind", KINDS, indirect=True)


@pytest.mark.parametrize(
    ("level", "verdict_kind", "reason"),
    [
        (
            1.2,
            VerdictKind.REGRESSION,
            "+20.0 % in 1 run against 12 of the main branch in 2 days, interval +18.8 % to +21.1 %: "
            "beyond the threshold of 5.0 %, and half of it is excluded.",
        ),
        (
            0.8,
            VerdictKind.IMPROVEMENT,
            "−20.0 % in 1 run against 12 of the main branch in 2 days, interval −20.8 % to −19.3 %: "
            "beyond the threshold of 5.0 %, and half of it is excluded.",
        ),
        (
            1.0,
            VerdictKind.UNCHANGED,
            "−0.02 % in 1 run against 12 of the main branch in 2 days, interval −1.0 % to +0.9 %: "
            "inside the threshold of 5.0 % either way.",
        ),
        (
            1.045,
            VerdictKind.INCONCLUSIVE,
            "+4.5 % in 1 run against 12 of the main branch in 2 days, interval +3.5 % to +5.5 %: "
            "neither beyond the threshold of 5.0 % nor inside it. "
            "Too close to the threshold for more runs of the head to decide.",
        ),
    ],
)
def test_judges_a_single_run_by_the_noise_between_runs(
    store: Store, level: float, verdict_kind: VerdictKind, reason: str
) -> None:
    upload_main_branch(store)

    [verdict] = judge(store, [pull_run(timed(level))])

    assert (verdict.kind, verdict.stage, verdict.reason) == (verdict_kind, Stage.SEPARATE_RUNS, reason)
    assert (verdict.base, verdict.head, verdict.pairs) == (a_sha(12), HEAD, 0)
    assert verify_stored_verdicts(store, PROJECT).differences == []


@on_both_databases
def test_results_of_a_pull_request_enter_no_history(store: Store) -> None:
    upload_main_branch(store)
    judge(store, [pull_run(timed(1.2))])

    with store.read() as tx:
        [series_id] = load_project_series(tx, PROJECT)
        shas = [point.commit.sha for point in load_history(tx, series_id)]
    assert shas == [a_sha(number) for number in range(1, 13)]


@on_both_databases
def test_a_later_upload_supersedes_and_all_are_pooled(store: Store) -> None:
    upload_main_branch(store)
    judge(store, [pull_run(timed(1.045))])

    [verdict] = judge(store, [pull_run(timed(1.055), step=2), pull_run(timed(1.09), step=3)])

    assert verdict.reason.startswith("+6.3 % in 3 runs against 12 of the main branch")
    assert len(judge(store, current=False)) == 2
    assert verify_stored_verdicts(store, PROJECT).differences == []


def test_uploads_of_one_job_are_one_run(store: Store) -> None:
    upload_main_branch(store)
    first = pull_run(timed(1.19))
    second = replace(pull_run(timed(1.21)), session="pull-7-1b", origin=(*first.origin, ("source", "b")))

    [verdict] = judge(store, [first, second])

    assert verdict.reason.startswith("+20.0 % in 1 run against 12 of")


def test_uploads_that_arrive_again_add_no_verdict(store: Store) -> None:
    upload_main_branch(store)
    judge(store, [pull_run(timed(1.2))])

    assert len(judge(store, [pull_run(timed(1.2))], current=False)) == 1


@on_both_databases
def test_compares_with_the_present_level_up_to_the_base(store: Store) -> None:
    """What moved the level before the base, and what came after it, is nothing that the head did."""
    moved = [main_run(n, timed((1.0 if n < 15 else 1.3) + WOBBLES[n % 12] / 2)) for n in range(1, 31)]
    later = [main_run(n, timed(2.0)) for n in range(31, 34)]
    origin = (*pull_run().origin[:-1], ("base", a_sha(30)))

    [verdict] = judge(store, [*moved, *later, pull_run(timed(1.3), origin=origin)])

    assert verdict.kind is VerdictKind.UNCHANGED
    assert "against 16 of the main branch" in verdict.reason


@pytest.mark.parametrize(("named", "base", "decided"), [("12", 12, "unchanged"), ("", 14, "inconclusive")])
def test_finds_the_place_of_a_base_that_was_not_measured(
    store: Store, named: str, base: int, decided: str
) -> None:
    upload_main_branch(store)
    upload(store, *(main_run(number, timed(1.5)) for number in (13, 14)))
    origin = (*pull_run().origin[:-1], ("base", "d" * 40), *([("base_position", named)] if named else []))

    [verdict] = judge(store, [pull_run(timed(1.0), origin=origin)])

    assert (verdict.base, verdict.kind) == (a_sha(base), decided)


def test_few_runs_of_the_main_branch_decide_nothing(store: Store) -> None:
    upload_main_branch(store, 5)

    [verdict] = judge(store, [pull_run(timed(1.5))])

    assert (verdict.kind, verdict.ratio) == (VerdictKind.INCONCLUSIVE, None)
    assert verdict.reason == (
        "5 runs of the main branch in this environment since its level last changed, "
        "and 8 show what is noise: 3 more runs of it would tell."
    )


def test_another_environment_is_not_comparable(store: Store) -> None:
    driver = {"driver": "550.1", "torch": "2.9.0"}
    upload(store, *(main_run(n, environment=an_environment(**driver)) for n in range(1, 13)))

    [verdict] = judge(
        store, [pull_run(timed(1.5), environment=an_environment(**driver | {"driver": "560.2"}))]
    )

    assert verdict.kind is VerdictKind.NOT_COMPARABLE
    assert verdict.reason == (
        "No run of the main branch had the environment of the head: driver 550.1 became 560.2. "
        "Upload runs of the main branch from it."
    )


def test_values_that_change_with_every_run_are_no_other_environment(store: Store) -> None:
    named = [main_run(n, environment=an_environment(host=f"runner-{n}")) for n in range(1, 13)]

    [verdict] = judge(store, [*named, pull_run(timed(1.2), environment=an_environment(host="runner-99"))])

    assert verdict.kind is VerdictKind.REGRESSION


def test_judges_mere_values(store: Store) -> None:
    """A tool that gives one value a run says nothing of its noise; the main branch does."""

    def valued(level: float) -> Any:
        return replace(a_result(None), processes=(), summary=a_summary(level))

    runs = [main_run(n, valued(1 + WOBBLES[n % 12])) for n in range(1, 13)]

    [verdict] = judge(store, [*runs, pull_run(valued(1.2))])

    assert (verdict.kind, verdict.evidence) == (VerdictKind.REGRESSION, ())
    assert verify_stored_verdicts(store, PROJECT).differences == []


def test_exact_counts_are_compared_exactly(store: Store) -> None:
    calls = a_series(metric="calls", unit="count")

    def counted(value: float) -> Any:
        return a_result(calls, a_process(value, clock=Clock.EXACT))

    runs = [main_run(n, counted(100)) for n in (1, 2)]

    [verdict] = judge(store, [*runs, pull_run(counted(101))])

    assert (verdict.kind, verdict.reason) == (
        VerdictKind.REGRESSION,
        "Counted exactly: 100 became 101 (+1.0 %), and for counts no change is too small.",
    )


def test_a_head_that_fails_has_failed_and_one_that_lacks_a_benchmark_says_so(store: Store) -> None:
    other = a_series("training.Step.time_other")
    runs = [main_run(n, timed(1.0), a_result(other, a_process(1.0))) for n in range(1, 13)]
    broken = a_result(None, a_failed_process(), status=Status.FAILED, reason="it raised")

    verdicts = {verdict.series: verdict for verdict in judge(store, [*runs, pull_run(broken)])}

    assert verdicts[a_series()].kind is VerdictKind.FAILED
    assert verdicts[other].kind is VerdictKind.MISSING
    assert verdicts[other].base_level == 1.0


def test_a_new_benchmark_has_nothing_to_be_compared_with(store: Store) -> None:
    upload_main_branch(store)

    verdicts = judge(store, [pull_run(timed(1.0), a_result(a_series("new.time_it"), a_process(2.0)))])

    new = next(verdict for verdict in verdicts if verdict.series.benchmark.name == "new.time_it")
    assert (new.kind, new.base_level, new.head_level) == (VerdictKind.MISSING, None, 2.0)


@on_both_databases
def test_runs_of_another_pull_request_never_count(store: Store) -> None:
    """A job of one pull request may send any commit, but not for another pull request."""
    upload_main_branch(store)
    judge(store, [pull_run(timed(1.0))])

    verdicts = judge(store, [pull_run(timed(3.0), number="8", step=8)], current=False)

    assert [verdict.kind for verdict in verdicts] == [VerdictKind.UNCHANGED, VerdictKind.REGRESSION]
    assert "in 1 run against" in verdicts[-1].reason


@on_both_databases
def test_pairs_decide_over_separate_runs(store: Store) -> None:
    upload_main_branch(store)
    origin = (("event", "pull_request"), ("run_id", "9"), ("attempt", "1"))
    for number in range(10):
        base, head = a_pair(number, 1.0 + number / 1000, 1.3 + number / 1000)
        for side, sha in ((base, a_sha(12)), (head, HEAD)):
            run = a_run(
                a_result(None, side),
                commit=replace(a_commit(), sha=sha, position=None),
                session="pairs",
                origin=(*origin, ("step", f"{number} {sha[:8]}")),
            )
            upload(store, run)
    judge(store)

    [verdict] = judge(store, [pull_run(timed(1.0))])

    assert verdict.stage is Stage.CONFIRMATION


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("pull_request", "0", "the number of a pull request"),
        ("pull_request", "../x", "the number of a pull request"),
        ("base", "main", "a full sha"),
        ("base_position", "-1", "a number of commits"),
    ],
)
def test_refuses_what_is_no_pull_request(store: Store, name: str, value: str, expected: str) -> None:
    origin = dict(pull_run().origin) | {name: value}

    with pytest.raises(PerfciError) as refused:
        upload(store, pull_run(timed(1.0), origin=tuple(origin.items())))

    assert str(refused.value) == f"origin.{name} was expected to be {expected}, not {value!r}."


def test_a_working_tree_with_changes_is_not_the_head(store: Store) -> None:
    upload_main_branch(store)

    assert judge(store, [pull_run(timed(1.5), commit=replace(a_commit(13), sha=HEAD, dirty=True))]) == []


def test_the_environment_of_no_observation_is_its_own(store: Store) -> None:
    upload_main_branch(store)

    [verdict] = judge(store, [pull_run(timed(1.0), environment=Environment((("os", "linux"),)))])

    assert verdict.kind is VerdictKind.NOT_COMPARABLE
    assert "os unknown became linux" in verdict.reason
