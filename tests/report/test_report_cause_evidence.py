"""What speaks for the code or for the runner, in words that fit any number of places."""

from dataclasses import replace
from typing import Any

import pytest

from perfci.report.incidents.cause_evidence import (
    AaRuns,
    CauseInputs,
    MovedOf,
    PlaceMoves,
    build_cause_evidence,
    build_noise_evidence,
)


def machines(*moved: bool) -> list[PlaceMoves]:
    return [PlaceMoves(f"m{number}", f"m{number}", int(yes)) for number, yes in enumerate(moved)]


def variants(*moved: bool) -> list[PlaceMoves]:
    return [replace(place, machine="one") for place in machines(*moved)]


@pytest.mark.parametrize(
    ("places", "sentence"),
    [
        ([], "Nothing here separates the code from the runner: there is no other place to compare with"),
        (
            machines(True),
            "Nothing here separates the code from the runner: there is no other place to compare with",
        ),
        (machines(True, True), "Probably the code: it moved in both places"),
        (machines(*[True] * 9), "Probably the code: it moved in all 9 places"),
        (machines(True, False), "Maybe the runner: it moved here and not in the other place"),
        (
            machines(True, *[False] * 8),
            "Maybe the runner: it moved here and in none of 8 other places",
        ),
        (
            machines(True, True, False),
            "Nothing here separates the code from the runner: it moved in 2 of 3 places",
        ),
        (
            variants(True, True),
            "Nothing here separates the code from the runner: the places it moved in are one machine",
        ),
        (
            variants(True, False),
            "Nothing here separates the code from the runner: it moved in 1 of 2 places",
        ),
    ],
)
def test_says_in_how_many_places_a_change_was_seen(places: list[PlaceMoves], sentence: str) -> None:
    assert build_cause_evidence(CauseInputs(places)).sentence == sentence


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"others": MovedOf(3, 64)}, "Probably the code: most other benchmarks of this machine did not move"),
        ({"others": MovedOf(40, 64)}, "Probably the runner: most benchmarks of this machine moved with it"),
        (
            {"others": MovedOf(3, 3)},
            "Nothing here separates the code from the runner: the places it moved in are one machine",
        ),
        (
            {"canaries": MovedOf(1, 2), "others": MovedOf(3, 64)},
            "Probably the runner: canaries, which no commit can move, moved with it",
        ),
        (
            {"exact_counts": 1, "canaries": MovedOf(1, 2)},
            "It is the code: exact counts, which no runner changes, moved with it",
        ),
        ({"refuted": 1}, "It is not the code: fresh pairs on one machine showed no difference"),
        (
            {"confirmed": 1, "pairs": 10, "canaries": MovedOf(1, 2)},
            "It is the code: fresh pairs on one machine confirmed it",
        ),
    ],
)
def test_weighs_the_strongest_evidence_first(more: dict[str, Any], sentence: str) -> None:
    evidence = build_cause_evidence(CauseInputs(variants(True, True), **more))

    assert evidence.sentence == sentence
    assert evidence.is_decided is bool(more.get("confirmed") or more.get("refuted"))


def test_an_environment_that_changed_everywhere_blames_no_commit() -> None:
    changed = [replace(place, environment="torch 2.9 → 2.10") for place in machines(True, True)]
    in_part = [changed[0], *machines(True, True)[1:]]

    assert build_cause_evidence(CauseInputs(changed)).sentence == (
        "Maybe the runner: its environment changed with it"
    )
    assert build_cause_evidence(CauseInputs(in_part)).sentence == (
        "Probably the code: it also moved where the environment stayed the same"
    )
    assert (
        "The environment changed with it: torch 2.9 → 2.10"
        in build_cause_evidence(CauseInputs(changed)).facts
    )


def test_a_place_where_few_of_the_benchmarks_moved_has_not_moved() -> None:
    places = [PlaceMoves("py3.12", "one", 8, 8), PlaceMoves("py3.13", "other", 1, 8)]

    evidence = build_cause_evidence(
        CauseInputs(places, MovedOf(1, 58), MovedOf(0, 2), aa_runs=AaRuns(2, 130, 1), examined=9, confirmed=0)
    )

    assert evidence.sentence == "Maybe the runner: it moved here and not in the other place"
    assert evidence.facts == (
        "Moved: py3.12: 8 of 8, py3.13: 1 of 8",
        "In the same place 1 of 58 other benchmarks moved at the same commits",
        "Canaries: 0 of 2 moved",
        "A/A runs within a week of it: 2, with a difference in 1 of 130 verdicts",
        "The environment shows no recorded change",
        "No A/B rerun has confirmed it",
    )


@pytest.mark.parametrize(
    ("elsewhere", "sentence"),
    [
        ({}, "Nothing here separates the code from the runner: there is no other place to compare with"),
        ({"b": 0.02}, "Probably the runner: the same benchmark varies much less elsewhere"),
        ({"b": 0.11, "c": 0.09}, "Probably the benchmark: it varies as much in all 3 places"),
        (
            {"b": 0.11, "c": 0.01},
            "Nothing here separates the code from the runner: "
            "it varies less in some places, as much in others",
        ),
    ],
)
def test_compares_the_noise_of_places(elsewhere: dict[str, float], sentence: str) -> None:
    evidence = build_noise_evidence(0.12, elsewhere)

    assert evidence.sentence == sentence
    assert evidence.facts[0] == "95 % of the commits stay within ±12.0 % of the level"
