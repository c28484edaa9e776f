"""Is the machine quiet enough? Fresh processes of equal work in pairs, and what the judge would see through them."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from perfci.config import JudgeTable, Settings, SuiteTable
from perfci.doctor.findings import Finding, ok, problem, warning
from perfci.measure.measurement_session import Session
from perfci.measure.open_session import open_session, open_subject
from perfci.model import Commit, PerfciError, Process, Role, Series, Status
from perfci.runner import visit_plan
from perfci.runner.git_repository import Repository
from perfci.runner.measurement_runner import Workbench
from perfci.stats import noise_model
from perfci.stats.location_shift import Shift
from perfci.stats.power import smallest_visible
from perfci.store import open_store
from perfci.verdicts.compare.decision_limits import Limits
from perfci.verdicts.compare.side_costs import Sides
from perfci.verdicts.judged_series import gated
from perfci.verdicts.rule import Rule

EQUALS = Path(__file__).parent / "sample" / "perfci_aa"

MINUTE_S = 60.0
PAIRS = (5, 10, 20)
"""What is foretold: the first look of a comparison, a conviction, and the most that is bought by default."""


@dataclass(frozen=True, slots=True)
class Equals:
    """An A/A run: log ratios of the pairs, the shift the judge sees in them, and what it was read from."""

    series: str
    seconds: float
    log_ratios: tuple[float, ...]
    shift: Shift


def quiet_findings(equals: Equals, judge: JudgeTable) -> list[Finding]:
    """The noise floor of this minute, and whether a change at the bar would stand out of it."""
    floor = noise_model.floor(equals.log_ratios) or 0.0
    told = (
        f"equal processes next to each other differ by up to {floor:.1%} "
        f"({len(equals.log_ratios)} pairs in {equals.seconds:.0f} s, {equals.series})"
    )
    seen = {pairs: visible(equals.shift, pairs, judge) for pairs in PAIRS}
    figures = {"pairs": len(equals.log_ratios), "noise_floor": floor}
    foretold = {f"visible_with_{pairs}_pairs": effect for pairs, effect in seen.items() if math.isfinite(effect)}
    return [replace(ok("noise", told), figures=figures), replace(sight_finding(seen, judge), figures=foretold)]


def sight_finding(visible: dict[int, float], judge: JudgeTable) -> Finding:
    """``visible`` is the smallest effect seen with so many pairs, as a ratio minus one."""
    seen = "; ".join(f"{pairs} pairs see {_effect(effect)}" for pairs, effect in visible.items())
    bar = f"{judge.bar:.0%}"
    enough = [pairs for pairs, effect in visible.items() if effect <= judge.bar]
    if not enough:
        advice = "quieten the machine (see the warnings), judge by exact counts, or raise [judge] bar in perfci.toml"
        return problem("noise", f"too much to promise {bar}: {seen}", advice)
    if enough[0] > min(visible):
        return warning("noise", f"{bar} needs {enough[0]} pairs: {seen}", "see the warnings about the machine, if any")
    return ok("noise", f"little enough for {bar}: {seen}")


def visible(found: Shift, pairs: int, judge: JudgeTable) -> float:
    """The smallest effect whose 95 % interval leaves out what a conviction must exclude, with 80 % power.

    As a ratio minus one, foretold from the error of a run of another number of pairs. Excluded must be half the bar. A
    conviction also asks for an estimate beyond the bar (``strict``: for an interval beyond it), which a change of
    exactly that size meets half of the time on the quietest machine: that says nothing about this one and is left out.
    """
    error = found.error * math.sqrt(found.pairs / pairs)
    df = found.df / found.pairs * pairs
    excluded = Limits.of(Rule(bar=judge.bar)).null
    effect = smallest_visible(error, df, 0.0, excluded)
    return math.expm1(effect) if effect < math.log(1e3) else math.inf


def _effect(effect: float) -> str:
    return f"{effect:.1%}" if math.isfinite(effect) else "nothing"


# ------------------------------------------------------------------ the run


def measure_equals(
    repository: Repository, settings: Settings, commit: Commit, *, seconds: float = MINUTE_S,
    on_pair: Callable[[int], None] = lambda pairs: None,
) -> Equals:  # fmt: skip
    """Measure pairs of one commit with itself, as ``perfci compare X X`` does, into a store that is thrown away."""
    ours = settings.model_copy(update={"suite": SuiteTable()})
    begin = time.monotonic()
    with (
        Workbench(repository, ours, EQUALS) as workbench,
        tempfile.TemporaryDirectory(prefix="perfci-doctor-") as folder,
        contextlib.closing(open_store(f"sqlite:///{folder}/equals.db", create=True)) as store,
    ):
        subject = open_subject(workbench, [commit], "", lambda line: None)
        session = open_session(store, workbench, "doctor", subject, "aa")
        for number in range(PAIRS[-1]):
            if number >= PAIRS[0] and time.monotonic() > begin + seconds:
                break
            on_pair(number)
            for visit in visit_plan.pair(commit.sha, commit.sha, subject.cells, number, 2 * number, session.seed):
                session.visit(visit)
    return equals_of(session, commit.sha, time.monotonic() - begin)


def equals_of(session: Session, sha: str, seconds: float) -> Equals:
    measured: dict[Series, list[Process]] = {}
    for series, process in session.measured.get(sha, ()):
        measured.setdefault(series, []).append(process)
        if process.status is not Status.OK:
            raise PerfciError(f"a process of equal work ended as {process.status}: {process.reason}")
    (series,) = gated(measured)
    base, head = ([p for p in measured[series] if p.role is role] for role in (Role.BASE, Role.HEAD))
    sides = Sides.of(series, base, head)
    return Equals(series.label, seconds, tuple(float(one) for one in sides.head - sides.base), sides.shift())
