"""Kill a run with SIGKILL at random moments, many times; nothing may be lost but the process in flight,
nothing double.

Run as ``make torture``; the default test suite runs a short one.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support.git_project import GitProject
from tests.support.waiting import until

COMMITS, CELLS, ROUNDS = 6, 3, 16

SUITE = """
    import os, time
    import thing

    def note():
        with open(os.environ["STARTED"], "a") as file:
            file.write("x")

    class Work:
        params = [[1, 2, 3]]
        param_names = ["size"]
        def setup(self, size):
            note()
        def track_work(self, size):
            end = time.process_time() + 0.03
            while time.process_time() < end:
                pass
            return thing.VALUE + size
        track_work.clock = "exact"
"""


@dataclass(frozen=True)
class Report:
    """What happened: kills that hit a living run, processes started, rows stored, and every promise
    broken.
    """

    kills: int
    started: int
    rows: int
    broken: list[str]


def kill_runs_repeatedly(folder: Path, kills: int, seed: int, rounds: int = ROUNDS) -> Report:
    """Kill a run again and again, then let it finish and count; it has to be long enough for all kills to
    hit it.
    """
    project = GitProject(folder / "project")
    for number in range(COMMITS + 1):
        project.commit(f"Commit {number}", thing=f"VALUE = 1  # {number}\n", benchmarks__suite=SUITE)
    dice, broken, done, last = random.Random(seed), [], 0, 0
    while done < kills:
        run = start_run(project, folder, rounds)
        time.sleep(dice.uniform(0.3, 2.0))
        if run.poll() is not None:
            broken.append(f"the run ended by itself with {run.returncode} after {done} kills: make it longer")
            break
        run.send_signal(signal.SIGKILL)
        run.wait()
        done += 1
        rows = count_rows(project)
        if rows < last:
            broken.append(f"kill {done}: {last} rows had been committed, {rows} are left")
        last = rows
        broken += [f"kill {done}: {line} outlived the run" for line in list_surviving_processes(folder)]
    final = start_run(project, folder, rounds)
    if final.wait() != 0:
        broken.append(f"the last run exited with {final.returncode}")
    return Report(
        done,
        len((folder / "started").read_text()),
        count_rows(project),
        broken + list_broken_promises(project, folder, done, rounds),
    )


def list_broken_promises(project: GitProject, folder: Path, kills: int, rounds: int) -> list[str]:
    expected = COMMITS * CELLS * rounds
    broken = []
    with open_database(project) as tx:
        doubles = tx.execute(
            "select count(*) from (select r.series_id, u.commit_id, p.round, count(*) n from processes p "
            "join results r on p.result_id = r.id join runs u on r.run_id = u.id "
            "group by 1, 2, 3 having n > 1)"
        ).fetchone()[0]
        sessions = tx.execute("select kind, state from sessions").fetchall()
    if (rows := count_rows(project)) != expected:
        broken.append(f"{rows} processes are stored, {expected} were asked for")
    if doubles:
        broken.append(f"{doubles} processes are stored twice")
    if sessions != [("history", "finished")]:
        broken.append(f"one finished session was expected, found {sessions}")
    lost = len((folder / "started").read_text()) - expected
    if lost > kills:
        broken.append(
            f"{lost} processes were measured and lost by {kills} kills: more than the one in flight each"
        )
    return broken


def start_run(project: GitProject, folder: Path, rounds: int) -> subprocess.Popen[bytes]:
    env = {**os.environ, "STARTED": str(folder / "started"), "PERFCI_LOCK": str(folder / "lock")}
    command = [sys.executable, "-m", "perfci.cli", "run", f"HEAD~{COMMITS}..HEAD", "--rounds", str(rounds)]
    (folder / "started").touch()
    return subprocess.Popen(
        command, cwd=project.folder, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def list_surviving_processes(folder: Path) -> list[str]:
    """Processes of the killed run that are still there after a moment; they are known by their
    environment.
    """
    mark = f"STARTED={folder / 'started'}".encode()

    def found() -> list[str]:
        return [line for pid in os.listdir("/proc") if pid.isdigit() and (line := _command(pid, mark))]

    return [] if until(lambda: not found()) else found()


def _command(pid: str, mark: bytes) -> str:
    try:
        if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        pass
    return ""


def open_database(project: GitProject) -> sqlite3.Connection:
    return sqlite3.connect(project.folder / ".perfci" / "perfci.db")


def count_rows(project: GitProject) -> int:
    if not (project.folder / ".perfci" / "perfci.db").exists():
        return 0
    with open_database(project) as tx:
        if not tx.execute("select 1 from sqlite_master where name = 'processes'").fetchone():
            return 0
        return int(tx.execute("select count(*) from processes").fetchone()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = kill_runs_repeatedly(Path(folder), options.kills, options.seed)
    print(
        f"{report.kills} kills with SIGKILL: {report.rows} of {COMMITS * CELLS * ROUNDS} processes stored, "
        f"{report.started - report.rows} in flight and measured again"
    )
    print("\n".join(report.broken) if report.broken else "nothing lost, nothing double, nothing left running")
    sys.exit(1 if report.broken else 0)


if __name__ == "__main__":
    main()
