"""The goals of a configuration, held to what a comparison measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfci.config import Config
from perfci.measure.ablation import Climb
from perfci.measure.compare_commits import Comparison
from perfci.measure.compare_variants import VariantComparison
from perfci.measure.open_session import Say
from perfci.measure.questions import Question
from perfci.measure.variant_groups import Assignment
from perfci.measure.variant_session import Lineup, Sides
from perfci.model import CPU_TWIN, Role, Series, Verdict
from perfci.runner.cell_outcomes import Discovery
from perfci.runner.frozen_suite import Cell, cells_of
from perfci.store import Store
from perfci.store.queries.measurements import session_processes
from perfci.store.queries.records import MeasuredProcess
from perfci.verdicts.goals.goal_clauses import Goal, parse, require_metrics
from perfci.verdicts.goals.goal_verdict import Compared, GoalVerdict, judge_goal
from perfci.verdicts.goals.tradeoffs import Trade, trades
from perfci.verdicts.policy import Policy


def goals_of(config: Config) -> list[Goal]:
    """Read every ``[[goal]]``; a clause that cannot be read is told with the goal it is in."""
    found = []
    for number, table in enumerate(config.settings.goal, start=1):
        name = table.name or str(number)
        found.append(Goal(name, tuple(parse(text) for text in table.require), table.match))
    return found


def require_known(goals: Sequence[Goal], discovery: Discovery, say: Say) -> None:
    """Before anything is measured: a goal that matches benchmarks asks for metrics they have."""
    cells = cells_of(discovery.benchmarks.values(), "", 1.0)
    for goal in goals:
        benchmarks = {cell.benchmark for cell in cells if goal.concerns(cell.name)}
        metrics = [declared.metric for name in benchmarks for declared in discovery.benchmarks[name].metrics]
        if metrics:
            units = {metric.name: metric.unit for metric in metrics}
            twins = {f"{CPU_TWIN}{name}": unit for name, unit in units.items() if unit.startswith("seconds")}
            require_metrics(goal, twins | units)  # what a second clock may add is known only when it was read
        else:
            say(f"the goal {goal.name!r} is not judged: {goal.match!r} fits no benchmark of this suite")


def require_metrics_of(goals: Sequence[Goal], known: Iterable[Series]) -> None:
    """The same for what was recorded."""
    for goal in goals:
        units = {series.metric.name: series.metric.unit for series in known if goal.concerns(series.cell)}
        if units:
            require_metrics(goal, units)


def compared_of(sides: Mapping[Series, Sides], verdicts: Iterable[Verdict]) -> list[Compared]:
    """Put what was decided beside what was measured."""
    decided = {verdict.series: verdict for verdict in verdicts}
    return [Compared(series, base, head, decided.get(series)) for series, (base, head) in sides.items()]


def judged(
    goals: Sequence[Goal], compared: Sequence[Compared], policy: Policy, *, about: str = "", rejected: str = ""
) -> list[GoalVerdict]:
    """One verdict for each goal that is about any of it."""
    found = [judge_goal(goal, compared, policy.class_of, about=about, rejected=rejected) for goal in goals]
    return [one for one in found if one is not None]


def goals_of_commits(goals: Sequence[Goal], found: Comparison, store: Store, policy: Policy) -> list[GoalVerdict]:
    """The head against the base: by the verdicts where there are any, else as the session measured it."""
    with store.read() as tx:
        rows = session_processes(tx, found.session)
    return judged(goals, compared_of(sides_of(rows, found.base.sha, found.head.sha), found.verdicts), policy)


def sides_of(rows: Iterable[MeasuredProcess], base: str, head: str) -> dict[Series, Sides]:
    """What a session measured in pairs of two commits, or of one with itself."""
    wanted = {(base, Role.BASE): 0, (head, Role.HEAD): 1}
    found: dict[Series, Sides] = {}
    for row in rows:
        if (side := wanted.get((row.sha, row.process.role))) is not None:
            found.setdefault(row.series, ([], []))[side].append(row.process)
    return found


def goals_of_variants(
    goals: Sequence[Goal], found: VariantComparison, assignments: Sequence[Assignment]
) -> list[GoalVerdict]:
    """Each variant against the baseline, all its benchmarks together."""
    judged_ones = []
    for number, assignment in enumerate(assignments[1:], start=1):
        pairs = [(f.cells[0], f.cells[number]) for f in found.lineup.families if number in f.cells]
        judged_ones += judged_variant(goals, found.lineup, found.decided, pairs, label(assignment))
    return judged_ones


def judged_variant(
    goals: Sequence[Goal], lineup: Lineup, decided: Mapping[Question, Sequence[Verdict]],
    pairs: Sequence[tuple[Cell, Cell]], about: str,
) -> list[GoalVerdict]:  # fmt: skip
    """Hold one variant to every goal; one that computes something else is rejected by all that are about it."""
    rejections, found = lineup.rejections(), []
    for goal in goals:
        mine = [(base, head) for base, head in pairs if goal.concerns(head.name)]
        compared = []
        for base, head in mine:
            question = lineup.question(base, head, (base, head))
            compared += compared_of(lineup.sides(question), decided.get(question, ()))
        refused = next(filter(None, (lineup.rejected(head, rejections) for _, head in mine)), "")
        found += judged([goal], compared, lineup.policy, about=about, rejected=refused)
    return found


def trades_of(found: VariantComparison) -> list[Trade]:
    """Every speed of a variant that was paid with memory or a slower start, goal or not."""
    return trades([contrast.verdict for contrast in found.variants.contrasts], found.lineup.policy.class_of)


def trades_of_ladder(found: Climb) -> list[Trade]:
    """What the last good step of each ladder cost beside what it gained."""
    return trades([verdict for ladder in found.ladders for verdict in ladder.total], found.lineup.policy.class_of)


def label(assignment: Assignment) -> str:
    return ", ".join(f"{name}={value}" for name, value in assignment.items())


def goals_of_ladder(goals: Sequence[Goal], found: Climb) -> list[GoalVerdict]:
    """The last good step of every ladder against its first."""
    compared: list[Compared] = []
    for family, ladder in zip(found.lineup.families, found.ladders, strict=True):
        good = [cell for cell in family.cells.values() if any(r.parameters == cell.parameters for r in ladder.good)]
        if len(good) > 1:
            question = found.lineup.question(good[0], good[-1], good)
            compared += compared_of(found.lineup.sides(question), ladder.total)
    tops = {ladder.good[-1].step: None for ladder in found.ladders if ladder.good}
    return judged(goals, compared, found.lineup.policy, about=" and ".join(tops))
