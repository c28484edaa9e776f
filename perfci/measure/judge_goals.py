"""Judge the goals of a configuration by what a comparison measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfci.config import Config
from perfci.history.comparisons.complete_process_pairs import PairedProcesses
from perfci.measure.compare_commits import CommitComparison
from perfci.measure.compare_variants import VariantComparison
from perfci.measure.comparison_questions import ComparisonQuestion
from perfci.measure.measure_ablation_steps import AblationResult
from perfci.measure.open_measurement_session import OnMessage
from perfci.measure.variant_groups import ParameterAssignment, format_assignment
from perfci.measure.variant_session import VariantSession
from perfci.model import CPU_METRIC_PREFIX, Role, Series, Verdict
from perfci.runner.cell_outcomes import Discovery
from perfci.runner.suite_cells import Cell, expand_cells
from perfci.store import Store
from perfci.store.queries.measured_samples import load_session_processes
from perfci.store.queries.query_records import MeasuredProcess
from perfci.verdicts.goals.goal_clauses import Goal, parse_clause, validate_goal_metrics
from perfci.verdicts.goals.goal_verdict import ComparedSeries, GoalVerdict, judge_goal
from perfci.verdicts.judging_policy import Policy


def parse_goals(config: Config) -> list[Goal]:
    """Parse every ``[[goal]]`` of the configuration."""
    goals = []
    for number, table in enumerate(config.settings.goal, start=1):
        name = table.name or str(number)
        goals.append(Goal(name, tuple(parse_clause(text) for text in table.require), table.match))
    return goals


def require_known_metrics(goals: Sequence[Goal], discovery: Discovery, on_message: OnMessage) -> None:
    """Raise before measuring where a goal names a metric that its benchmarks lack.

    Report a goal without benchmarks.
    """
    cells = expand_cells(discovery.benchmarks.values(), "", 1.0)
    for goal in goals:
        benchmarks = {cell.benchmark for cell in cells if goal.matches_cell(cell.name)}
        metrics = [declared.metric for name in benchmarks for declared in discovery.benchmarks[name].metrics]
        if metrics:
            units = {metric.name: metric.unit for metric in metrics}
            cpu_units = {
                f"{CPU_METRIC_PREFIX}{name}": unit
                for name, unit in units.items()
                if unit.startswith("seconds")
            }
            # Whether a benchmark also has CPU time is known only after a process ran.
            validate_goal_metrics(goal, cpu_units | units)
        else:
            on_message(
                f"the goal {goal.name!r} is not judged: {goal.match!r} fits no benchmark of this suite"
            )


def require_recorded_metrics(goals: Sequence[Goal], recorded: Iterable[Series]) -> None:
    """Raise where a goal names a metric that the recorded series lack."""
    for goal in goals:
        units = {
            series.metric.name: series.metric.unit for series in recorded if goal.matches_cell(series.cell)
        }
        if units:
            validate_goal_metrics(goal, units)


def join_processes_with_verdicts(
    sides: Mapping[Series, PairedProcesses], verdicts: Iterable[Verdict]
) -> list[ComparedSeries]:
    """Join the processes of both sides with the verdict on their series, if there is one."""
    verdicts_by_series = {verdict.series: verdict for verdict in verdicts}
    return [
        ComparedSeries(series, base, head, verdicts_by_series.get(series))
        for series, (base, head) in sides.items()
    ]


def judge_goals(
    goals: Sequence[Goal],
    compared: Sequence[ComparedSeries],
    policy: Policy,
    *,
    subject: str = "",
    rejected: str = "",
) -> list[GoalVerdict]:
    """One verdict for each goal that matches any of the series."""
    verdicts = [
        judge_goal(goal, compared, policy.metric_class_of, subject=subject, rejection_reason=rejected)
        for goal in goals
    ]
    return [verdict for verdict in verdicts if verdict is not None]


def judge_commit_goals(
    goals: Sequence[Goal], comparison: CommitComparison, store: Store, policy: Policy
) -> list[GoalVerdict]:
    """Judge the head against the base.

    By the verdicts where there are any, else by the processes of the session.
    """
    with store.read() as tx:
        rows = load_session_processes(tx, comparison.session)
    sides = group_processes_by_side(rows, comparison.base.sha, comparison.head.sha)
    return judge_goals(goals, join_processes_with_verdicts(sides, comparison.verdicts), policy)


def group_processes_by_side(
    rows: Iterable[MeasuredProcess], base: str, head: str
) -> dict[Series, PairedProcesses]:
    """The processes of base and head by series; in an A/A run both are one commit with two roles."""
    side_numbers = {(base, Role.BASE): 0, (head, Role.HEAD): 1}
    sides: dict[Series, PairedProcesses] = {}
    for row in rows:
        side_number = side_numbers.get((row.sha, row.process.role))
        if side_number is not None:
            sides.setdefault(row.series, ([], []))[side_number].append(row.process)
    return sides


def judge_variant_goals(
    goals: Sequence[Goal], comparison: VariantComparison, assignments: Sequence[ParameterAssignment]
) -> list[GoalVerdict]:
    """Judge each variant against the baseline, all its benchmarks together."""
    verdicts = []
    for number, assignment in enumerate(assignments[1:], start=1):
        pairs = [
            (group.cells[0], group.cells[number])
            for group in comparison.variant_session.groups
            if number in group.cells
        ]
        verdicts += judge_single_variant_goals(
            goals, comparison.variant_session, comparison.verdicts, pairs, format_assignment(assignment)
        )
    return verdicts


def judge_single_variant_goals(
    goals: Sequence[Goal],
    variants: VariantSession,
    verdicts: Mapping[ComparisonQuestion, Sequence[Verdict]],
    pairs: Sequence[tuple[Cell, Cell]],
    subject: str,
) -> list[GoalVerdict]:
    """Judge every goal for one variant; a variant with other numerics fails all goals that match it."""
    rejections = variants.find_rejected_variants()
    goal_verdicts = []
    for goal in goals:
        matching = [(base, head) for base, head in pairs if goal.matches_cell(head.name)]
        compared = []
        for base, head in matching:
            question = variants.build_question(base, head, (base, head))
            compared += join_processes_with_verdicts(
                variants.collect_paired_processes(question), verdicts.get(question, ())
            )
        reasons = [variants.get_rejection_reason(head, rejections) for _, head in matching]
        rejected = next(filter(None, reasons), "")
        goal_verdicts += judge_goals([goal], compared, variants.policy, subject=subject, rejected=rejected)
    return goal_verdicts


def judge_ablation_goals(goals: Sequence[Goal], ablation: AblationResult) -> list[GoalVerdict]:
    """Judge the last good step of every benchmark against its first."""
    variants = ablation.variant_session
    compared: list[ComparedSeries] = []
    last_steps: dict[str, None] = {}
    for group, result in zip(variants.groups, ablation.ablations, strict=True):
        accepted = [step.parameters for step in result.accepted_steps]
        good = [cell for cell in group.cells.values() if cell.parameters in accepted]
        if len(good) > 1:
            question = variants.build_question(good[0], good[-1], good)
            compared += join_processes_with_verdicts(
                variants.collect_paired_processes(question), result.total_verdicts
            )
        if accepted:
            last_steps[result.accepted_steps[-1].name] = None
    return judge_goals(goals, compared, variants.policy, subject=" and ".join(last_steps))
