"""The goals of a configuration, held to what a comparison measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfci.config import Config
from perfci.measure.ablation import AblationResult
from perfci.measure.compare_commits import CommitComparison
from perfci.measure.compare_variants import VariantComparison
from perfci.measure.open_session import OnMessage
from perfci.measure.questions import Question
from perfci.measure.variant_groups import ParameterAssignment
from perfci.measure.variant_session import PairedProcesses, VariantSession
from perfci.model import CPU_METRIC_PREFIX, Role, Series, Verdict
from perfci.runner.cell_outcomes import Discovery
from perfci.runner.frozen_suite import Cell, expand_cells
from perfci.store import Store
from perfci.store.queries.measurements import load_session_processes
from perfci.store.queries.records import MeasuredProcess
from perfci.verdicts.goals.goal_clauses import Goal, parse_clause, require_metrics
from perfci.verdicts.goals.goal_verdict import ComparedSeries, GoalVerdict, judge_goal
from perfci.verdicts.goals.tradeoffs import Tradeoff, find_tradeoffs
from perfci.verdicts.policy import Policy


def parse_goals(config: Config) -> list[Goal]:
    """Read every ``[[goal]]``; a clause that cannot be read is told with the goal it is in."""
    found = []
    for number, table in enumerate(config.settings.goal, start=1):
        name = table.name or str(number)
        found.append(Goal(name, tuple(parse_clause(text) for text in table.require), table.match))
    return found


def require_known_metrics(goals: Sequence[Goal], discovery: Discovery, on_message: OnMessage) -> None:
    """Before anything is measured: a goal that matches benchmarks asks for metrics they have."""
    cells = expand_cells(discovery.benchmarks.values(), "", 1.0)
    for goal in goals:
        benchmarks = {cell.benchmark for cell in cells if goal.matches_cell(cell.name)}
        metrics = [declared.metric for name in benchmarks for declared in discovery.benchmarks[name].metrics]
        if metrics:
            units = {metric.name: metric.unit for metric in metrics}
            twins = {
                f"{CPU_METRIC_PREFIX}{name}": unit
                for name, unit in units.items()
                if unit.startswith("seconds")
            }
            require_metrics(goal, twins | units)  # what a second clock may add is known only when it was read
        else:
            on_message(
                f"the goal {goal.name!r} is not judged: {goal.match!r} fits no benchmark of this suite"
            )


def require_recorded_metrics(goals: Sequence[Goal], recorded: Iterable[Series]) -> None:
    """The same for what was recorded."""
    for goal in goals:
        units = {
            series.metric.name: series.metric.unit for series in recorded if goal.matches_cell(series.cell)
        }
        if units:
            require_metrics(goal, units)


def build_goal_inputs(
    sides: Mapping[Series, PairedProcesses], verdicts: Iterable[Verdict]
) -> list[ComparedSeries]:
    """Put what was decided beside what was measured."""
    decided = {verdict.series: verdict for verdict in verdicts}
    return [ComparedSeries(series, base, head, decided.get(series)) for series, (base, head) in sides.items()]


def judge_goals(
    goals: Sequence[Goal],
    compared: Sequence[ComparedSeries],
    policy: Policy,
    *,
    subject: str = "",
    rejected: str = "",
) -> list[GoalVerdict]:
    """One verdict for each goal that is about any of it."""
    found = [
        judge_goal(goal, compared, policy.class_of, subject=subject, rejection_reason=rejected)
        for goal in goals
    ]
    return [one for one in found if one is not None]


def judge_commit_goals(
    goals: Sequence[Goal], comparison: CommitComparison, store: Store, policy: Policy
) -> list[GoalVerdict]:
    """The head against the base: by the verdicts where there are any, else as the session measured it."""
    with store.read() as tx:
        rows = load_session_processes(tx, comparison.session)
    return judge_goals(
        goals,
        build_goal_inputs(group_sides(rows, comparison.base.sha, comparison.head.sha), comparison.verdicts),
        policy,
    )


def group_sides(rows: Iterable[MeasuredProcess], base: str, head: str) -> dict[Series, PairedProcesses]:
    """What a session measured in pairs of two commits, or of one with itself."""
    wanted = {(base, Role.BASE): 0, (head, Role.HEAD): 1}
    found: dict[Series, PairedProcesses] = {}
    for row in rows:
        if (side := wanted.get((row.sha, row.process.role))) is not None:
            found.setdefault(row.series, ([], []))[side].append(row.process)
    return found


def judge_variant_goals(
    goals: Sequence[Goal], comparison: VariantComparison, assignments: Sequence[ParameterAssignment]
) -> list[GoalVerdict]:
    """Each variant against the baseline, all its benchmarks together."""
    judged_ones = []
    for number, assignment in enumerate(assignments[1:], start=1):
        pairs = [
            (f.cells[0], f.cells[number]) for f in comparison.variant_session.groups if number in f.cells
        ]
        judged_ones += judge_single_variant(
            goals, comparison.variant_session, comparison.verdicts, pairs, format_assignment(assignment)
        )
    return judged_ones


def judge_single_variant(
    goals: Sequence[Goal],
    variants: VariantSession,
    verdicts: Mapping[Question, Sequence[Verdict]],
    pairs: Sequence[tuple[Cell, Cell]],
    subject: str,
) -> list[GoalVerdict]:
    """Hold one variant to every goal; one that computes something else is rejected by all that are about it."""
    rejections, found = variants.find_rejections(), []
    for goal in goals:
        mine = [(base, head) for base, head in pairs if goal.matches_cell(head.name)]
        compared = []
        for base, head in mine:
            question = variants.build_question(base, head, (base, head))
            compared += build_goal_inputs(variants.collect_sides(question), verdicts.get(question, ()))
        refused = next(
            filter(None, (variants.get_rejection_reason(head, rejections) for _, head in mine)), ""
        )
        found += judge_goals([goal], compared, variants.policy, subject=subject, rejected=refused)
    return found


def find_variant_trades(comparison: VariantComparison) -> list[Tradeoff]:
    """Every speed of a variant that was paid with memory or a slower start, goal or not."""
    return find_tradeoffs(
        [contrast.verdict for contrast in comparison.variants.contrasts],
        comparison.variant_session.policy.class_of,
    )


def find_ablation_trades(ablation: AblationResult) -> list[Tradeoff]:
    """What the last good step of each ladder cost beside what it gained."""
    return find_tradeoffs(
        [verdict for ladder in ablation.ablations for verdict in ladder.total_verdicts],
        ablation.variant_session.policy.class_of,
    )


def format_assignment(assignment: ParameterAssignment) -> str:
    return ", ".join(f"{name}={value}" for name, value in assignment.items())


def judge_ablation_goals(goals: Sequence[Goal], ablation: AblationResult) -> list[GoalVerdict]:
    """The last good step of every ladder against its first."""
    compared: list[ComparedSeries] = []
    for family, ladder in zip(ablation.variant_session.groups, ablation.ablations, strict=True):
        good = [
            cell
            for cell in family.cells.values()
            if any(r.parameters == cell.parameters for r in ladder.accepted_steps)
        ]
        if len(good) > 1:
            question = ablation.variant_session.build_question(good[0], good[-1], good)
            compared += build_goal_inputs(
                ablation.variant_session.collect_sides(question), ladder.total_verdicts
            )
    tops = {ladder.accepted_steps[-1].name: None for ladder in ablation.ablations if ladder.accepted_steps}
    return judge_goals(goals, compared, ablation.variant_session.policy, subject=" and ".join(tops))
