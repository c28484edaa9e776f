"""Check by A/A pairs that the machine is quiet enough to detect the changes that are judged."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from perfci.config import JudgeTable, Settings, SuiteTable
from perfci.doctor.findings import DoctorFinding, ok_finding, problem_finding, warning_finding
from perfci.measure.measure_and_store_session import MeasurementSession
from perfci.measure.open_measurement_session import open_measurement_session, prepare_session_scope
from perfci.model import Commit, PerfciError, Process, Role, Series, Status
from perfci.number_format import format_percent
from perfci.runner import visit_plan
from perfci.runner.git_repository import GitRepository
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.stats.location_shift import Shift
from perfci.stats.noise_floor import compute_noise_floor
from perfci.stats.statistical_power import minimum_detectable_effect
from perfci.store import open_store
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.compare.paired_log_costs import PairedLogCosts
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.judged_series import select_judged_series

AA_SUITE_FOLDER = Path(__file__).parent / "sample" / "perfci_aa"
"""The suite of the A/A run, which does the same steady work on every machine."""

BUDGET_S = 60.0
"""Seconds after which no further pair is measured."""

FORECAST_PAIRS = (5, 10, 20)
"""Numbers of pairs to forecast for.

The first look of a comparison, a confirmation, and the default maximum.
"""


@dataclass(frozen=True, slots=True)
class AAMeasurement:
    """An A/A run: its series, its duration, the log ratios of its pairs and the shift estimated from them."""

    series: str
    seconds: float
    log_ratios: tuple[float, ...]
    shift: Shift


def check_noise(measurement: AAMeasurement, judge: JudgeTable) -> list[DoctorFinding]:
    """Report the noise floor of an A/A run, and whether a change at the bar can be detected above it."""
    floor = compute_noise_floor(measurement.log_ratios) or 0.0
    sentence = (
        f"identical processes differ by up to {format_percent(floor)} "
        f"({len(measurement.log_ratios)} pairs in {measurement.seconds:.0f} s, {measurement.series})"
    )
    effects = {pairs: compute_detectable_effect(measurement.shift, pairs, judge) for pairs in FORECAST_PAIRS}
    figures = {"pairs": len(measurement.log_ratios), "noise_floor": floor}
    forecast = {
        f"visible_with_{pairs}_pairs": effect for pairs, effect in effects.items() if math.isfinite(effect)
    }
    return [
        replace(ok_finding("noise", sentence), figures=figures),
        replace(check_detectable_effect(effects, judge), figures=forecast),
    ]


def check_detectable_effect(smallest_effects: dict[int, float], judge: JudgeTable) -> DoctorFinding:
    """Judge the smallest detectable effects, ratios minus one by number of pairs, against the bar."""
    visible = {
        pairs: format_percent(effect) if math.isfinite(effect) else "nothing"
        for pairs, effect in smallest_effects.items()
    }
    forecast = "; ".join(f"{pairs} pairs see {text}" for pairs, text in visible.items())
    bar = format_percent(judge.bar)
    enough = [pairs for pairs, effect in smallest_effects.items() if effect <= judge.bar]
    if not enough:
        advice = (
            "quieten the machine (see the warnings), judge by exact counts, "
            "or raise [judge] bar in perfci.toml"
        )
        return problem_finding("noise", f"too noisy to detect {bar}: {forecast}", advice)
    if enough[0] > min(smallest_effects):
        return warning_finding(
            "noise",
            f"{bar} needs {enough[0]} pairs: {forecast}",
            "see the warnings about the machine, if any",
        )
    return ok_finding("noise", f"quiet enough for {bar}: {forecast}")


def compute_detectable_effect(shift: Shift, pairs: int, judge: JudgeTable) -> float:
    """The smallest effect whose 95 % interval excludes half the bar with 80 % power, as a ratio minus one.

    The standard error of a run of another number of pairs is scaled by the square root of their ratio, the
    degrees of freedom by the ratio. A confirmation also needs an estimate beyond the bar (``strict``: an
    interval beyond it). A change of exactly that size meets this half of the time on any machine, so it is
    left out here.
    """
    error = shift.error * math.sqrt(shift.pairs / pairs)
    df = shift.df / shift.pairs * pairs
    excluded = DecisionLimits.from_rule(Rule(bar=judge.bar)).null
    effect = minimum_detectable_effect(error, df, 0.0, excluded)
    return math.expm1(effect) if effect < math.log(1e3) else math.inf


def measure_aa_pairs(
    repository: GitRepository,
    settings: Settings,
    commit: Commit,
    *,
    seconds: float = BUDGET_S,
    on_pair: Callable[[int], None] = lambda pairs: None,
) -> AAMeasurement:
    """Measure pairs of one commit with itself, as ``perfci compare X X`` does, into a temporary store."""
    aa_settings = settings.model_copy(update={"suite": SuiteTable()})
    begin = time.monotonic()
    with (
        MeasurementRunner(repository, aa_settings, AA_SUITE_FOLDER) as runner,
        tempfile.TemporaryDirectory(prefix="perfci-doctor-") as folder,
        contextlib.closing(open_store(f"sqlite:///{folder}/aa.db", create=True)) as store,
    ):
        scope = prepare_session_scope(runner, [commit], "", lambda line: None)
        session = open_measurement_session(store, runner, "doctor", scope, "aa")
        for number in range(FORECAST_PAIRS[-1]):
            if number >= FORECAST_PAIRS[0] and time.monotonic() > begin + seconds:
                break
            on_pair(number)
            for visit in visit_plan.plan_pair_visits(
                commit.sha, commit.sha, scope.cells, number, 2 * number, session.seed
            ):
                session.measure_visit(visit)
    return build_aa_measurement(session, commit.sha, time.monotonic() - begin)


def build_aa_measurement(session: MeasurementSession, sha: str, seconds: float) -> AAMeasurement:
    """Estimate the shift between both sides of an A/A session; raise where a process failed."""
    measured: dict[Series, list[Process]] = {}
    for series, process in session.readings.get_commit_processes(sha):
        measured.setdefault(series, []).append(process)
        if process.status is not Status.OK:
            raise PerfciError(f"an A/A process ended as {process.status}: {process.reason}")
    (series,) = select_judged_series(measured)
    base, head = ([p for p in measured[series] if p.role is role] for role in (Role.BASE, Role.HEAD))
    sides = PairedLogCosts.from_processes(series, base, head)
    log_ratios = tuple(float(log_ratio) for log_ratio in sides.head - sides.base)
    return AAMeasurement(series.label, seconds, log_ratios, sides.estimate_shift())
