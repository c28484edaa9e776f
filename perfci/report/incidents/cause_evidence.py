"""Weigh whether the code or the runner made a change: the evidence as facts, and what it says together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from perfci.number_format import format_all_of, format_count, format_percent

MIN_OTHERS = 4
"""Other benchmarks of a machine from which on it counts how many of them moved."""

MANY, FEW = 0.5, 0.25
"""Shares of the other benchmarks of a place that moved: above the first many did, below the second few."""

LARGER_NOISE = 2.0
"""The noise here over that in the other places from which on it is a matter of the place."""

UNDECIDED = "Nothing here separates the code from the runner"


@dataclass(frozen=True, slots=True)
class PlaceMoves:
    """A place that measured both sides of a change: of ``measured`` changed benchmarks ``moved`` moved there.

    ``environment`` is what changed of its environment in between.
    """

    label: str
    machine: str
    moved: int
    measured: int = 1
    environment: str = ""

    @property
    def has_moved(self) -> bool:
        """Whether at least half of the changed benchmarks moved there."""
        return 0 < self.moved >= self.measured / 2


@dataclass(frozen=True, slots=True)
class AaRuns:
    """The A/A runs of a time: how many, and how many of their verdicts saw a difference."""

    runs: int
    verdicts: int
    different: int


@dataclass(frozen=True, slots=True)
class MovedOf:
    """How many of some series or benchmarks moved."""

    moved: int = 0
    total: int = 0

    @property
    def share(self) -> float:
        return self.moved / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class CauseInputs:
    """What is known of a change.

    ``others`` are other benchmarks where it moved, ``canaries`` those that no commit can move,
    ``exact_counts`` the changed values that repeat exactly. Of ``examined`` changed series an A/B rerun
    ``confirmed`` some and ``refuted`` some; ``pairs`` are those of the first confirmed one.
    """

    places: Sequence[PlaceMoves] = ()
    others: MovedOf = field(default_factory=MovedOf)
    canaries: MovedOf = field(default_factory=MovedOf)
    exact_counts: int = 0
    aa_runs: AaRuns | None = None
    examined: int = 1
    confirmed: int = 0
    refuted: int = 0
    pairs: int = 0


@dataclass(frozen=True, slots=True)
class CauseEvidence:
    """What speaks for the code or for the runner, as one sentence and the facts behind it.

    ``is_decided`` says that an A/B rerun would tell nothing new.
    """

    sentence: str
    facts: tuple[str, ...]
    is_decided: bool = False


def build_cause_evidence(inputs: CauseInputs) -> CauseEvidence:
    """Weigh what moved together with a change, and what did not."""
    facts = (
        _places_fact(inputs.places),
        _others_fact(inputs.others),
        f"Canaries: {inputs.canaries.moved} of {inputs.canaries.total} moved"
        if inputs.canaries.total
        else "",
        f"{format_count(inputs.exact_counts, 'exact count')} moved with it" if inputs.exact_counts else "",
        _aa_fact(inputs.aa_runs) if inputs.aa_runs else "",
        _environment_fact(inputs.places),
        _rerun_fact(inputs),
    )
    is_decided = bool(inputs.confirmed) or inputs.refuted == inputs.examined
    return CauseEvidence(_weigh(inputs), tuple(filter(None, facts)), is_decided)


def serialize_cause_evidence(inputs: CauseInputs) -> dict[str, Any]:
    """Serialize what speaks for the code or for the runner: the words of the page and the counts they say.

    ``places`` have what changed of their environment in words.
    """
    evidence = build_cause_evidence(inputs)
    return {
        "sentence": evidence.sentence,
        "facts": list(evidence.facts),
        "is_decided": evidence.is_decided,
        "places": [asdict(place) for place in inputs.places],
        "others": asdict(inputs.others),
        "canaries": asdict(inputs.canaries),
        "exact_counts": inputs.exact_counts,
        "aa_runs": asdict(inputs.aa_runs) if inputs.aa_runs else None,
        "reruns": {
            "examined": inputs.examined,
            "confirmed": inputs.confirmed,
            "refuted": inputs.refuted,
            "pairs": inputs.pairs,
        },
    }


def build_noise_evidence(noise: float, elsewhere: Mapping[str, float]) -> CauseEvidence:
    """Weigh whether a series that did not change is noisy by its runner; ``elsewhere`` is the noise of the
    same benchmark by place, each what 95 % of the commits stay within."""
    facts = [f"95 % of the commits stay within ±{format_percent(noise)} of the level"]
    if not elsewhere:
        return CauseEvidence(f"{UNDECIDED}: there is no other place to compare with", tuple(facts))
    listed = sorted(f"{place}: ±{format_percent(other)}" for place, other in elsewhere.items())
    facts.append(f"The same benchmark elsewhere: {', '.join(listed)}")
    quiet = [place for place, other in elsewhere.items() if noise > LARGER_NOISE * other]
    if len(quiet) == len(elsewhere):
        return CauseEvidence(
            "Probably the runner: the same benchmark varies much less elsewhere", tuple(facts)
        )
    if not quiet:
        sentence = (
            f"Probably the benchmark: it varies as much in {format_all_of(len(elsewhere) + 1, 'place')}"
        )
        return CauseEvidence(sentence, tuple(facts))
    return CauseEvidence(f"{UNDECIDED}: it varies less in some places, as much in others", tuple(facts))


def _weigh(inputs: CauseInputs) -> str:
    moved = [place for place in inputs.places if place.has_moved]
    machines = {place.machine for place in moved}
    changed = [place for place in moved if place.environment]
    if inputs.confirmed:
        return "It is the code: fresh pairs on one machine confirmed it"
    if inputs.refuted == inputs.examined:
        return "It is not the code: fresh pairs on one machine showed no difference"
    if inputs.exact_counts:
        return "It is the code: exact counts, which no runner changes, moved with it"
    if inputs.canaries.moved:
        return "Probably the runner: canaries, which no commit can move, moved with it"
    if changed and len(changed) == len(moved):
        return "Maybe the runner: its environment changed with it"
    if changed:
        return "Probably the code: it also moved where the environment stayed the same"
    if len(machines) < 2 and inputs.others.total >= MIN_OTHERS and inputs.others.share > MANY:
        return "Probably the runner: most benchmarks of this machine moved with it"
    return _weigh_places(inputs, moved, machines)


def _weigh_places(inputs: CauseInputs, moved: Sequence[PlaceMoves], machines: set[str]) -> str:
    """Weigh where it moved, once nothing else tells."""
    still = [place for place in inputs.places if not place.has_moved]
    if len(inputs.places) < 2:
        return f"{UNDECIDED}: there is no other place to compare with"
    if not still and len(machines) > 1:
        return f"Probably the code: it moved in {format_all_of(len(moved), 'place')}"
    if not still:
        if inputs.others.total >= MIN_OTHERS and inputs.others.share < FEW:
            return "Probably the code: most other benchmarks of this machine did not move"
        return f"{UNDECIDED}: the places it moved in are one machine"
    if len(moved) == 1 and not machines & {place.machine for place in still}:
        return f"Maybe the runner: it moved here and {_in_no_other_place(len(still))}"
    return f"{UNDECIDED}: it moved in {len(moved):,} of {len(inputs.places):,} places"


def _in_no_other_place(others: int) -> str:
    return "not in the other place" if others == 1 else f"in none of {others:,} other places"


def _places_fact(places: Sequence[PlaceMoves]) -> str:
    if len(places) < 2:
        return "No other place was measured at this change"
    texts = sorted(f"{place.label}: {_moves_text(place)}" for place in places)
    return f"Moved: {', '.join(texts)}"


def _moves_text(place: PlaceMoves) -> str:
    if place.measured == 1:
        return "yes" if place.has_moved else "no"
    return f"{place.moved:,} of {place.measured:,}"


def _others_fact(others: MovedOf) -> str:
    if not others.total:
        return ""
    return (
        f"In the same place {others.moved:,} of {format_count(others.total, 'other benchmark')} moved at the "
        "same commits"
    )


def _aa_fact(aa: AaRuns) -> str:
    if not aa.runs:
        return "No A/A run within a week of it"
    return (
        f"A/A runs within a week of it: {aa.runs:,}, with a difference in {aa.different:,} of "
        f"{format_count(aa.verdicts, 'verdict')}"
    )


def _environment_fact(places: Sequence[PlaceMoves]) -> str:
    changes = {place.label: place.environment for place in places if place.has_moved and place.environment}
    if not changes:
        return "The environment shows no recorded change"
    if len(set(changes.values())) == 1:
        return f"The environment changed with it: {next(iter(changes.values()))}"
    return "The environment changed with it: " + "; ".join(
        f"{label} {change}" for label, change in changes.items()
    )


def _rerun_fact(inputs: CauseInputs) -> str:
    if inputs.examined == 1:
        if inputs.confirmed:
            return f"Confirmed by A/B rerun ({format_count(inputs.pairs, 'pair')})"
        return "An A/B rerun showed no difference" if inputs.refuted else "No A/B rerun has confirmed it"
    if not inputs.confirmed and not inputs.refuted:
        return "No A/B rerun has confirmed it"
    return (
        f"A/B reruns of the {inputs.examined:,} largest: {inputs.confirmed:,} confirmed, "
        f"{inputs.refuted:,} without a difference"
    )
