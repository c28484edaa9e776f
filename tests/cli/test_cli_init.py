"""`perfci init` in a repository that holds nothing but a torch module: what it writes works with no edit."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfci.cli import init, run_cli
from perfci.scaffold.starter_files import find_torch_model, render_starter_files
from tests.support.git_project import GitProject

NET = """
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.layer = nn.Linear(width, width)
        def forward(self, x):
            return torch.relu(self.layer(x)) + x

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(50, 32)
            self.blocks = nn.Sequential(Block(), Block())
            self.head = nn.Linear(32, 50)
        def forward(self, tokens):
            return self.head(self.blocks(self.tokens(tokens)))
"""


HASTY = ("--smoke", "--budget", "1s")
"""A comparison as short as one can be: that it is told and that nothing has to be edited is what counts here.
"""


@pytest.mark.slow
def test_init_run_and_compare_need_no_edit(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = GitProject(working_folder)
    project.commit("A network", net=NET)
    project.commit("Describe it", net=NET + "    # A network.\n")

    codes = [
        run_cli(["init"]),
        run_cli(["run", "--smoke", "--rounds", "1"]),
        run_cli(["compare", "HEAD~1", *HASTY]),
    ]

    out, err = capsys.readouterr()
    assert codes == [0, 0, 0]
    assert "not available here: max_error, max_relative_error: no reference was given" in out
    assert err.count("no reference was given") == 1  # by compare, which has no such table
    assert "3 processes measured: 3 ok" in out
    assert "starter.NetBench.measure_training · cpu_step_time" in out
    assert "starter.NetBench.measure_step_counts · peak_tensor_bytes" in out
    assert "starter.NetBench.measure_step_counts · fake_peak_bytes" in out
    assert "AssertionError" not in out


def test_init_never_overwrites(
    working_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    GitProject(working_folder).commit("First", net=NET)
    monkeypatch.setattr(init, "read_direct_url", lambda: None)  # as if from an index
    (working_folder / "perfci.toml").write_text("[run]\nrounds = 2\n")

    assert run_cli(["init"]) == 0

    assert (working_folder / "perfci.toml").read_text() == "[run]\nrounds = 2\n"
    assert capsys.readouterr().out.splitlines() == [
        "kept    perfci.toml (it was there)",
        "wrote   benchmarks/__init__.py",
        "wrote   benchmarks/starter.py",
        "wrote   .github/workflows/perf.yml",
        "wrote   .github/workflows/perf-report.yml",
        "",
        "perf.yml takes pushes to main and master for the history: the default branch of origin is "
        "unknown in this clone.",
        "If it is another one, add it after `branches:`.",
        "",
        "next:",
        "  perfci run --smoke",
    ]


def test_the_written_configuration_names_the_page_of_its_keys(working_folder: Path) -> None:
    GitProject(working_folder).commit("First")

    assert run_cli(["init"]) == 0

    (comment,) = (
        line for line in (working_folder / "perfci.toml").read_text().splitlines() if line.startswith("#")
    )
    page = comment.split()[2]
    assert page == "docs/settings.md"
    assert (Path(__file__).parents[2] / page).is_file()


def test_init_gives_no_branch_hint_for_an_existing_workflow(
    working_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    GitProject(working_folder).commit("First", net=NET)
    run_cli(["init"])
    capsys.readouterr()

    assert run_cli(["init"]) == 0

    assert "branches" not in capsys.readouterr().out


def test_picks_the_module_that_no_other_is_built_from(working_folder: Path) -> None:
    project = GitProject(working_folder)
    project.write("src/package/net.py", NET)
    project.write("tests/test_net.py", "from torch import nn\nclass Fake(nn.Module): pass\n")

    model = find_torch_model(working_folder)

    assert model is not None
    assert (model.module, model.name) == ("package.net", "Net")


def test_ignores_modules_that_need_arguments(working_folder: Path) -> None:
    project = GitProject(working_folder)
    project.write(
        "net.py", "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, width): pass\n"
    )
    project.write("broken.py", "def (")

    assert find_torch_model(working_folder) is None
    assert "measure yours here" in render_starter_files(working_folder, "here")["benchmarks/starter.py"]


@pytest.mark.slow
def test_the_example_suite_can_be_measured(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    GitProject(working_folder).commit("Nothing to measure yet", thing="X = 1\n")

    codes = [run_cli(["init"]), run_cli(["run", "--smoke", "--rounds", "1"])]

    assert codes == [0, 0]
    assert "3 processes measured: 3 ok" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("branch", "listed"),
    [("release/2.x", ["release/2.x"]), ("", ["main", "master"]), ("a+b", ["main", "master"])],
)
def test_the_workflow_measures_the_default_branch(
    working_folder: Path, branch: str, listed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    yaml = pytest.importorskip("yaml")
    project = GitProject(working_folder)
    project.commit("First", net=NET)
    if branch:
        project.git("update-ref", f"refs/remotes/origin/{branch}", "HEAD")
        project.git("symbolic-ref", "refs/remotes/origin/HEAD", f"refs/remotes/origin/{branch}")

    run_cli(["init"])

    workflow = yaml.load((working_folder / ".github" / "workflows" / "perf.yml").read_text(), yaml.BaseLoader)
    assert workflow["on"]["push"]["branches"] == listed
    assert ("takes pushes to main and master" in capsys.readouterr().out) == (listed == ["main", "master"])


def test_the_workflow_stores_an_aa_run_every_night(working_folder: Path) -> None:
    yaml = pytest.importorskip("yaml")

    workflow = yaml.safe_load(render_starter_files(working_folder, "here")[".github/workflows/perf.yml"])
    pull_request, night = (workflow["jobs"][name] for name in ("compare", "aa"))

    cached_paths = [
        step["with"]["path"] for job in (pull_request, night) for step in job["steps"] if "cache" in str(step)
    ]

    assert (pull_request["if"], night["if"]) == (
        "github.event_name == 'pull_request'",
        "github.event_name == 'schedule'",
    )
    assert cached_paths == [".perfci/perfci.db", ".perfci/perfci.db"]
    assert "perfci compare HEAD HEAD --smoke" in night["steps"][-2]["run"]


def test_init_names_machines_of_ones_own(working_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    GitProject(working_folder).commit("First", net=NET)

    codes = [run_cli(["init", "--runner", label]) for label in ("gpu-h100", "gpu, x")]

    out, err = capsys.readouterr()
    workflow = (working_folder / ".github" / "workflows" / "perf.yml").read_text()
    assert codes == [0, 2]
    assert "runners with the labels gpu-h100 and pull-requests, everything else" in out
    assert "runs-on: [self-hosted, gpu-h100, pull-requests]" in workflow
    assert "'gpu, x' is no label of a runner" in err
