"""Models given by dotted names in perfci.toml, in a repository that holds nothing but a torch module."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from pathlib import Path

import pytest

from perfci.cli import run_cli
from perfci.config import load_config
from perfci.measure.open_measurement_session import create_suite_runner
from perfci.runner.git_repository import GitRepository
from tests.support.git_project import GitProject

NET = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, layers={layers}):
            super().__init__()
            self.tokens = nn.Embedding(50, 32)
            self.layers = nn.Sequential(*(nn.Linear(32, 32) for _ in range(layers)))
            self.head = nn.Linear(32, 50)

        def forward(self, tokens):
            return self.head(self.layers(self.tokens(tokens)))

    def build(p, *, device):
        torch.manual_seed(0)
        return Net().to(device)

    def batch(p, i, device="cpu"):
        generator = torch.Generator().manual_seed(i)
        return torch.randint(50, (p["batch"], 16), generator=generator).to(device)

    class Losses:
        @staticmethod
        def loss(model, batch):
            return nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())

    def stream(model, p):
        tokens = torch.zeros(p["batch"], 1, dtype=torch.long)
        for _ in range(8):
            tokens = model(tokens)[:, -1:].argmax(-1)
            yield tokens
"""

TABLE = """
    [[model]]
    name = "gpt"
    build = "mypkg.net:build"
    batch = "mypkg.net:batch"
    loss = "mypkg.net:Losses.loss"
    params = { batch = [1, 8] }
"""

COUNTS = "measure_step_counts"


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    project = GitProject(working_folder)
    project.commit("Nothing")
    project.commit(
        "A network", mypkg__net=NET.format(layers=1), **{"mypkg/__init__.py": "", "perfci.toml": TABLE}
    )
    return project


def exported(capsys: pytest.CaptureFixture[str]) -> list[dict[str, str]]:
    capsys.readouterr()
    assert run_cli(["export"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def versions(project: GitProject, table: str) -> dict[str, str]:
    """The version of every benchmark that a table gives."""
    project.write("perfci.toml", table)
    repository = GitRepository(project.folder)
    config = load_config(repository.root, {})
    with create_suite_runner(repository, config, None, smoke=True) as runner:
        commit = repository.list_commit_or_range("HEAD")[0]
        runner.prepare_commits([commit])
        return {name: result.version for name, result in runner.discover_suite(commit.sha).benchmarks.items()}


@pytest.mark.slow
def test_measures_a_model_table_like_a_suite(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    project.commit("Deeper", mypkg__net=NET.format(layers=3))

    requests = ["--smoke", "--rounds", "1", "--no-confirm", "--bench", COUNTS + ".8", "--json"]
    code = run_cli(["run", "HEAD~2..HEAD", *requests])

    verdicts = json.loads(capsys.readouterr().out)["verdicts"]
    worse = {verdict["series"]["metric"]["name"] for verdict in verdicts if verdict["kind"] == "regression"}
    assert code == 0
    assert {verdict["series"]["benchmark"]["name"] for verdict in verdicts} == {f"perfci_models.gpt.{COUNTS}"}
    assert {"flops", "parameter_bytes"} <= worse
    assert not (project.folder / "benchmarks").exists()


@pytest.mark.slow
def test_an_unresolvable_dotted_name_fails_only_its_own_cells(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("perfci.toml", TABLE + '    stream = "mypkg.net:streem"\n')

    code = run_cli(["run", "--smoke", "--rounds", "1", "--bench", f"({COUNTS}|measure_stream_counts)\\(1"])

    err = capsys.readouterr().err
    ended = {(row["benchmark"], row["status"]) for row in exported(capsys) if row["status"] != "skipped"}
    assert code == 1
    assert (
        "failed: LookupError: model 'gpt' in perfci.toml has stream = 'mypkg.net:streem', but mypkg.net"
        in err
    )
    assert ended == {
        (f"perfci_models.gpt.{COUNTS}", "ok"),
        ("perfci_models.gpt.measure_stream_counts", "failed"),
    }


@pytest.mark.slow
def test_the_benchmark_version_follows_the_model_table(project: GitProject) -> None:
    before = versions(project, TABLE)

    other = versions(project, TABLE.replace("Losses.loss", "Losses.other"))
    more_cells = versions(project, TABLE.replace("[1, 8]", "[1, 8, 64]"))

    assert set(before) == {
        f"perfci_models.gpt.measure_{group}"
        for group in ("training", "step_counts", "numerics", "cold_start")
    }
    assert not set(before.values()) & set(other.values())
    assert more_cells == before


@pytest.mark.slow
def test_model_tables_extend_an_existing_suite_without_touching_its_folder(project: GitProject) -> None:
    project.write("benchmarks/suite.py", "def track_one(): return 1\n")

    names = set(versions(project, TABLE))

    assert {"suite.track_one", f"perfci_models.gpt.{COUNTS}"} < names
    assert [path.name for path in (project.folder / "benchmarks").iterdir()] == ["suite.py"]


def test_an_explicit_suite_is_measured_without_model_tables(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("other/suite.py", "def track_one(): return 1\n")
    project.write("perfci.toml", "[environment]\npreload = []\n" + textwrap.dedent(TABLE))

    assert run_cli(["run", "--suite", "other", "--rounds", "1"]) == 0

    assert {row["benchmark"] for row in exported(capsys)} == {"suite.track_one"}


def test_model_tables_extend_the_suite_of_each_commit(project: GitProject) -> None:
    project.write("perfci.toml", '[suite]\nsource = "commit"\n' + TABLE)
    repository = GitRepository(project.folder)

    with create_suite_runner(repository, load_config(repository.root, {}), None, smoke=True) as runner:
        commit = repository.list_commit_or_range("HEAD")[0]
        failures: list[str] = []
        runner.prepare_commits([commit], lambda _, failure: failures.append(failure))

    assert failures == [""]


def test_accepts_the_documented_model_table(project: GitProject) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "adopting.md").read_text()
    project.write("perfci.toml", page.partition("```toml\n")[2].partition("```")[0])

    (model,) = load_config(project.folder, {}).settings.model

    assert model.hook_dotted_names == {
        "build": "mypkg.models:build",
        "batch": "mypkg.data:batch",
        "loss": "mypkg.train:loss",
        "stream": "mypkg.serve:stream",
    }
    assert model.options_without_hooks == {
        "params": {"batch": [1, 8]},
        "sla": {"e2el_p90": 2.0},
        "requests": 64,
    }


WRONG = {
    ("build =", "biuld ="): "unknown key 'model.0.biuld'; did you mean 'build'?",
    ("[[model]]", "[[models]]"): "unknown key 'models'; did you mean 'model'?",
    ('name = "gpt"', ""): "perfci.toml: model.0.name is missing",
    (
        '"gpt"',
        '"gpt-2"',
    ): "model.0.name: a Python name that begins with a letter was expected, such as 'gpt_small', "
    "found 'gpt-2'",
    ("net:build", "net.build"): "model.0.build: a function's dotted name was expected, such as "
    "'package.module:function', found 'mypkg.net.build'",
    ("[1, 8]", "[]"): "model.0.params.batch: ",
    ("[1, 8]", "[nan]"): "model.0.params.batch.0",
    (
        "params =",
        "sla = { e2el_p90 = -1.0 }\nparams =",
    ): "model.0.sla.e2el_p90: Input should be greater than 0",
}


@pytest.mark.parametrize(("change", "sentence"), WRONG.items())
def test_rejects_an_invalid_model_table(
    project: GitProject, capsys: pytest.CaptureFixture[str], change: tuple[str, str], sentence: str
) -> None:
    project.write("perfci.toml", TABLE.replace(*change))

    assert run_cli(["run"]) == 2
    assert sentence in capsys.readouterr().err


def test_rejects_two_models_of_the_same_name(project: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    project.write("perfci.toml", TABLE + TABLE)

    assert run_cli(["run"]) == 2
    assert "two [[model]] tables are called 'gpt'; every model needs its own name" in capsys.readouterr().err


def test_rejects_a_model_that_would_replace_a_suite_module(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write("benchmarks/perfci_models.py", "def track_one(): return 1\n")

    assert run_cli(["run"]) == 2
    assert (
        "has a module perfci_models.py, where perfci writes the [[model]] tables" in capsys.readouterr().err
    )
