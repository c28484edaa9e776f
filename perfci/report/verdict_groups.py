"""Group the verdicts that show one change, as tables and comments list them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from perfci.model import Series, Stage, Verdict, VerdictKind
from perfci.verdicts.comparison_rule import MOVE_KINDS
from perfci.verdicts.related_metrics import find_verdict_on_whole, group_related, model_bench_key


@dataclass(frozen=True, slots=True)
class VerdictGroup:
    """Verdicts on one change: the primary one, and those that explain it.

    One that does not gate is a count that moved by itself: it is shown, and fails nothing. Where only parts
    of a step or request moved, ``whole`` is the verdict on it.
    """

    primary: Verdict
    secondary: tuple[Verdict, ...] = ()
    gates: bool = True
    whole: Verdict | None = None


def group_verdicts(verdicts: Iterable[Verdict], gates: Callable[[Series], bool]) -> list[VerdictGroup]:
    """Group verdicts that show one change; those that are no change stand alone.

    A change of a series that does not gate explains the first change of its model in the same direction, and
    stands alone where there is none.
    """
    verdicts = list(verdicts)
    may_be_silent = (*MOVE_KINDS, VerdictKind.INCONCLUSIVE)
    silent = [v for v in verdicts if v.kind in may_be_silent and not gates(v.series)]
    silent_ids = set(map(id, silent))
    groups = []
    for kind in VerdictKind:
        of_kind = [v for v in verdicts if v.kind is kind and id(v) not in silent_ids]
        if kind in MOVE_KINDS:
            changes = group_related(of_kind, lambda verdict: verdict.series, _verdict_size)
            groups += _add_counts(changes, [v for v in silent if v.kind is kind])
        else:
            groups += [VerdictGroup(verdict) for verdict in of_kind]
    groups += [VerdictGroup(v, gates=False) for v in silent if v.kind is VerdictKind.INCONCLUSIVE]
    return [_add_whole(group, verdicts) for group in groups]


def _add_whole(group: VerdictGroup, verdicts: Sequence[Verdict]) -> VerdictGroup:
    if group.primary.kind not in MOVE_KINDS:
        return group
    return replace(group, whole=find_verdict_on_whole(group.primary, verdicts))


def _verdict_size(verdict: Verdict) -> tuple[bool, float]:
    """Confirmed changes before candidates, then by size."""
    size = abs(math.log(verdict.ratio)) if verdict.ratio else math.inf
    return verdict.stage is Stage.CONFIRMATION, size


def _add_counts(
    changes: Sequence[tuple[Verdict, tuple[Verdict, ...]]], silent: Sequence[Verdict]
) -> list[VerdictGroup]:
    """Changes with the counts that explain them, and the counts that explain nothing."""
    first_change: dict[object, int] = {}
    for index, (primary, _) in enumerate(changes):
        first_change.setdefault(model_bench_key(primary.series), index)
    counts: dict[int, list[Verdict]] = {}
    alone = []
    for verdict in silent:
        index = first_change.get(model_bench_key(verdict.series), -1)
        if index < 0:
            alone.append(VerdictGroup(verdict, gates=False))
        else:
            counts.setdefault(index, []).append(verdict)
    explained = [
        VerdictGroup(primary, (*secondary, *counts.get(index, ())))
        for index, (primary, secondary) in enumerate(changes)
    ]
    return [*explained, *alone]
