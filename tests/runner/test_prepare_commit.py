"""A commit's code is what gets measured, or the result says why not."""

from __future__ import annotations

from pathlib import Path

from runner.conftest import a_runner, measured

from perfci.config import EnvironmentTable, Settings, SuiteTable
from perfci.model import Status
from perfci.runner.prepare_commit import list_import_paths
from perfci.runner.suite_cells import Cell, expand_cells
from tests.support.git_project import GitProject

ANSWER = "import thing\ndef track_answer(): return thing.ANSWER\n"


def test_measures_each_commits_own_code_with_the_suite_of_the_working_tree(project: GitProject) -> None:
    project.commit("One", thing="ANSWER = 1\n")
    project.commit("Two", thing="ANSWER = 2\n", benchmarks__suite=ANSWER)

    with a_runner(project) as runner:
        commits = runner.repository.list_first_parent_commits("HEAD")
        runner.prepare_commits(commits)
        cells = expand_cells(runner.discover_suite(commits[1].sha).benchmarks.values(), "", 10)
        values = [o.metrics[0].samples[0] for c in commits for o, _ in runner.visit_commit(c.sha, cells)]

    assert values == [1.0, 2.0]


def test_refuses_to_measure_code_of_another_commit(project: GitProject) -> None:
    cheat = f"import sys; sys.path.insert(0, {str(project.folder)!r})\n" + ANSWER
    project.commit("One", thing="ANSWER = 1\n", benchmarks__suite=cheat)

    outcome = measured(project)["suite.track_answer"]

    assert outcome.status is Status.FAILED
    assert outcome.reason == (
        "the code measured is not this commit's: module thing was imported from "
        f"{project.folder / 'thing.py'}"
    )


def test_refuses_foreign_code_that_is_imported_only_while_measuring(project: GitProject) -> None:
    late = f"""
        import sys
        def track_answer():
            sys.path.insert(0, {str(project.folder)!r})
            import thing
            return thing.ANSWER
    """
    project.commit("One", thing="ANSWER = 1\n", benchmarks__suite=late)

    outcome = measured(project)["suite.track_answer"]

    assert outcome.status is Status.FAILED
    assert outcome.reason.startswith(
        "the code measured is not this commit's: module thing was imported from "
    )


def test_a_module_that_does_not_import_costs_only_its_own_benchmarks(project: GitProject) -> None:
    project.commit("One", thing="ANSWER = 1\n")
    project.commit(
        "Two",
        thing="ANSWER = 2\nEXTRA = 3\n",
        benchmarks__suite=ANSWER,
        benchmarks__extra="from thing import EXTRA\ndef track_extra(): return EXTRA\n",
    )

    with a_runner(project) as runner:
        commits = runner.repository.list_first_parent_commits("HEAD")
        runner.prepare_commits(commits)
        cells = expand_cells(runner.discover_suite(commits[1].sha).benchmarks.values(), "", 10)
        old = {o.cell.name: o for o, _ in runner.visit_commit(commits[0].sha, cells)}

    assert old["suite.track_answer"].metrics[0].samples == (1.0,)
    assert old["extra.track_extra"].reason.startswith(
        "module benchmarks.extra of the suite does not import: ImportError: cannot import name "
        "'EXTRA' from 'thing'"
    )


def test_a_commit_that_fails_to_build_is_a_result_with_its_log(project: GitProject) -> None:
    project.commit("One", thing="ANSWER = 1\n", benchmarks__suite=ANSWER)
    broken = EnvironmentTable(build=("python -c \"print('compiling'); raise SystemExit('no compiler')\"",))

    with a_runner(project, Settings(environment=broken)) as runner:
        commit = runner.repository.list_commit_or_range("HEAD")[0]
        messages: list[str] = []
        runner.prepare_commits([commit], lambda _, failure: messages.append(failure))
        cell = Cell("suite.track_answer", None, (), 10.0, None, 600.0)
        ((outcome, _),) = runner.visit_commit(commit.sha, [cell])

    assert messages == ["build failed with code 1: no compiler"]
    assert (outcome.status, outcome.reason) == (Status.FAILED, "build failed with code 1: no compiler")
    assert outcome.stderr_tail == "compiling\nno compiler\n"


def test_builds_into_a_folder_of_the_commit_and_only_once(project: GitProject) -> None:
    project.commit(
        "One",
        thing="ANSWER = 1\n",
        benchmarks__suite="import built\ndef track_answer(): return built.ANSWER\n",
    )
    copy = "cp thing.py {target}/built.py"
    count = "python -c \"open('{conf_dir}/times', 'a').write('x')\""
    settings = Settings(environment=EnvironmentTable(build=(copy, count)))

    for _ in range(2):
        with a_runner(project, settings) as runner:
            commit = runner.repository.list_commit_or_range("HEAD")[0]
            runner.prepare_commits([commit])
            cells = expand_cells(runner.discover_suite(commit.sha).benchmarks.values(), "", 10)
            ((outcome, _),) = runner.visit_commit(commit.sha, cells)

    assert outcome.metrics[0].samples == (1.0,)
    assert (project.folder / "times").read_text() == "x"


def test_imports_from_src_where_packages_live_there(tmp_path: Path) -> None:
    (tmp_path / "src" / "thing").mkdir(parents=True)
    assert list_import_paths(tmp_path, ()) == (str(tmp_path),)

    (tmp_path / "src" / "thing" / "__init__.py").touch()

    assert list_import_paths(tmp_path, ()) == (str(tmp_path / "src"),)
    assert list_import_paths(tmp_path, ("lib",)) == (str(tmp_path / "lib"),)


def test_measures_with_the_commits_own_suite_where_that_is_configured(project: GitProject) -> None:
    project.commit("No suite yet", thing="ANSWER = 1\n")
    project.commit("A suite", benchmarks__suite="def track_answer(): return 10\n")
    project.commit("A changed suite", benchmarks__suite="def track_answer(): return 20\n")
    settings = Settings(suite=SuiteTable(source="commit"))

    with a_runner(project, settings) as runner:
        commits = runner.repository.list_first_parent_commits("HEAD")
        runner.prepare_commits(commits)
        cells = expand_cells(runner.discover_suite(commits[2].sha).benchmarks.values(), "", 10)
        none, ten, twenty = (next(runner.visit_commit(c.sha, cells))[0] for c in commits)

    assert none.status is Status.FAILED
    assert none.reason.startswith("there is no suite folder ")
    assert [o.metrics[0].samples for o in (ten, twenty)] == [(10.0,), (20.0,)]
