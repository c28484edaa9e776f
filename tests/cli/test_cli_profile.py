"""``perfci profile``: whole texts, and a real profile in a real repository."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest
from cli.test_cli_interrupts import start, wait_for

from perfci.cli import run_cli
from perfci.cli.profiles import profile as verb
from perfci.measure.profiles.profile_cells_to_files import (
    ProfiledCell,
    ProfileReport,
    ProfileRow,
    profile_folder_name,
)
from perfci.model import Status
from perfci.runner.suite_cells import Cell
from tests.support.git_project import GitProject
from tools.torture_runs import list_surviving_processes

NET = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(50, 64)
            self.head = nn.Linear(64, 50)

        def forward(self, tokens):
            x = self.tokens(tokens)
            scores = x @ x.transpose(1, 2)
            return self.head(scores.softmax(-1) @ x)
"""

SUITE = """
    import torch
    from torch import nn
    from perfci.bench import ModelBench
    from net import Net

    class Model(ModelBench):
        params = {"batch": [4, 8]}

        def build(self, p):
            return Net()

        def batch(self, p, i):
            return torch.zeros(p["batch"], 128, dtype=torch.long)

        def loss(self, model, batch):
            return nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())

    class Sort:
        def setup(self):
            self.values = list(range(20_000, 0, -1))

        def time_sort(self):
            assert self.values[0] == 20_000, "it was not set up anew"
            self.values.sort()
            return sum(value * value for value in self.values)

    def timeraw_json():
        return "import json"

    def time_broken():
        raise ValueError("there is no such batch")
"""


def a_cell(name: str = "train.GPT.measure_training", *values: str) -> Cell:
    parameters = tuple((f"param{index}", value) for index, value in enumerate(values))
    return Cell(name, 0 if values else None, parameters, 60.0, None, 600.0)


ON_A_GPU = ProfileReport(
    device="NVIDIA H100",
    kind="cuda",
    calls=3,
    seconds=0.040,
    in_operators=0.455,
    busy=0.9,
    phases=(
        ProfileRow("(waiting for the device)", 0.022, 0.55, 1),
        ProfileRow("forward", 0.010, 0.25, 1),
        ProfileRow("backward", 0.008, 0.2, 1),
    ),
    device_phases=(ProfileRow("backward", 0.024, 2 / 3, 800), ProfileRow("forward", 0.012, 1 / 3, 412)),
    kernels=(
        ProfileRow("nvjet_tst_256x128_64x4", 0.030, 0.8333, 48),
        ProfileRow("elementwise_kernel" * 5, 0.006, 0.1667, 1164),
    ),
    operators=(ProfileRow("cudaLaunchKernel", 0.012, 0.6, 1212), ProfileRow("aten::mm", 0.008, 0.4, 96)),
    lines=(
        ProfileRow("gpt/block.py:31: x = x + self.mlp(x)", 0.0123, 0.75, 0),
        ProfileRow(
            "perfci/bench/metric_groups/training_loop.py:62: self._scaler.scale(loss).backward()",
            0.0041,
            0.25,
            0,
        ),
    ),
    missing={},
)

NO_KERNELS = "CPU (AVX512) runs no kernels of its own"
ON_A_CPU = replace(
    ON_A_GPU,
    device="CPU (AVX512)",
    kind="cpu",
    calls=1,
    busy=None,
    phases=(),
    device_phases=(),
    kernels=(),
    missing=dict.fromkeys(("busy", "device_phases", "kernels"), NO_KERNELS),
)


def read(profiled: ProfiledCell) -> str:
    return "\n".join(verb.format_profile(profiled, verb.ProfileCommandLine("", None, False)))


# ------------------------------------------------------------------ what a person reads


def test_formats_a_gpu_profile(working_folder: Path) -> None:
    cell = a_cell("train.GPT.measure_training", "8", "'bf16'")

    text = read(ProfiledCell(cell, Status.OK, "", working_folder / "out" / "GPT-8-bf16", ON_A_GPU))

    assert text == (Path(__file__).parent / "profile_of_a_gpu.txt").read_text()


def test_formats_a_cpu_profile_and_names_what_is_missing(working_folder: Path) -> None:
    text = read(ProfiledCell(a_cell(), Status.OK, "", working_folder / "out" / "GPT", ON_A_CPU))

    assert text == (Path(__file__).parent / "profile_of_a_cpu.txt").read_text()


def test_the_nsys_command_repeats_the_options(working_folder: Path) -> None:
    cell = a_cell("train.GPT.measure_training", "8", "'bf16'")

    words = shlex.split(
        verb.format_nsys_command(
            cell, working_folder / "out", verb.ProfileCommandLine("4c1be0a9d2", Path("my suite"), True)
        )
    )

    again = words[words.index("perfci") :]
    assert again[:4] == ["perfci", "profile", "4c1be0a9d2", "--bench"]
    assert re.search(again[4], cell.name)
    assert again[5:] == ["--suite", "my suite", "--smoke", "--only-ranges"]


@pytest.mark.parametrize(
    ("status", "reason", "sentence"),
    [
        (Status.SKIPPED, "no GPU", "train.GPT.measure_training: not profiled: no GPU\n"),
        (
            Status.TIMEOUT,
            "did not end within 60 s",
            "train.GPT.measure_training: timeout: did not end within 60 s\n",
        ),
        (Status.OK, "", "train.GPT.measure_training: ran in NVTX ranges\n"),
    ],
)
def test_explains_a_cell_without_a_profile(status: Status, reason: str, sentence: str) -> None:
    assert read(ProfiledCell(a_cell(), status, reason)) == sentence


@pytest.mark.parametrize(
    ("statuses", "code"),
    [("ok skipped", 0), ("ok failed", 1), ("ok oom skipped", 1), ("skipped", 4), ("failed timeout", 4)],
)
def test_the_exit_code_tells_whether_all_were_profiled(statuses: str, code: int) -> None:
    assert (
        verb.profile_exit_code([ProfiledCell(a_cell(), Status(status), "") for status in statuses.split()])
        == code
    )


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        ((), "train.GPT.measure_training"),
        (("8", "'bf16'", "0.5"), "train.GPT.measure_training-8-bf16-0.5"),
        (("'a/b'",), "train.GPT.measure_training-a_b-"),
        (("'../../etc'",), "train.GPT.measure_training-.._.._etc-"),
    ],
)
def test_the_folder_of_a_profile_contains_the_cell_name(values: tuple[str, ...], folder: str) -> None:
    name = profile_folder_name(a_cell("train.GPT.measure_training", *values))

    assert (
        name == folder if not folder.endswith("-") else re.fullmatch(re.escape(folder) + "[0-9a-f]{8}", name)
    )


def test_two_cells_never_share_a_folder() -> None:
    values = ("'a/b'", "'a b'", "'a_b'", "'a-b'", "'x" * 200, "'x" * 201)

    assert len({profile_folder_name(a_cell("time_it", value)) for value in values}) == 6


# ------------------------------------------------------------------ a real one


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    project = GitProject(working_folder)
    project.commit("A net", net=NET, benchmarks__suite=SUITE)
    return project


def sentences(text: str) -> list[str]:
    """What does not depend on the clock or the machine."""
    messages = [line for line in text.splitlines() if re.search(": | opens in |no phases marked", line)]
    return [line for line in messages if not line.startswith("kernels: ") and not re.search(r"\d %", line)]


def test_profiles_a_step_and_a_timed_function_in_the_measured_environment(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_cli(["profile", "--bench", r"measure_(training|numerics)\(4|time", "--json", "result.json"])

    out, err = capsys.readouterr()
    short = project.git("rev-parse", "HEAD")[:10]
    folder = f".perfci/profiles/{short}"
    opens = (
        "opens in https://ui.perfetto.dev or chrome://tracing; profile.json beside it holds the full tables"
    )
    fields = {profile["cell"]: profile for profile in json.loads(Path("result.json").read_text())["profiles"]}
    assert code == 1
    assert err == (
        "suite.Model: no generation, stream_counts or stages metrics, because it defines no stream\n"
        f"profiling 5 cells at {short} A net\n"
    )
    assert sentences(out) == [
        "suite.Model.measure_numerics(4): not profiled: the group numerics cannot be profiled; "
        "profile training or generation",
        f"{folder}/suite.Model.measure_training-4/trace.json {opens}",
        "no phases marked (the training and generation of a ModelBench mark some)",
        "operators: none",
        f"{folder}/suite.Sort.time_sort/trace.json {opens}",
        "suite.timeraw_json: not profiled: timeraw_* gives code for a process of its own, which is not "
        "profiled",
        "suite.time_broken: failed: ValueError: there is no such batch",
    ]
    assert {name: item["status"] for name, item in fields.items()} == {
        "suite.Model.measure_numerics(4)": "skipped",
        "suite.Model.measure_training(4)": "ok",
        "suite.Sort.time_sort": "ok",
        "suite.time_broken": "failed",
        "suite.timeraw_json": "skipped",
    }
    training, sort = (
        fields[name]["tables"] for name in ("suite.Model.measure_training(4)", "suite.Sort.time_sort")
    )
    lines = {row["name"].split(":")[0] for row in training["lines"]}
    assert {"net.py", "perfci/bench/metric_groups/training_loop.py"} <= lines
    assert sum(row["share"] for row in training["phases"]) == pytest.approx(1)
    assert re.match(r"benchmarks/suite.py:\d+: return sum\(value \* value", sort["lines"][0]["name"])
    assert sorted(path.name for path in Path(folder).iterdir()) == [
        "suite.Model.measure_training-4",
        "suite.Sort.time_sort",
    ]
    assert "perfci: forward" in Path(fields["suite.Model.measure_training(4)"]["trace"]).read_text()
    assert not Path(".perfci/perfci.db").exists()


@pytest.fixture
def small(working_folder: Path) -> GitProject:
    project = GitProject(working_folder)
    project.commit(
        "Begin", benchmarks__suite="def time_nothing(): sum(range(1000))\ndef time_broken(): nothing()\n"
    )
    return project


def test_the_working_tree_is_profiled_unless_a_commit_is_named(
    small: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    small.write("benchmarks/suite.py", "def time_something():\n    sum(range(1000))\n")

    assert run_cli(["profile", "--out", "out", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["commit"]["dirty"] is True
    assert document["profiles"][0]["trace"] == str(
        small.folder / "out" / "suite.time_something" / "trace.json"
    )


def test_a_failed_profile_does_not_show_an_older_one(small: GitProject) -> None:
    small.write("perfci.toml", '[run]\nlaunch = "spawn"\n')
    old = small.folder / "out" / "suite.time_broken" / "trace.json"
    old.parent.mkdir(parents=True)
    old.touch()

    assert run_cli(["profile", "HEAD", "--out", "out"]) == 1

    assert [path.parent.name for path in (small.folder / "out").rglob("trace.json")] == ["suite.time_nothing"]


def test_ranges_for_nsys_need_a_gpu(small: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    code = run_cli(["profile", "--bench", "nothing", "--only-ranges"])

    assert code == 4
    assert capsys.readouterr().out == (
        "suite.time_nothing: not profiled: it did not use CUDA, so there are no ranges that nsys could "
        "show\n\n"
    )
    assert not Path(".perfci/profiles").exists()


def test_rejects_many_cells_without_all(small: GitProject, capsys: pytest.CaptureFixture[str]) -> None:
    many = "def time_it(k): pass\ntime_it.params = [['a', *range(10)]]\n"
    small.write("benchmarks/suite.py", many)

    code = run_cli(["profile", "--bench", "time"])

    assert code == 2
    assert capsys.readouterr().err == (
        "perfci: --bench 'time' matches 11 cells, and each would be profiled; narrow it to 10 or fewer, "
        "for example "
        r"--bench '^suite\.time_it\(.a.\)$', or give --all" + "\n"
    )


def test_rejects_an_unwritable_folder_before_profiling(
    small: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    (small.folder / "taken").touch()

    code = run_cli(["profile", "--out", "taken"])

    assert code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "perfci: taken cannot be written: File exists; name another folder with --out"
    )


def test_names_what_to_install_in_an_environment_without_perfci(
    small: GitProject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = a_python_with_asv_only(tmp_path)
    small.write("perfci.toml", f'[environment]\npython = "{python}"\n')

    code = run_cli(["profile", "--bench", "nothing"])

    assert code == 4
    assert capsys.readouterr().out == (
        "suite.time_nothing: failed: perfci is not installed in the environment that measures, and it is "
        "what "
        f"profiles; install it there: {python} -m pip install 'perfci[torch]'\n\n"
    )


def a_python_with_asv_only(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    packages, ours = (
        next((folder / "venv" / "lib").iterdir()) / "site-packages",
        Path(sysconfig.get_path("purelib")),
    )
    for name in ("asv_runner", "importlib_metadata", "zipp"):
        if (ours / name).exists():
            (packages / name).symlink_to(ours / name)
    for info in [*ours.glob("asv_runner-*"), *ours.glob("importlib_metadata-*")]:
        (packages / info.name).symlink_to(info)
    return folder / "venv" / "bin" / "python"


def test_ctrl_c_ends_it_and_leaves_no_process_behind(working_folder: Path) -> None:
    GitProject(working_folder).commit(
        "Slow",
        benchmarks__suite="""
            import os, time
            def time_slow():
                open(os.environ["STARTED"], "a").write("x")
                time.sleep(60)
        """,
    )
    going = start(working_folder, "profile")
    wait_for(working_folder / "started")

    going.send_signal(signal.SIGINT)
    _, err = going.communicate(timeout=90)

    assert going.returncode == 130
    assert err.endswith("interrupted; the profiles shown are complete\n")
    assert list_surviving_processes(working_folder) == []
