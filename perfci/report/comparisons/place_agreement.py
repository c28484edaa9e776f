"""Say whether the places of one benchmark moved together, in opposite directions, or not at all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfci.model import Direction
from perfci.number_format import format_all_of, format_count, format_signed_percent
from perfci.report.verdict_text import TONES, Tone, classify_change

MAX_NAMES = 6
"""Places that a sentence names."""

SMALLEST_MOVE = math.log(1.005)
"""Changes of a place that cancel out to less than this leave it where it was."""


@dataclass(frozen=True, slots=True)
class PlaceMove:
    """One change of a place: the commits between which it lies, by their number, and its size."""

    first: int
    last: int
    sha: str
    ratio: float


@dataclass(frozen=True, slots=True)
class PlaceHistory:
    """The changes of one place among the newest commits; ``measured`` tells whether it has results there."""

    name: str
    measured: bool
    moves: tuple[PlaceMove, ...] = ()

    @property
    def ratio(self) -> float:
        """What all changes made of its level together."""
        return math.prod(move.ratio for move in self.moves)

    def tone(self, direction: Direction) -> Tone:
        """Whether it got better, worse or neither."""
        ratio = self.ratio
        if ratio > 0 and abs(math.log(ratio)) < SMALLEST_MOVE:
            return "same"
        return TONES[classify_change(ratio, direction)]

    def moved_text(self) -> str:
        return f"{self.name} ({format_signed_percent(self.ratio - 1)})" if self.name else ""


def agreement_sentence(places: Sequence[PlaceHistory], direction: Direction, commits: int) -> str:
    """Say which places moved together among the newest commits, and which in opposite directions."""
    window = "the newest commit" if commits == 1 else f"the last {commits:,} commits"
    measured = [place for place in places if place.measured]
    if not measured:
        nowhere = "It was not" if len(places) == 1 else f"{_none_of(len(places))} was"
        return f"{nowhere} measured in {window}"
    worse = [place for place in measured if place.tone(direction) == "worse"]
    better = [place for place in measured if place.tone(direction) == "better"]
    still = len(measured) - len(worse) - len(better)
    absent = len(places) - len(measured)
    parts = [_moves_text(worse, better, still, window)]
    parts += [_together_text(find_common_moves(measured))] if bool(worse) != bool(better) else []
    parts += [f"{format_count(absent, 'place')} had no result in them"] if absent else []
    return "; ".join(filter(None, parts))


def find_common_moves(places: Iterable[PlaceHistory]) -> list[tuple[str, tuple[str, ...]]]:
    """Find the changes that several places share, newest first: the commit, and the places.

    Places share a change where the commits that may have made it overlap and it has one direction.
    """
    moves = sorted(
        ((move, place.name) for place in places for move in place.moves),
        key=lambda entry: (entry[0].last, entry[0].first),
        reverse=True,
    )
    shared_moves: list[tuple[str, tuple[str, ...]]] = []
    while moves:
        newest = moves[0][0]
        same = [
            (move, name)
            for move, name in moves
            if move.last >= newest.first and (move.ratio > 1) == (newest.ratio > 1)
        ]
        moves = [entry for entry in moves if entry not in same]
        names = tuple(dict.fromkeys(name for _, name in same))
        if len(names) > 1:
            narrowest = min((move for move, _ in same), key=lambda move: (move.last - move.first, move.last))
            shared_moves.append((narrowest.sha, tuple(sorted(names))))
    return shared_moves


def _moves_text(
    worse: Sequence[PlaceHistory], better: Sequence[PlaceHistory], still: int, window: str
) -> str:
    count = len(worse) + len(better) + still
    if count == 1:
        word = "worse" if worse else "better"
        sizes = [format_signed_percent(place.ratio - 1) for place in (*worse, *better)]
        return f"It got {word} in {window}: {sizes[0]}" if sizes else f"It did not move in {window}"
    if still == count:
        return f"The places agree: {_none_of(count).lower()} moved in {window}"
    if worse and better:
        stayed = f", {still:,} did not move" if still else ""
        return (
            f"The places disagree: in {window} {_list_places(worse)} got worse and {_list_places(better)} "
            f"got better{stayed}"
        )
    moved, word = (worse, "worse") if worse else (better, "better")
    if not still:
        return (
            f"The places agree: {format_all_of(count, 'place')} got {word} in {window}: {_list_places(moved)}"
        )
    stayed = "the other did" if still == 1 else f"{still:,} others did"
    return (
        f"{len(moved):,} of {count:,} places got {word} in {window}, {_list_places(moved)}; {stayed} not move"
    )


def _none_of(count: int) -> str:
    return "Neither place" if count == 2 else f"None of {count:,} places"


def _list_places(places: Sequence[PlaceHistory]) -> str:
    """Name places with the size of their moves, the largest first."""
    largest_first = sorted(
        places, key=lambda place: (-abs(math.log(place.ratio)) if place.ratio > 0 else -math.inf, place.name)
    )
    names = [place.moved_text() for place in largest_first[:MAX_NAMES]]
    more = len(places) - len(names)
    return ", ".join([*names, *([f"{more:,} more"] if more else [])])


def _together_text(common: Sequence[tuple[str, tuple[str, ...]]]) -> str:
    if not common:
        return ""
    sha, names = common[0]
    listed = ", ".join(
        [*names[:MAX_NAMES], *([f"{len(names) - MAX_NAMES:,} more"] if names[MAX_NAMES:] else [])]
    )
    return f"together at {sha[:7]}: {listed}"
