"""``perfci compare`` of variants, ablations, recorded files and goals."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.formats import run_document
from perfci.model import GoalRecord, Role, VariantComparisonRecord, VerdictKind
from perfci.store import open_store
from perfci.store.projects import load_projects
from perfci.store.queries.comparisons.variant_comparisons import load_goals, load_variant_comparisons
from tests.support.builders import a_commit, a_pair, a_result, a_run, a_series
from tests.support.git_project import GitProject

SUITE = """
    import thing

    class ParityFailed(Exception):
        def __init__(self, what): super().__init__("rejected: parity failed: " + what)

    class Gpt:
        params = (["sdpa", "flash", "math", "broken"], [1])
        param_names = ["attn", "batch"]

        def track_step(self, attn, batch):
            if attn == "broken":
                raise ParityFailed("loss at step 2 is 2.4 against 2.2 of the reference (9 %, allowed 0.5 %)")
            return {"sdpa": 800, "flash": 600, "math": 900}[attn] + thing.MORE
        track_step.unit, track_step.metric, track_step.clock = "seconds", "step_time", "exact"

        def track_peak(self, attn, batch):
            return {"sdpa": 4096, "flash": 8192, "math": 4096, "broken": 1}[attn]
        track_peak.unit, track_peak.metric, track_peak.clock = "bytes", "peak_allocated", "exact"

        def track_loss(self, attn, batch):
            return {"sdpa": 2.2, "flash": 2.200001, "math": 2.3, "broken": 9}[attn]
        track_loss.unit, track_loss.metric, track_loss.clock = "loss", "loss_at_step_k", "exact"
"""

ABLATION = """
    [[ablation]]
    name = "attention"
    steps = [
        { name = "baseline", set = { attn = "sdpa" } },
        { name = "+math", set = { attn = "math" } },
        { name = "+flash", set = { attn = "flash" } },
    ]
"""


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    project = GitProject(working_folder)
    project.commit("First", thing="MORE = 0\n", benchmarks__suite=SUITE)
    return project


def rows(project: GitProject, query: str) -> list[tuple]:
    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        return database.execute(query).fetchall()


def stored_variants(project: GitProject) -> tuple[list[VariantComparisonRecord], list[GoalRecord]]:
    url = f"sqlite:///{project.folder / '.perfci' / 'perfci.db'}"
    with closing(open_store(url, create=False)) as store, store.read() as tx:
        (record,) = load_projects(tx)
        return load_variant_comparisons(tx, record.id, limit=9), load_goals(tx, record.id, limit=9)


def test_compares_variants_of_one_commit_with_the_first(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_cli(["compare", "--vary", "attn=sdpa,flash,math,broken", "--at", "HEAD"])

    short = project.git("rev-parse", "HEAD")[:10]
    assert code == 1
    assert capsys.readouterr().out == (
        f"commit {short} First\n"
        "vary attn=sdpa,flash,math,broken\n"
        "\n"
        "1 regression, 1 improvement, 2 variants rejected.\n"
        "\n"
        "✕ suite.Gpt('broken', 1) is rejected, whatever its speed: "
        "loss at step 2 is 2.4 against 2.2 of the reference (9 %, allowed 0.5 %)\n"
        "✕ suite.Gpt('math', 1) is rejected, whatever its speed: "
        "loss_at_step_k is 2.3 against 2.2 of the baseline (4.5 %, allowed 0.001 % for fp32)\n"
        "\n"
        "suite.Gpt.track_peak, batch=1\n"
        "     metric          variant       base       head  change  95 % interval  pairs  verdict\n"
        "  ▲  peak_allocated  flash    4.000 KiB  8.000 KiB  +100 %          exact      5  regression\n"
        "\n"
        "suite.Gpt.track_step, batch=1\n"
        "     metric     variant     base     head   change  95 % interval  pairs  verdict\n"
        "  ▼  step_time  flash    800.0 s  600.0 s  −25.0 %          exact      5  improvement\n"
        "\n"
        "suite.Gpt.track_loss, batch=1\n"
        "  ≈  flash agrees with the baseline in loss_at_step_k\n"
        "  ✕  math does not agree with the baseline in loss_at_step_k\n"
        "  ✕  broken does not agree with the baseline in loss_at_step_k\n"
        "\n"
        "⇄ trade-off at suite.Gpt('flash', 1): step_time got 25.0 % faster, but peak_allocated needs 100 "
        "% more memory\n"
        "\n"
    )


def test_stores_variant_runs_without_histories_or_verdicts(project: GitProject) -> None:
    run_cli(["compare", "--vary", "attn=sdpa,flash", "--bench", "step"])

    assert rows(project, "select distinct kind, state from sessions") == [
        ("variants", "finished"),
        ("confirm", "finished"),
    ]
    assert rows(project, "select count(*) from verdicts") == [(0,)]
    assert rows(project, "select role, count(*) from processes group by role") == [("base", 6), ("head", 6)]


def test_stores_each_variant_against_the_first_apart_from_verdicts(project: GitProject) -> None:
    project.write("perfci.toml", '[[goal]]\nname = "fast"\nrequire = ["step_time <= 0.8x"]\n')

    run_cli(["compare", "--vary", "attn=sdpa,flash,broken", "--bench", "step"])

    (comparison,), goals = stored_variants(project)
    assert (comparison.kind, comparison.name) == ("vary", "attn=sdpa,flash,broken")
    base, flash, broken = comparison.steps
    assert (base.name, base.compared_with, base.verdicts) == ("attn=sdpa", "", ())
    assert (flash.name, flash.compared_with, flash.shared_parameters) == (
        "attn=flash",
        "attn=sdpa",
        (("batch", "1"),),
    )
    assert [(each.kind, each.ratio, each.base_level) for each in flash.verdicts] == [
        (VerdictKind.IMPROVEMENT, 0.75, 800.0)
    ]
    assert (broken.verdicts, broken.rejection_reason[:31]) == ((), "rejected: loss at step 2 is 2.4")
    assert {(goal.name, goal.subject, goal.outcome, len(goal.clauses)) for goal in goals} == {
        ("fast", "attn=flash", "met", 1),
        ("fast", "attn=broken", "rejected", 0),
    }
    assert rows(project, "select count(*) from verdicts") == [(0,)]


def test_stores_the_steps_and_the_total_of_an_ablation(project: GitProject) -> None:
    project.write("perfci.toml", ABLATION)

    run_cli(["compare", "--ablation", "attention", "--bench", "step|loss"])

    (comparison,), goals = stored_variants(project)
    assert (comparison.kind, comparison.name, goals) == ("ablation", "attention", [])
    steps = [step for step in comparison.steps if step.benchmark == "suite.Gpt.track_step"]
    assert [(step.name, step.compared_with, step.is_total) for step in steps] == [
        ("baseline", "", False),
        ("+math", "", False),
        ("+flash", "baseline", False),
        ("total", "baseline", True),
    ]
    assert [step.name for step in steps if step.rejection_reason] == ["+math"]
    assert [[verdict.ratio for verdict in step.verdicts] for step in steps] == [[], [], [0.75], [0.75]]


def test_a_rejected_variant_is_measured_once(project: GitProject) -> None:
    run_cli(["compare", "--vary", "attn=sdpa,broken,flash", "--bench", "step"])

    of_broken = (
        "from processes p join results r on p.result_id = r.id join series s on r.series_id = s.id "
        "where s.parameters like '%broken%'"
    )
    assert rows(project, f"select count(*) {of_broken}") == [(1,)]


def test_resumes_an_interrupted_comparison(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    requests = ["compare", "--vary", "attn=sdpa,math", "--bench", "peak", "--at", "HEAD"]
    run_cli(requests)
    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        database.execute("delete from processes where id > 1")
        database.execute("update sessions set state = 'running', finished_at = null")

    assert run_cli(requests) == 0

    assert "resuming an interrupted session: 1 readings are there already" in capsys.readouterr().err
    per_pair = rows(project, "select count(*) from processes group by pair order by pair")
    assert per_pair[:2] == [(1,), (2,)]


def test_writes_both_sides_as_json(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    run_cli(["compare", "--vary", "attn=sdpa,flash", "--bench", "step", "--json"])

    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    assert verdict["base_parameters"] == [["attn", "'sdpa'"], ["batch", "1"]]
    assert verdict["verdict"]["series"]["parameters"] == [["attn", "'flash'"], ["batch", "1"]]
    assert (verdict["verdict"]["kind"], verdict["verdict"]["ratio"]) == ("improvement", 0.75)


def test_an_ablation_continues_from_the_last_accepted_step(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("perfci.toml", ABLATION)

    code = run_cli(["compare", "--ablation", "attention", "--bench", "step|loss"])

    out = capsys.readouterr().out
    assert code == 1
    assert out.partition("\n\n")[2] == (
        "ablation attention: suite.Gpt.track_step, batch=1\n"
        "\n"
        "step_time\n"
        "     step        level   change  95 % interval   gain  rounds\n"
        "     baseline  800.0 s\n"
        "  ✕  +math                                                     rejected\n"
        "  ▼  +flash    600.0 s  −25.0 %          exact  1.33x       1  against baseline\n"
        "\n"
        "✕ +math rejected: fails parity, "
        "loss_at_step_k is 2.3 against 2.2 of the baseline (4.5 %, allowed 0.001 % for fp32)\n"
        "\n"
    )


def test_goals_are_judged_at_the_end_of_a_comparison(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = (
        '[[goal]]\nname = "fast"\nmatch = "flash"\nrequire = ["step_time <= 0.9x", "peak_allocated <= 1x"]\n'
    )
    project.commit("Faster", thing="MORE = -300\n", **{"perfci.toml": goal})

    code = run_cli(["compare", "HEAD~1", "HEAD", "--bench", "flash"])

    _, (goal,) = stored_variants(project)
    assert (goal.name, goal.outcome) == ("fast", "met")
    assert [clause.estimate for clause in goal.clauses] == [0.5, 1]
    assert goal.base != goal.head
    assert code == 0
    assert capsys.readouterr().out.endswith(
        "✓ goal fast: met\n"
        "     clause                benchmark                         estimate  95 % interval\n"
        "  ✓  step_time <= 0.9x     suite.Gpt.track_step('flash', 1)    0.500x          exact\n"
        "  ✓  peak_allocated <= 1x  suite.Gpt.track_peak('flash', 1)    1.000x          exact\n"
        "\n"
    )


def test_a_broken_goal_fails_where_no_regression_does(project: GitProject) -> None:
    goal = '[[goal]]\nrequire = ["step_time <= 0.7x"]\nmatch = "step"\n'
    project.commit("A little faster", thing="MORE = -100\n", **{"perfci.toml": goal})

    assert run_cli(["compare", "HEAD~1", "HEAD", "--bench", "step.*flash"]) == 1


def test_an_undecided_goal_fails_only_when_strict(project: GitProject) -> None:
    project.write("perfci.toml", '[[goal]]\nrequire = ["step_time <= 1x", "peak_allocated <= 1x"]\n')

    codes = [
        run_cli(["compare", "HEAD", "HEAD", "--bench", "step.*flash", *more]) for more in ([], ["--strict"])
    ]

    assert codes == [0, 3]


def test_a_goal_sets_the_tolerance_of_numerics(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("perfci.toml", '[[goal]]\nname = "close"\nrequire = ["loss within 5%"]\n')

    code = run_cli(["compare", "--vary", "attn=sdpa,math", "--bench", "loss"])

    assert code == 0
    assert "✓ goal close, attn=math: met" in capsys.readouterr().out


def test_judges_two_files_without_measuring(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [a_pair(k, 1.0 + k / 1000, 1.2 + k / 1000) for k in range(8)]
    for name, role, number in (("a.json", Role.BASE, 1), ("b.json", Role.HEAD, 2)):
        side = [process for pair in pairs for process in pair if process.role is role]
        document = a_run(a_result(a_series(), *side), commit=a_commit(number))
        (working_folder / name).write_text(run_document.dump_run(document))

    code = run_cli(["compare", "--files", "a.json", "b.json"])

    out = capsys.readouterr().out
    assert code == 1
    assert out.startswith(
        "base a.json: 00000001cc Change number 1\nhead b.json: 00000002cc Change number 2\n\n1 regression."
    )
    assert [path.name for path in working_folder.iterdir() if path.name.startswith(".perfci")] == []


def test_an_ablation_skips_a_failing_step_and_measures_its_total(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = """
        def track_step(batch):
            if batch == 4: raise MemoryError("no room")
            return {1: 100, 2: 80, 8: 60}[batch]
        track_step.params, track_step.param_names = [1, 2, 4, 8], ["batch"]
        track_step.unit, track_step.metric, track_step.clock = "seconds", "step_time", "exact"
    """
    steps = ", ".join(f'{{ name = "batch {size}", set = {{ batch = {size} }} }}' for size in (1, 2, 4, 8))
    ablation_table = f'[[ablation]]\nname = "batch"\nsteps = [{steps}]\n'
    GitProject(working_folder).commit(
        "One benchmark", benchmarks__suite=suite, **{"perfci.toml": ablation_table}
    )

    code = run_cli(["compare", "--ablation", "batch"])

    assert code == 1
    assert capsys.readouterr().out.partition("\n\n")[2] == (
        "ablation batch: suite.track_step\n"
        "\n"
        "step_time\n"
        "     step       level   change  95 % interval   gain  rounds\n"
        "     batch 1  100.0 s\n"
        "  ▼  batch 2  80.00 s  −20.0 %          exact  1.25x       1\n"
        "  ✕  batch 4                                                  oom\n"
        "  ▼  batch 8  60.00 s  −25.0 %          exact  1.33x       1  against batch 2\n"
        "  ▼  total             −40.0 %          exact  1.67x       1\n"
        "\n"
        "✕ batch 4 oom: MemoryError: no room\n"
        "\n"
    )


def test_an_ablation_reports_tradeoffs(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    project.write("perfci.toml", ABLATION)

    run_cli(["compare", "--ablation", "attention", "--bench", "step|peak"])

    assert capsys.readouterr().out.endswith(
        "⇄ trade-off at suite.Gpt('flash', 1): step_time got 25.0 % faster, "
        "but peak_allocated needs 100 % more memory\n\n"
    )


WRONG = {
    "compare": "nothing to compare: give BASE, --vary NAME=A,B, --ablation NAME or --files A B",
    "compare HEAD --vary attn=sdpa,flash": "BASE and --vary are different comparisons: give one of them",
    "compare HEAD --at HEAD": "--at says whose variants are compared: it belongs to --vary and --ablation",
    "compare --vary atn=sdpa,flash": "--vary atn=sdpa,flash: no benchmark here has a parameter 'atn' "
    "(did you mean 'attn'?); there are attn and batch",
    "compare --ablation speed": "there is no ablation 'speed'; there are attention",
    "compare --files gone.json gone.json": "There is no file or folder gone.json.",
}


@pytest.mark.parametrize(("arguments", "sentence"), WRONG.items())
def test_explains_invalid_options(
    project: GitProject, capsys: pytest.CaptureFixture[str], arguments: str, sentence: str
) -> None:
    project.write("perfci.toml", ABLATION)

    code = run_cli(arguments.split())

    assert (code, capsys.readouterr().err.strip()) == (2, f"perfci: {sentence}")
    assert not (project.folder / ".perfci" / "perfci.db").exists()


def test_a_goal_on_an_unknown_metric_stops_before_anything_is_measured(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("perfci.toml", '[[goal]]\nrequire = ["stp_time <= 0.7x"]\n')

    code = run_cli(["compare", "HEAD"])

    assert (code, capsys.readouterr().err.strip()) == (
        2,
        "perfci: the goal 'stp_time <= 0.7x': no benchmark it matches has a metric 'stp_time'; "
        "did you mean 'step_time'?",
    )
    assert not (project.folder / ".perfci" / "perfci.db").exists()


MISWRITTEN = {
    '[[goal]]\nrequires = ["step_time <= 1x"]\n': "unknown key 'goal.0.requires'; did you mean 'require'?",
    '[[goal]]\nmatch = "("\nrequire = ["step_time <= 1x"]\n': "goal.0.match: a regular expression was "
    "expected, "
    "but missing ), unterminated subpattern at position 0, found '('",
    ABLATION + ABLATION: "two [[ablation]] tables are called 'attention'; every ablation needs its own name",
}


@pytest.mark.parametrize(("text", "sentence"), MISWRITTEN.items(), ids=["key", "match", "name"])
def test_explains_an_invalid_configuration(
    project: GitProject, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    project.write("perfci.toml", text)

    code = run_cli(["compare", "HEAD"])

    assert (code, capsys.readouterr().err.strip()) == (2, f"perfci: {project.folder}/perfci.toml: {sentence}")
