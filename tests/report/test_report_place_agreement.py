"""Whether the places of a benchmark moved together, as its page says it."""

import pytest

from perfci.model import Direction
from perfci.report.comparisons.place_agreement import (
    PlaceHistory,
    PlaceMove,
    agreement_sentence,
    find_common_moves,
)


def place(name: str, *ratios: float, at: int = 10, reach: int = 0) -> PlaceHistory:
    moves = [PlaceMove(at - reach, at, f"{at:02d}" * 20, ratio) for ratio in ratios]
    return PlaceHistory(name, True, tuple(moves))


def absent(name: str) -> PlaceHistory:
    return PlaceHistory(name, measured=False)


NINE = [place(f"place {number}") for number in range(9)]


@pytest.mark.parametrize(
    ("places", "sentence"),
    [
        ([place("a")], "It did not move in the last 200 commits"),
        ([place("a", 1.2)], "It got worse in the last 200 commits: +20.0 %"),
        ([absent("a")], "It was not measured in the last 200 commits"),
        ([absent("a"), absent("b")], "Neither place was measured in the last 200 commits"),
        ([place("a"), place("b")], "The places agree: neither place moved in the last 200 commits"),
        (NINE, "The places agree: none of 9 places moved in the last 200 commits"),
        (
            [place("a", 1.2), place("b", 1.3)],
            "The places agree: both places got worse in the last 200 commits: b (+30.0 %), a (+20.0 %); "
            "together at 1010101: a, b",
        ),
        (
            [place("a", 1.25), place("b", 0.8), absent("c")],
            "The places disagree: in the last 200 commits a (+25.0 %) got worse and b (−20.0 %) got better; "
            "1 place had no result in them",
        ),
        (
            [place("py3.13", 0.5), *NINE[:8]],
            "1 of 9 places got better in the last 200 commits, py3.13 (−50.0 %); 8 others did not move",
        ),
        (
            [place("a", 1.5, 1 / 1.5), place("b")],
            "The places agree: neither place moved in the last 200 commits",
        ),
    ],
)
def test_says_whether_places_moved_together(places: list[PlaceHistory], sentence: str) -> None:
    assert agreement_sentence(places, "lower", 200) == sentence


@pytest.mark.parametrize(("direction", "word"), [("lower", "worse"), ("higher", "better")])
def test_the_direction_of_the_metric_decides_what_is_worse(direction: Direction, word: str) -> None:
    assert (
        agreement_sentence([place("a", 1.1)], direction, 1) == f"It got {word} in the newest commit: +10.0 %"
    )


def test_names_the_largest_moves_of_many_places() -> None:
    places = [place(f"m{number}", 1 + number / 100, at=number * 10) for number in range(1, 13)]

    sentence = agreement_sentence(places, "lower", 200)

    assert sentence.startswith(
        "The places agree: all 12 places got worse in the last 200 commits: m12 (+12.0 %)"
    )
    assert sentence.endswith("m7 (+7.0 %), 6 more")


def test_changes_are_shared_where_their_commits_overlap_in_one_direction() -> None:
    places = [
        place("a", 1.2, at=20, reach=5),
        place("b", 1.3, at=16),
        place("c", 0.7, at=18, reach=9),
        place("d", 1.1, at=14),
    ]

    assert find_common_moves(places) == [("16" * 20, ("a", "b"))]
