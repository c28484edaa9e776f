"""Explain a slowdown by the profiles of its two commits, two processes a side at most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean

from perfci.model import EnvironmentChange
from perfci.verdicts.explain.aligned_times import (
    BASE_ONLY,
    BOTH,
    HEAD_ONLY,
    AlignedLine,
    AlignedTimes,
    StackKey,
    align_times,
    weighted_median,
)
from perfci.verdicts.explain.call_profile import CallProfile, SourceLine, TableRow
from perfci.verdicts.explain.explanation import (
    Cause,
    CauseKind,
    CodeLine,
    Conclusion,
    CountChange,
    Explanation,
    GrowthRow,
)

MIN_CHANGE = 0.02
"""Least slowdown of the profiled calls, a ratio, that counts as shown."""

MIN_SHOWN_SHARE = 0.5
"""Share of the slowdown of the verdict that the profiled calls have to show."""

MIN_CAUSE_SHARE = 0.15
MIN_CAUSE_CHANGE = 0.015
"""A cause accounts for so much of the slowdown, and of the time of a call, or it is none."""

EXPLAINED_SHARE = 0.5
DOMINANT_SHARE = 0.7
"""Share of a growth that a line below has to hold to be named instead."""

REPLACED_SHARE = 0.3
"""Share of the new time that the old code of a change took, from which on the change replaces it."""

MIN_OPERATOR_SHARE = 0.2
"""Share of a cause that its operators have to account for, or none is named."""

Z_95 = 1.96
"""Standard errors to each side of a normal estimate that hold 95 % of it."""

MIN_CONTROL_SHARE = 0.1
"""Share of the base's time in lines of the same work, from which on they tell how fast the machine was."""

MIN_SLOWER_FACTOR = 1.3
"""An unchanged line that runs no operator is blamed from so many times its time on; caches may do less."""

MIN_LINE_SHARE = 0.003
"""Share of a call from which on a line tells how fast the machine was: less is a handful of samples."""

MAX_CAUSES = 3
MAX_CHANGED_LINES = 2
MAX_ROWS = 12

Owner = tuple[CauseKind, Hashable]


def explain_profiles(
    bases: Sequence[CallProfile],
    heads: Sequence[CallProfile],
    *,
    expected_change: float | None = None,
    counts: Sequence[CountChange] = (),
    environment: Sequence[EnvironmentChange] = (),
) -> Explanation:
    """Find what grew from base to head.

    ``expected_change`` is that of the verdict, a ratio less one: shares are of the larger of it and of what
    the profiles show.
    """
    times = align_times(bases, heads)
    growth = _Growth(times, expected_change or 0.0, _find_new_breaks(times, bases[0], heads[0]))
    causes = growth.find_causes()
    return Explanation(
        conclusion=growth.conclude(causes),
        base_s=growth.base_s,
        head_s=growth.head_s,
        processes=len(bases) + len(heads),
        slower_machine=growth.slower_machine,
        same_work_share=growth.same_work_share,
        expected_change=expected_change,
        causes=tuple(causes) if growth.is_shown else (),
        phases=_compare_phases(times),
        operators=_compare_tables([p.operators for p in bases], [p.operators for p in heads]),
        kernels=_compare_tables([p.kernels for p in bases], [p.kernels for p in heads]),
        lines=_compare_lines(times),
        counts=tuple(counts),
        environment=tuple(environment),
        changed=tuple(
            _code_line(times, AlignedLine(HEAD_ONLY, line))
            for line in times.alignment.changed_lines[:MAX_ROWS]
        ),
    )


def explain_by_counts(
    counts: Sequence[CountChange], environment: Sequence[EnvironmentChange] = ()
) -> Explanation:
    """What exact counts that are stored say, before anything is profiled."""
    more = any(change.head > change.base for change in counts)
    return Explanation(
        Conclusion.COUNTED if more else Conclusion.NOT_EXPLAINED,
        counts=tuple(counts),
        environment=tuple(environment),
    )


@dataclass
class _Growth:
    times: AlignedTimes
    expected_change: float
    breaks: Mapping[str, tuple[AlignedLine, str]]
    """New graph breaks by the function in which they are, with their reason."""

    def __post_init__(self) -> None:
        self.base_s, self.head_s = sum(self.times.base_s.values()), sum(self.times.head_s.values())
        self.owners = {key: self._choose_owner(key) for key in self.times.keys}
        speeds = [self._compare_speed(process) for process in (*self.times.bases, *self.times.heads)]
        count = len(self.times.bases)
        self.slower_machine = fmean(speeds[count:]) / fmean(speeds[:count])
        times = self.times = self.times.at_even_speed(speeds[:count], speeds[count:])
        self._promote_inner_changes()
        grown_s = self.head_s - self.base_s
        same_s = self.head_s - self.base_s - self.code_s
        same_s += self._grown_of(key for key in times.keys if self._is_control(key))
        self.same_work_share = same_s / grown_s if grown_s > 0 else 0.0
        self._own_unchanged_lines()
        self.side_effects = {key for key in times.keys if self._is_far_slower_everywhere(key)}

    @property
    def code_s(self) -> float:
        """Seconds by which a call got longer, at the speed that the machine had for the base."""
        return self._grown_of(self.times.keys)

    @property
    def is_shown(self) -> bool:
        least = max(MIN_CHANGE, MIN_SHOWN_SHARE * self.expected_change)
        return max(self.code_s, self.head_s - self.base_s) >= least * self.base_s

    def conclude(self, causes: Sequence[Cause]) -> Conclusion:
        if not self.is_shown:
            return Conclusion.NOT_SHOWN
        explained = sum(cause.share for cause in causes)
        if explained >= EXPLAINED_SHARE:
            return Conclusion.EXPLAINED
        if causes:
            return Conclusion.PARTLY
        return Conclusion.MACHINE if self.same_work_share >= EXPLAINED_SHARE else Conclusion.NOT_EXPLAINED

    def find_causes(self) -> list[Cause]:
        """The largest causes whose shares together are at most the whole."""
        whole_s = self._whole_growth(self.times.base_s, self.times.head_s)
        causes: list[Cause] = []
        left = 1.0
        grown = {owner: self._grown_s(owner) for owner in dict.fromkeys(self.owners.values()) if owner}
        for owner, seconds in sorted(grown.items(), key=lambda row: -row[1])[:MAX_CAUSES]:
            share = min(left, seconds / whole_s) if whole_s > 0 else 0.0
            if share < MIN_CAUSE_SHARE or seconds < MIN_CAUSE_CHANGE * self.base_s:
                continue
            lo, hi = self._share_bounds(owner, share)
            if lo <= 0:
                continue
            causes.append(self._describe_cause(owner, seconds, share, lo, min(left, hi)))
            left -= share
        return causes

    def _choose_owner(self, key: StackKey) -> Owner | None:
        functions = {self._function(line) for line in key[1]}
        broken = next((name for name in self.breaks if name in functions), None)
        if broken is not None:
            return CauseKind.GRAPH_BREAK, broken
        changes = self._list_changes(key)
        return (CauseKind.CHANGED_CODE, changes[0]) if changes else None

    def _list_changes(self, key: StackKey) -> list[SourceLine]:
        """The changes that a stack passes through, the outermost first."""
        alignment = self.times.alignment
        return [
            alignment.hunk(line.place, of_head=line.side != BASE_ONLY) for line in key[1] if line.is_changed
        ]

    def _promote_inner_changes(self) -> None:
        """Where a change replaces what was there, and nearly all of its growth is in a change further in,
        that one is the cause.
        """
        rows: dict[Owner, list[StackKey]] = defaultdict(list)
        for key, owner in self.owners.items():
            if owner and owner[0] is CauseKind.CHANGED_CODE:
                rows[owner].append(key)
        for owner, keys in rows.items():
            base_s = sum(self.times.base_s.get(key, 0.0) for key in keys)
            head_s = sum(self.times.head_s.get(key, 0.0) for key in keys)
            if base_s < REPLACED_SHARE * head_s:
                continue
            inner: dict[SourceLine, list[StackKey]] = defaultdict(list)
            for key in keys:
                for change in dict.fromkeys(self._list_changes(key)):
                    if change != owner[1]:
                        inner[change].append(key)
            best = max(inner, key=lambda change: self._grown_of(inner[change]), default=None)
            if best is not None and self._grown_of(inner[best]) >= DOMINANT_SHARE * (head_s - base_s) > 0:
                self.owners.update(dict.fromkeys(inner[best], (CauseKind.CHANGED_CODE, best)))

    def _is_control(self, key: StackKey) -> bool:
        return self.owners[key] is None and self.times.does_same_work(key)

    def _compare_speed(self, process: Mapping[StackKey, float]) -> float:
        """By which factor a process took longer than those of the base for the same work of unchanged lines;
        lines that run operators tell it best, because one without them may run more often.
        """
        control = [key for key in self.times.keys if self._is_control(key)]
        base_s = sum(self.times.base_s.values())
        for keys in ([key for key in control if self.times.base_work.get(key)], control):
            by_line: dict[Hashable, list[float]] = defaultdict(lambda: [0.0, 0.0])
            for key in keys:
                row = by_line[key[0], key[1][-1:]]
                row[0] += self.times.base_s.get(key, 0.0)
                row[1] += process.get(key, 0.0)
            rows = [(p / b, b) for b, p in by_line.values() if b >= MIN_LINE_SHARE * base_s]
            if sum(weight for _, weight in rows) >= MIN_CONTROL_SHARE * base_s:
                return weighted_median(rows) or 1.0
        return 1.0

    def _own_unchanged_lines(self) -> None:
        """Give stacks of unchanged lines to the innermost line that holds most of their growth."""
        times = self.times
        for kind in (CauseKind.MORE_WORK, CauseKind.SLOWER):
            for _ in range(MAX_CAUSES):
                keys = [key for key in times.keys if self._is_unowned(key, kind)]
                whole_s = self._grown_of(keys)
                if whole_s < MIN_CAUSE_CHANGE * self.base_s:
                    break
                line = self._innermost_dominant_line(keys, whole_s)
                if line is None:
                    break
                owned = [key for key in keys if line in key[1]]
                if kind is CauseKind.SLOWER and not self._is_far_slower(owned):
                    break
                self.owners.update(dict.fromkeys(owned, (kind, line)))

    def _is_unowned(self, key: StackKey, kind: CauseKind) -> bool:
        if self.owners[key] is not None:
            return False
        if kind is CauseKind.MORE_WORK:
            return not self.times.does_same_work(key)
        # What ran the same operators on the same inputs is never blamed: caches and clocks do that too.
        runs_operators = bool(self.times.base_work.get(key))
        return not runs_operators and self.times.does_same_work(key) and self.times.alignment.has_changes

    def _is_far_slower(self, keys: Sequence[StackKey]) -> bool:
        base_s = sum(self.times.base_s.get(key, 0.0) for key in keys)
        return self._grown_of(keys) >= (MIN_SLOWER_FACTOR - 1) * base_s

    def _is_far_slower_everywhere(self, key: StackKey) -> bool:
        """Whether a stack took far longer in each process of the head than in any of the base."""
        slowest_base = max(process.get(key, 0.0) for process in self.times.bases)
        fastest_head = min(process.get(key, 0.0) for process in self.times.heads)
        is_large = fastest_head - slowest_base >= MIN_CAUSE_CHANGE * self.base_s
        return is_large and fastest_head >= MIN_SLOWER_FACTOR * slowest_base

    def _innermost_dominant_line(self, keys: Iterable[StackKey], whole_s: float) -> AlignedLine | None:
        grown: Counter[AlignedLine] = Counter()
        head_s: Counter[AlignedLine] = Counter()
        depth: dict[AlignedLine, int] = {}
        for key in keys:
            for place, line in enumerate(dict.fromkeys(key[1])):
                grown[line] += self._grown_of([key])  # type: ignore[assignment]
                head_s[line] += self.times.head_s.get(key, 0.0)  # type: ignore[assignment]
                depth[line] = max(place, depth.get(line, 0))
        largest = max(grown.values(), default=0.0)
        enough = DOMINANT_SHARE * min(whole_s, largest)
        candidates = [line for line in grown if grown[line] >= enough > 0]
        return min(candidates, key=lambda line: (round(head_s[line], 9), -depth[line]), default=None)

    def _grown_of(self, keys: Iterable[StackKey]) -> float:
        return sum(self.times.head_s.get(key, 0.0) - self.times.base_s.get(key, 0.0) for key in keys)

    def _keys_of(self, owner: Owner) -> list[StackKey]:
        return [key for key, its_owner in self.owners.items() if its_owner == owner]

    def _grown_s(self, owner: Owner) -> float:
        return self._grown_of(self._keys_of(owner))

    def _whole_growth(self, base: Mapping[StackKey, float], head: Mapping[StackKey, float]) -> float:
        """What the code took longer: lines of the same work differ by the machine alone, and have no part,
        unless they grew far more than others in every process.
        """
        grown_s = sum(
            head.get(key, 0.0) - base.get(key, 0.0)
            for key in self.times.keys
            if not self._is_control(key) or key in self.side_effects
        )
        return max(grown_s, self.expected_change * sum(base.values()))

    def _share_bounds(self, owner: Owner, share: float) -> tuple[float, float]:
        """The least and the largest share that any process of the base and any of the head give together, and
        that the number of samples leaves open.
        """
        keys = self._keys_of(owner)
        shares = [share]
        for base, head in product(self.times.bases, self.times.heads):
            whole_s = self._whole_growth(base, head)
            grown_s = sum(head.get(key, 0.0) - base.get(key, 0.0) for key in keys)
            shares.append(grown_s / whole_s if whole_s > 0 else 0.0)
        whole_s = self._whole_growth(self.times.base_s, self.times.head_s)
        error = Z_95 * self.times.sampling_error_s(keys) / whole_s if whole_s > 0 else 1.0
        return max(0.0, min(*shares, share - error)), min(1.0, max(*shares, share + error))

    def _describe_cause(self, owner: Owner, seconds: float, share: float, lo: float, hi: float) -> Cause:
        kind, place = owner
        keys = self._keys_of(owner)
        reason = ""
        if kind is CauseKind.GRAPH_BREAK:
            line, reason = self.breaks[str(place)]
        elif isinstance(place, AlignedLine):
            line = place
        else:
            line = self._largest_changed_line(keys, place)
        code = _code_line(self.times, line)
        is_as_it_was = kind in (CauseKind.MORE_WORK, CauseKind.SLOWER)
        changed = self._nearest_changes(code, keys) if is_as_it_was else ()
        phase = self._largest_group(keys, lambda key: key[0])
        return Cause(
            kind, phase, self._largest_operator(keys, seconds), code, seconds, share, lo, hi, changed, reason
        )

    def _largest_changed_line(self, keys: Sequence[StackKey], change: Hashable) -> AlignedLine:
        grown: Counter[AlignedLine] = Counter()
        alignment = self.times.alignment
        for key in keys:
            for line in key[1]:
                of_head = line.side != BASE_ONLY
                if line.is_changed and alignment.hunk(line.place, of_head=of_head) == change:
                    # A line of the head is named where there is one.
                    grown[line] += max(0.0, self._grown_of([key])) if of_head else 0.0  # type: ignore[assignment]
                    break
        return max(grown, key=lambda line: grown[line])

    def _largest_group(self, keys: Iterable[StackKey], group: Callable[[StackKey], str]) -> str:
        grown: Counter[str] = Counter()
        for key in keys:
            grown[group(key)] += self._grown_of([key])  # type: ignore[assignment]
        return max(grown, key=lambda name: grown[name], default="")

    def _largest_operator(self, keys: Iterable[StackKey], seconds: float) -> str:
        """The operator whose time grew most at these lines, where operators account for what grew; of those
        that are called more often than before, if any are.
        """
        keys = list(keys)
        seconds_of: Counter[str] = Counter()
        grown: Counter[str] = Counter()
        head_calls: Counter[str] = Counter()
        calls: Counter[str] = Counter()
        for key in keys:
            for name, took in self.times.head_operator_s.get(key, {}).items():
                seconds_of[name] += took  # type: ignore[assignment]
                grown[name] += took  # type: ignore[assignment]
            for name, took in self.times.base_operator_s.get(key, {}).items():
                grown[name] -= took  # type: ignore[assignment]
            for (name, _), count in self.times.head_work.get(key, {}).items():
                head_calls[name] += count  # type: ignore[assignment]
                calls[name] += count  # type: ignore[assignment]
            for (name, _), count in self.times.base_work.get(key, {}).items():
                calls[name] -= count  # type: ignore[assignment]
        # Counts are exact: what is called more often took that many calls' time more.
        more_often = {
            name: seconds_of[name] * calls[name] / head_calls[name] for name in calls if calls[name] > 0
        }
        grown = Counter(more_often) if more_often else grown
        best = max(grown, key=lambda name: grown[name], default="")
        return best if best and grown[best] >= MIN_OPERATOR_SHARE * seconds else ""

    def _nearest_changes(self, code: CodeLine, keys: Sequence[StackKey]) -> tuple[CodeLine, ...]:
        """Changed lines of the function, else of functions around it, else those that no call runs (they set
        up what is called), else any.
        """
        alignment = self.times.alignment
        changed = [_code_line(self.times, AlignedLine(HEAD_ONLY, place)) for place in alignment.changed_lines]
        changed += [_code_line(self.times, AlignedLine(BASE_ONLY, place)) for place in alignment.gone_lines]
        around = {self._function(line) for key in keys for line in key[1]} - {""}
        called = {self._function(line) for key in self.times.keys for line in key[1]}
        here = f"{code.path}:{code.function}"
        for near in (
            [line for line in changed if code.function and f"{line.path}:{line.function}" == here],
            [line for line in changed if f"{line.path}:{line.function}" in around],
            [line for line in changed if f"{line.path}:{line.function}" not in called],
            changed,
        ):
            if near:
                return tuple(near[:MAX_CHANGED_LINES])
        return ()

    def _function(self, line: AlignedLine) -> str:
        of_head = line.side != BASE_ONLY
        place = self.times.head_places.get(line, line.place) if of_head else line.place
        name = self.times.alignment.function(place, of_head=of_head)
        return f"{place[0]}:{name}" if name else ""


def _find_new_breaks(
    times: AlignedTimes, base: CallProfile, head: CallProfile
) -> dict[str, tuple[AlignedLine, str]]:
    """Graph breaks of the head alone, by the function whose compiled code they cut."""
    alignment = times.alignment
    base_breaks = {item.lines[-1] for item in base.graph_breaks if item.lines}
    breaks: dict[str, tuple[AlignedLine, str]] = {}
    for item in head.graph_breaks:
        places = [place for place in item.lines if place[0] in head.sources]
        if not places or alignment.base_line(places[-1]) in base_breaks:
            continue
        place = places[-1]
        base_line = alignment.base_line(place)
        line = AlignedLine(HEAD_ONLY, place) if base_line is None else AlignedLine(BOTH, base_line)
        function = alignment.function(places[0], of_head=True)
        breaks.setdefault(f"{places[0][0]}:{function}", (line, item.reason))
    return breaks


def _code_line(times: AlignedTimes, line: AlignedLine) -> CodeLine:
    is_gone = line.side == BASE_ONLY
    place = line.place if is_gone else times.head_places.get(line, line.place)
    text = times.alignment.text(place, of_head=not is_gone)
    function = times.alignment.function(place, of_head=not is_gone)
    return CodeLine(place[0], place[1], text, function, is_gone)


def _compare_phases(times: AlignedTimes) -> tuple[GrowthRow, ...]:
    return _compare_groups(times, lambda key: key[0])


def _compare_lines(times: AlignedTimes) -> tuple[GrowthRow, ...]:
    def name(key: StackKey) -> str:
        code = _code_line(times, key[1][-1])
        return f"{code.path}:{code.number}: {code.text}" + (" (gone)" if code.is_gone else "")

    return _compare_groups(times, name)[:MAX_ROWS]


def _compare_groups(times: AlignedTimes, group: Callable[[StackKey], str]) -> tuple[GrowthRow, ...]:
    rows: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for key in times.keys:
        rows[group(key)][0] += times.base_s.get(key, 0.0)
        rows[group(key)][1] += times.head_s.get(key, 0.0)
    made = [GrowthRow(name, base_s, head_s) for name, (base_s, head_s) in rows.items() if base_s or head_s]
    return tuple(sorted(made, key=lambda row: (-abs(row.grown_s), row.name)))


def _compare_tables(
    bases: Sequence[Sequence[TableRow]], heads: Sequence[Sequence[TableRow]]
) -> tuple[GrowthRow, ...]:
    sides = [_mean_rows(bases), _mean_rows(heads)]
    rows = [
        GrowthRow(name, before[0], after[0], before[1], after[1])
        for name in {**sides[0], **sides[1]}
        for before, after in [(sides[0].get(name, (0.0, 0.0)), sides[1].get(name, (0.0, 0.0)))]
    ]
    return tuple(sorted(rows, key=lambda row: (-abs(row.grown_s), row.name))[:MAX_ROWS])


def _mean_rows(tables: Sequence[Sequence[TableRow]]) -> dict[str, tuple[float, float]]:
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in (row for table in tables for row in table):
        sums[row.name][0] += row.seconds / len(tables)
        sums[row.name][1] += row.calls / len(tables)
    return {name: (seconds, calls) for name, (seconds, calls) in sums.items()}
