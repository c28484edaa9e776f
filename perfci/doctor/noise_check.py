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
from perfci.doctor.findings import DoctorFinding, ok, problem, warning
from perfci.measure.measurement_session import MeasurementSession
from perfci.measure.open_session import open_session, prepare_scope
from perfci.model import Commit, PerfciError, Process, Role, Series, Status
from perfci.runner import visit_plan
from perfci.runner.git_repository import GitRepository
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.stats import noise_model
from perfci.stats.location_shift import Shift
from perfci.stats.power import minimum_detectable_effect
from perfci.store import open_store
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.compare.side_costs import SideCosts
from perfci.verdicts.judged_series import select_judged_series
from perfci.verdicts.rule import Rule

AA_SUITE_FOLDER = Path(__file__).parent / "sample" / "perfci_aa"

BUDGET_S = 60.0
FORECAST_PAIRS = (5, 10, 20)
"""What is foretold: the first look of a comparison, a conviction, and the most that is bought by default."""


@dataclass(frozen=True, slots=True)
class AAMeasurement:
    """An A/A run: log ratios of the pairs, the shift the judge sees in them, and what it was read from."""

    series: str
    seconds: float
    log_ratios: tuple[float, ...]
    shift: Shift


def check_noise(measurement: AAMeasurement, judge: JudgeTable) -> list[DoctorFinding]:
    """The noise floor of this minute, and whether a change at the bar would stand out of it."""
    floor = noise_model.compute_noise_floor(measurement.log_ratios) or 0.0
    told = (
        f"equal processes next to each other differ by up to {floor:.1%} "
        f"({len(measurement.log_ratios)} pairs in {measurement.seconds:.0f} s, {measurement.series})"
    )
    seen = {pairs: compute_detectable_effect(measurement.shift, pairs, judge) for pairs in FORECAST_PAIRS}
    figures = {"pairs": len(measurement.log_ratios), "noise_floor": floor}
    foretold = {
        f"visible_with_{pairs}_pairs": effect for pairs, effect in seen.items() if math.isfinite(effect)
    }
    return [
        replace(ok("noise", told), figures=figures),
        replace(check_detectable_effect(seen, judge), figures=foretold),
    ]


def check_detectable_effect(smallest_effects: dict[int, float], judge: JudgeTable) -> DoctorFinding:
    """``visible`` is the smallest effect seen with so many pairs, as a ratio minus one."""
    seen = "; ".join(
        f"{pairs} pairs see {_format_effect(effect)}" for pairs, effect in smallest_effects.items()
    )
    bar = f"{judge.bar:.0%}"
    enough = [pairs for pairs, effect in smallest_effects.items() if effect <= judge.bar]
    if not enough:
        advice = "quieten the machine (see the warnings), judge by exact counts, or raise [judge] bar in perfci.toml"
        return problem("noise", f"too much to promise {bar}: {seen}", advice)
    if enough[0] > min(smallest_effects):
        return warning(
            "noise", f"{bar} needs {enough[0]} pairs: {seen}", "see the warnings about the machine, if any"
        )
    return ok("noise", f"little enough for {bar}: {seen}")


def compute_detectable_effect(shift: Shift, pairs: int, judge: JudgeTable) -> float:
    """The smallest effect whose 95 % interval leaves out what a conviction must exclude, with 80 % power.

    As a ratio minus one, foretold from the error of a run of another number of pairs. Excluded must be half the bar. A
    conviction also asks for an estimate beyond the bar (``strict``: for an interval beyond it), which a change of
    exactly that size meets half of the time on the quietest machine: that says nothing about this one and is left out.
    """
    error = shift.error * math.sqrt(shift.pairs / pairs)
    df = shift.df / shift.pairs * pairs
    excluded = DecisionLimits.from_rule(Rule(bar=judge.bar)).null
    effect = minimum_detectable_effect(error, df, 0.0, excluded)
    return math.expm1(effect) if effect < math.log(1e3) else math.inf


def _format_effect(effect: float) -> str:
    return f"{effect:.1%}" if math.isfinite(effect) else "nothing"


# ------------------------------------------------------------------ the run


def measure_aa_pairs(
    repository: GitRepository,
    settings: Settings,
    commit: Commit,
    *,
    seconds: float = BUDGET_S,
    on_pair: Callable[[int], None] = lambda pairs: None,
) -> AAMeasurement:
    """Measure pairs of one commit with itself, as ``perfci compare X X`` does, into a store that is thrown away."""
    ours = settings.model_copy(update={"suite": SuiteTable()})
    begin = time.monotonic()
    with (
        MeasurementRunner(repository, ours, AA_SUITE_FOLDER) as workbench,
        tempfile.TemporaryDirectory(prefix="perfci-doctor-") as folder,
        contextlib.closing(open_store(f"sqlite:///{folder}/equals.db", create=True)) as store,
    ):
        subject = prepare_scope(workbench, [commit], "", lambda line: None)
        session = open_session(store, workbench, "doctor", subject, "aa")
        for number in range(FORECAST_PAIRS[-1]):
            if number >= FORECAST_PAIRS[0] and time.monotonic() > begin + seconds:
                break
            on_pair(number)
            for visit in visit_plan.plan_pair(
                commit.sha, commit.sha, subject.cells, number, 2 * number, session.seed
            ):
                session.measure_visit(visit)
    return build_aa_measurement(session, commit.sha, time.monotonic() - begin)


def build_aa_measurement(session: MeasurementSession, sha: str, seconds: float) -> AAMeasurement:
    measured: dict[Series, list[Process]] = {}
    for series, process in session.readings.get_commit_processes(sha):
        measured.setdefault(series, []).append(process)
        if process.status is not Status.OK:
            raise PerfciError(f"a process of equal work ended as {process.status}: {process.reason}")
    (series,) = select_judged_series(measured)
    base, head = ([p for p in measured[series] if p.role is role] for role in (Role.BASE, Role.HEAD))
    sides = SideCosts.from_processes(series, base, head)
    return AAMeasurement(
        series.label, seconds, tuple(float(one) for one in sides.head - sides.base), sides.estimate_shift()
    )
