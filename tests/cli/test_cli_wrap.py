"""``perfci wrap`` of scripts that know nothing of perfci, with real processes and a real database."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from cli.test_cli_interrupts import start, wait_for

from perfci.cli import run_cli
from perfci.cli.wrap import SNIPPET
from perfci.runner.locks import machine_lock
from perfci.store import open_store
from perfci_web import create_app
from tests.support.git_project import GitProject
from tools.torture_runs import list_surviving_processes

pytestmark = pytest.mark.slow

TRAIN = """
    import json, os
    WARM, STEP = 0.9, {step}
    with open(os.environ["PERFCI_STEPS"], "a") as steps:
        for step in range(20):
            step_time = WARM if step < 2 else STEP * (1 + step % 3 / 100)
            line = {{"step": step, "step_time": step_time, "tokens": 512,
                    "data_time": STEP / 4, "loss": 3 - step / 10, "memory": 2**30 + step}}
            print(json.dumps(line), file=steps)
    print("trained")
"""


@pytest.fixture
def project(working_folder: Path) -> GitProject:
    project = GitProject(working_folder)
    project.commit("Train", train=TRAIN.format(step=0.1))
    return project


def wrap(*arguments: str) -> int:
    return run_cli(["wrap", *arguments])


def script(project: GitProject, text: str) -> list[str]:
    """Commit a script and give the command that runs it."""
    project.commit("Script", script=text)
    return ["--", sys.executable, "script.py"]


def stored(project: GitProject, columns: str, where: str = "1") -> list[tuple]:
    query = (
        f"select {columns} from processes p join results r on p.result_id = r.id join series s on "
        "r.series_id = s.id "
        "join runs u on r.run_id = u.id join commits c on u.commit_id = c.id "
        f"join benchmarks b on s.benchmark_id = b.id where {where} order by p.id"
    )
    with sqlite3.connect(project.folder / ".perfci" / "perfci.db") as database:
        return database.execute(query).fetchall()


TRAINED = ["--", sys.executable, "train.py"]


def test_reports_step_times_and_where_they_are_stored(
    project: GitProject, capfd: pytest.CaptureFixture[str]
) -> None:
    assert wrap(*TRAINED) == 0

    out, err = capfd.readouterr()
    sha = project.git("rev-parse", "HEAD")
    shown = [line for line in out.splitlines() if not line.startswith(("  wall", "  peak_rss"))]
    assert shown == [
        "trained",
        f"wrap.train at {sha[:10]} Train",
        "1 process, 20 steps, 2 of them dropped as warm-up (leading steps are warm-up while they stand "
        "more than 3 "
        "sigma above the later half, at most half of them, none of fewer than 8)",
        "",
        "  step_time          101.0 ms",
        "  data_time          25.00 ms",
        "  data_stall         24.8 %",
        "  peak_memory        1.000 GiB",
        "  tokens_per_s       5,069 tokens/s  (informational, not judged)",
        "  loss_at_last_step  1.100 loss  (informational, not judged)",
        "",
        f"stored in {project.folder}/.perfci/perfci.db; `perfci serve` shows it",
    ]
    assert err.startswith("process 1 of 1: ok, 20 steps in ")


def test_stores_each_repetition_as_a_process_of_one_run(project: GitProject) -> None:
    assert wrap("--repeat", "3", *TRAINED) == 0

    rows = stored(
        project, "p.round, length(p.samples) / 8, p.clock, u.id, c.sha, b.name", "s.metric = 'step_time'"
    )
    sha = project.git("rev-parse", "HEAD")
    assert rows == [(round_number, 18, "wall", 1, sha, "wrap.train") for round_number in range(3)]


def test_stores_the_level_over_all_repetitions(project: GitProject) -> None:
    wrap("--repeat", "3", *TRAINED)

    assert stored(project, "distinct r.level", "s.metric = 'step_time'") == [(0.101,)]


def test_metrics_derived_from_a_judged_one_are_informational(project: GitProject) -> None:
    wrap(*TRAINED)

    informational = {metric for (metric,) in stored(project, "s.metric", "p.clock = 'informational'")}
    assert informational - {"peak_rss"} == {"tokens_per_s", "loss_at_last_step", "wall"}


def test_other_arguments_are_another_series_unless_it_has_a_name(project: GitProject) -> None:
    wrap(*TRAINED, "--batch", "8")
    wrap("--name", "gpt", *TRAINED, "--batch", "8")

    names = stored(project, "b.name, s.parameters", "s.metric = 'step_time'")
    assert names == [("wrap.train", '[["arguments","--batch 8"]]'), ("gpt", "[]")]


def test_options_of_the_script_need_no_double_dash(project: GitProject) -> None:
    assert wrap(sys.executable, "train.py", "--json", "--repeat", "7") == 0

    assert stored(project, "s.parameters", "s.metric = 'wall'") == [('[["arguments","--json --repeat 7"]]',)]


def test_a_changed_working_tree_is_stored_as_such(
    project: GitProject, capfd: pytest.CaptureFixture[str]
) -> None:
    project.write("train.py", TRAIN.format(step=0.2))

    assert wrap(*TRAINED) == 0

    assert "stored as uncommitted changes, which no history takes in" in capfd.readouterr().out
    assert stored(project, "distinct c.dirty") == [(1,)]


def test_the_suggested_snippet_works_unchanged(
    project: GitProject, capfd: pytest.CaptureFixture[str]
) -> None:
    silent = script(project, "for step in range(3): pass\n")
    assert wrap(*silent) == 4
    assert capfd.readouterr().err.endswith(
        "perfci: no step was written to the file that PERFCI_STEPS names, so nothing was measured; "
        f"add these three lines to the script:\n\n{SNIPPET}\n"
    )

    imports, opened, result = SNIPPET.splitlines()
    talking = script(project, "\n".join([imports, opened, "for step in range(3):", f"    {result}"]))
    alone = subprocess.run(talking[1:], cwd=project.folder)

    assert (wrap(*talking), alone.returncode) == (0, 0)
    assert stored(project, "length(p.samples) / 8", "s.metric = 'step_time'") == [(2,)]


def test_the_documentation_shows_the_suggested_snippet() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "adopting.md").read_text()

    assert f"```text\n{SNIPPET}\n```" in page


def test_steps_without_a_time_are_not_measured(
    project: GitProject, capfd: pytest.CaptureFixture[str]
) -> None:
    once = script(
        project, "import os; open(os.environ['PERFCI_STEPS'], 'w').write('{\"step\": 1, \"t\": 1}')"
    )

    assert wrap(*once) == 4
    assert "none of the 1 step has a time, so nothing was measured" in capfd.readouterr().err


def test_stores_the_steps_of_a_failed_script(project: GitProject, capfd: pytest.CaptureFixture[str]) -> None:
    failing = script(project, TRAIN.format(step=0.1) + "    raise SystemExit(3)\n")

    assert wrap("--repeat", "2", *failing) == 1

    rows = stored(project, "p.status, p.reason, p.exit_code, length(p.samples) / 8", "s.metric = 'step_time'")
    assert rows == [("failed", "the script exited with code 3", 3, 18)]
    assert "process 1 of 2: failed: the script exited with code 3, 20 steps" in capfd.readouterr().err


def test_stores_a_script_that_failed_before_its_first_step(project: GitProject) -> None:
    failing = script(project, "import os; os.kill(os.getpid(), 11)")

    assert wrap(*failing) == 1

    rows = stored(project, "s.metric, p.status, p.reason, p.exit_code")
    assert rows == [("step_time", "crashed", "the script was ended by signal 11 (Segmentation fault)", -11)]


def test_a_loss_of_nan_fails_the_run(project: GitProject, capfd: pytest.CaptureFixture[str]) -> None:
    diverging = script(
        project, TRAIN.format(step=0.1).replace("3 - step / 10", "float('nan') if step > 6 else 1")
    )

    assert wrap(*diverging) == 1

    assert "failed: the loss is nan at step 7 (line 8)" in capfd.readouterr().err
    assert {status for (status,) in stored(project, "p.status")} == {"failed"}


def test_names_the_first_unreadable_lines_and_stores_the_others(
    project: GitProject, capfd: pytest.CaptureFixture[str]
) -> None:
    written = '{"step": 1, "step_time": 1, "lr": 3}\\n' + "oops\\n" * 5 + '{"step": 2, "step_time": 1}\\n'
    mixed = script(project, f"import os; open(os.environ['PERFCI_STEPS'], 'w').write('{written}')")

    assert wrap(*mixed) == 0

    assert capfd.readouterr().err.splitlines()[1:] == [
        *(f"  line {number} is not JSON: oops" for number in (2, 3, 4)),
        "  and 2 more lines like these",
        "  unused fields: lr (perfci reads step, t, step_time, tokens, loss, data_time, memory)",
    ]
    assert stored(project, "length(p.samples) / 8", "s.metric = 'step_time'") == [(2,)]


def test_reads_only_the_lines_that_this_run_appended_to_a_given_file(
    project: GitProject, tmp_path: Path
) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 0, "step_time": 50}\n')

    assert wrap("--steps", str(tmp_path / "log.jsonl"), *TRAINED) == 0

    assert stored(project, "length(p.samples) / 8", "s.metric = 'step_time'") == [(18,)]


def test_keeps_script_output_out_of_json_on_stdout(
    project: GitProject, capfd: pytest.CaptureFixture[str]
) -> None:
    assert wrap("--json", *TRAINED) == 0

    out, err = capfd.readouterr()
    document = json.loads(out)
    assert document["benchmark"] == "wrap.train"
    assert document["metrics"][0] == {
        "metric": "step_time",
        "unit": "seconds",
        "direction": "lower",
        "judged": True,
        "value": pytest.approx(0.101),
        "levels": [pytest.approx(0.101)],
    }
    assert "trained" in err


def test_the_peak_memory_is_that_of_the_script(project: GitProject) -> None:
    large = script(project, TRAIN.format(step=0.1) + "    held = bytearray(700_000_000)\n")

    # a perfci of its own: these tests, which hold torch, may have been larger than the script
    subprocess.run([sys.executable, "-m", "perfci.cli", "wrap", *large], cwd=project.folder, check=True)

    [(packed,)] = stored(project, "p.samples", "s.metric = 'peak_rss'")
    assert 700_000_000 < struct.unpack("<d", packed)[0] < 800_000_000


WRONG = {
    "-- python nowhere.py": "there is no script nowhere.py in {folder}",
    "-- pythn train.py": "there is no program 'pythn' here or on the PATH; write: perfci wrap -- python "
    "train.py",
    "--steps {folder} -- python train.py": "--steps {folder} cannot be written by the script; name a file in "
    "a folder that "
    "is there",
    "--config gone.toml -- python train.py": "there is no configuration file gone.toml",
}


@pytest.mark.parametrize(("arguments", "sentence"), WRONG.items())
def test_explains_invalid_options_and_writes_nothing(
    project: GitProject, capsys: pytest.CaptureFixture[str], arguments: str, sentence: str
) -> None:
    assert wrap(*arguments.format(folder=project.folder).split()) == 2

    assert capsys.readouterr().err.strip() == "perfci: " + sentence.format(folder=project.folder)
    assert not (project.folder / ".perfci" / "perfci.db").exists()


def test_requires_a_command_and_a_printable_name(
    project: GitProject, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wrap() == 2
    assert "Missing argument '-- COMMAND...'" in capsys.readouterr().err
    assert wrap("--name", "a\nb", *TRAINED) == 2
    assert "cannot be a benchmark's name" in capsys.readouterr().err


def test_does_not_measure_beside_another_measurement(
    project: GitProject, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    with machine_lock(tmp_path_factory.getbasetemp() / "machine.lock", owner="somebody"):
        assert wrap("--no-wait", *TRAINED) == 2

    assert "this machine is already being measured by somebody" in capsys.readouterr().err


SLOW = """
    import json, os, time, subprocess
    subprocess.Popen(["sleep", "1000"])
    steps = open(os.environ["PERFCI_STEPS"], "a")
    for step in range(12):
        print(json.dumps({"step": step, "step_time": 0.1, "loss": 1.0}), file=steps, flush=True)
    try:
        open("started", "w").close()
        time.sleep(60)
    except KeyboardInterrupt:
        open("signals", "a").write("once ")
        time.sleep(0.5)
"""


def test_ctrl_c_stops_the_script_and_stores_its_steps(working_folder: Path) -> None:
    project = GitProject(working_folder)
    project.commit("Slow", train=SLOW, **{".gitignore": "started\ntold\n"})
    going = start(working_folder, "wrap", "--repeat", "3", *TRAINED)
    wait_for(working_folder / "started")

    going.send_signal(signal.SIGINT)
    out, err = going.communicate(timeout=90)

    assert (going.returncode, (working_folder / "signals").read_text()) == (130, "once ")
    assert list_surviving_processes(working_folder) == []
    assert "process 1 of 3: interrupted, 12 steps" in err
    assert "step_time  100.0 ms" in out
    assert stored(project, "s.metric, p.status, p.flags") == [("step_time", "ok", '["interrupted"]')]


def test_a_second_ctrl_c_kills_a_script_that_ignores_the_first(working_folder: Path) -> None:
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + textwrap.dedent(SLOW)
    GitProject(working_folder).commit("Stubborn", train=deaf)
    going = start(working_folder, "wrap", *TRAINED)
    wait_for(working_folder / "started")

    going.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        going.wait(timeout=1)
    going.send_signal(signal.SIGINT)
    going.communicate(timeout=90)

    assert going.returncode == 130
    assert list_surviving_processes(working_folder) == []


def test_a_script_does_not_outlive_a_killed_perfci(working_folder: Path) -> None:
    GitProject(working_folder).commit("Slow", train=SLOW.replace('subprocess.Popen(["sleep", "1000"])', ""))
    going = start(working_folder, "wrap", *TRAINED)
    wait_for(working_folder / "started")

    going.kill()
    going.communicate(timeout=90)

    assert list_surviving_processes(working_folder) == []


def test_a_step_in_the_history_is_found_and_shown(
    working_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    project = GitProject(working_folder)
    shas = []
    for number in range(16):
        step = (0.1 if number < 8 else 0.13) * (1 + number % 3 / 1000)
        shas.append(project.commit(f"Commit {number}", train=TRAIN.format(step=step)))
        assert wrap(*TRAINED) == 0

    out = capfd.readouterr().out
    with closing(open_store(f"sqlite:///{working_folder}/.perfci/perfci.db", create=False)) as store:
        page = create_app(store).test_client().get("/here/s/wrap.train/step_time", follow_redirects=True).text

    results = [line for line in out.splitlines()[-8:] if "last changed" in line]
    assert [line.split()[0] for line in results] == ["data_time", "step_time"]
    assert all(re.fullmatch(rf"\w+ last changed by \+30.\d % at {shas[8][:10]}", line) for line in results)
    assert shas[8][:10] in page
