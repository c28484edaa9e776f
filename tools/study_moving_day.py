"""Move a project from asv to perfci in one day: Django's published history goes on in a repository made here.

Run as ``python -m tools.study_moving_day``; ``--page docs/studies/moving-day.md`` puts the figures into that
page, ``--pictures FOLDER`` takes its two pictures with a browser. The history (``../shared/data/asv-django``,
MIT licence) is not part of this repository. It fails where the pages do not say what happened at the seam, or
where what was planted after it is not found.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from statistics import median
from typing import Any

from flask.testing import FlaskClient

from perfci.model import Series
from perfci.number_format import format_signed_percent
from perfci.store import Store, open_store
from perfci.store.queries.runs_and_sessions import load_runs_of_commit
from perfci.store.queries.series_commits_machines import load_project_series
from perfci_web import create_app
from perfci_web.page_urls import ProjectLinks
from tests.support.git_project import ISOLATED, GitProject
from tools.study_django import ARCHIVE
from tools.write_study_page import describe_circumstances, replace_figures

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "web"))
from browsing import a_browser, a_server

PROJECT = "django"
MACHINE, ENVIRONMENT = "ubuntu-latest", "conda-py3.13"
"""The place of the history that asv went on measuring until the day of the move."""

METRIC = "cpu_time"
"""What perfci judges of a benchmark that computes."""

BRIDGE_COMMITS, OWN_COMMITS, SLOWER_AT = 4, 5, 4
SLOWDOWN = 0.3
RECENT = 20
"""Newest values of Django whose median a stand-in is made to take."""

PICTURE_SIZE = {"width": 860, "height": 700}
PICTURE_TOP_PX = 120
"""The picture begins below the bar of the site and ends with the chart."""


@dataclass(frozen=True)
class StandIn:
    """A benchmark of Django and the plain Python loop that stands in for its body."""

    area: str
    method: str

    @property
    def module(self) -> str:
        return f"{self.area}.benchmark"

    @property
    def name(self) -> str:
        return f"{self.module}.{self.method}"


SLOWER = StandIn("form_benchmarks.form_render", "FormRender.time_small_form_render")
STAND_INS = (
    SLOWER,
    StandIn("template_benchmarks.template_render", "TemplateRender.time_render_simple"),
    StandIn("url_benchmarks.url_resolve", "UrlResolve.time_resolve"),
)

PROJECT_CODE = '''
TURNS = {turns}


def spend(area):
    """Turn as often as it takes to be as slow as what stood here."""
    total = 0
    for number in range(TURNS[area]):
        total += number
    return total
'''

BENCHMARK = """
from stand_in import spend


class {suite}:
    def {method}(self):
        spend("{area}")

    {method}.version = "{version}"
"""
"""The version is that of the history: on the day of a move the benchmarks themselves stay as they are."""


@dataclass(frozen=True)
class Moved:
    """The repository that goes on, and what is where in it."""

    project: GitProject
    results: Path
    bridge: tuple[str, ...]
    own: tuple[str, ...]

    @property
    def slower(self) -> str:
        """The commit of the planted slowdown."""
        return self.own[SLOWER_AT - 1]


# ------------------------------------------------------------------ the history and the repository


def unpack_history(folder: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "results"


def read_newest_files(results: Path) -> list[dict[str, Any]]:
    """The newest results of the place that goes on, oldest first."""
    files = [json.loads(path.read_text()) for path in (results / MACHINE).glob(f"*-{ENVIRONMENT}.json")]
    return sorted(files, key=lambda content: int(content["date"]))[-RECENT:]


def calibrate_turns(newest: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How often each stand-in has to turn to take what Django's benchmark took lately."""
    space: dict[str, Any] = {}
    exec(PROJECT_CODE.format(turns={"one": 100_000}), space)
    readings = []
    for _ in range(15):
        begin = time.process_time()
        space["spend"]("one")
        readings.append(time.process_time() - begin)
    seconds_a_turn = median(readings) / 100_000
    return {
        item.area: round(median(content["results"][item.name][0][0] for content in newest) / seconds_a_turn)
        for item in STAND_INS
    }


def create_repository(folder: Path, results: Path) -> Moved:
    """A suite of Django's names, a release, the commits that asv still measures, and those after them."""
    newest = read_newest_files(results)
    turns = calibrate_turns(newest)
    project = GitProject(folder)
    config = {"version": 1, "project": PROJECT, "repo": ".", "branches": ["main"]}
    places = {"benchmark_dir": "benchmarks", "results_dir": "results", "environment_type": "virtualenv"}
    project.write("asv.conf.json", json.dumps(config | places))
    project.write(".gitignore", "results/\n.perfci/\n")
    for item in STAND_INS:
        write_benchmark(project, item, newest[-1]["results"][item.name][2])
    day = datetime.now(UTC) - timedelta(days=BRIDGE_COMMITS + OWN_COMMITS + 1)
    shas = []
    for number in range(1 + BRIDGE_COMMITS + OWN_COMMITS):
        is_slower = number >= BRIDGE_COMMITS + SLOWER_AT
        now = turns | {SLOWER.area: round(turns[SLOWER.area] * (1 + SLOWDOWN))} if is_slower else turns
        project.write("stand_in.py", PROJECT_CODE.format(turns=now) + f"\n# {number}\n")
        shas.append(commit(project, f"Change {number}", day + timedelta(days=number)))
    project.git("tag", "v1.4", shas[0])
    return Moved(project, results, tuple(shas[1 : 1 + BRIDGE_COMMITS]), tuple(shas[1 + BRIDGE_COMMITS :]))


def write_benchmark(project: GitProject, item: StandIn, version: str) -> None:
    suite, method = item.method.split(".")
    package = Path("benchmarks", *item.area.split("."))
    for folder in (Path("benchmarks"), package.parent, package):
        project.write(f"{folder}/__init__.py", "")
    values = {"suite": suite, "method": method, "area": item.area, "version": version}
    project.write(f"{package}/benchmark.py", BENCHMARK.format(**values))


def commit(project: GitProject, subject: str, moment: datetime) -> str:
    dates = {"GIT_AUTHOR_DATE": moment.isoformat(), "GIT_COMMITTER_DATE": moment.isoformat()}
    project.git("add", "--all")
    command = ["git", "commit", "--quiet", "-m", subject]
    subprocess.run(command, cwd=project.folder, env={**os.environ, **ISOLATED, **dates}, check=True)
    return project.git("rev-parse", "HEAD")


def measure_by_asv(moved: Moved, sha: str, home: Path) -> None:
    """Let asv measure a commit, and store that where it stored the history."""
    folder = moved.project.folder
    moved.project.git("checkout", "--quiet", sha)
    environment = {**os.environ, "HOME": str(home), "ASV_PYTHONPATH": str(folder)}
    label = ["-E", f"existing:{sys.executable}", "--set-commit-hash", sha, "--machine", MACHINE]
    for command in (["machine", "--yes", "--machine", MACHINE], ["run", "--record-samples", *label]):
        call = [sys.executable, "-m", "asv", *command]
        subprocess.run(call, cwd=folder, env=environment, check=True, capture_output=True)
    moved.project.git("checkout", "--quiet", "main")
    (file,) = (folder / "results" / MACHINE).glob(f"{sha[:8]}-*.json")
    content = json.loads(file.read_text())
    # asv could not make the conda environment of the history here, so that the file says it was that one
    newest = read_newest_files(moved.results)[-1]
    content |= {"env_name": ENVIRONMENT, "params": newest["params"], "python": newest["python"]}
    (moved.results / MACHINE / f"{sha[:8]}-{ENVIRONMENT}.json").write_text(json.dumps(content))


# ------------------------------------------------------------------ the day itself


class Commands:
    """perfci's commands in the repository, with a machine lock of their own; they are printed as typed."""

    def __init__(self, moved: Moved, database: Path) -> None:
        self.moved, self.database = moved, database
        self.url = f"sqlite:///{database}"

    def run(self, *arguments: str) -> str:
        variables = {"PERFCI_DB": self.url, "PERFCI_LOCK": str(self.database.with_suffix(".lock"))}
        print(f"$ perfci {' '.join(arguments)}", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "perfci.cli", *arguments],
            cwd=self.moved.project.folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"perfci {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        print(done.stdout, flush=True)
        return done.stdout


@dataclass(frozen=True)
class SeriesPage:
    """What the page of a series, its JSON and its chart say."""

    address: str
    points: int
    before: tuple[str, ...]
    seam_marks: int
    changes: tuple[str, ...]


def read_pages(url: str) -> dict[str, SeriesPage]:
    """Read the pages of the series that perfci itself measured, by benchmark."""
    with closing(open_store(url, create=False)) as store:
        client = create_app(store).test_client()
        return {
            series.benchmark.name: read_page(client, address)
            for series, address in find_addresses(store).items()
        }


def find_addresses(store: Store) -> dict[Series, str]:
    with store.read() as tx:
        every = list(load_project_series(tx, PROJECT).values())
    links = ProjectLinks(PROJECT, every)
    return {
        each: links.series(each) for each in every if each.harness != "asv" and each.metric.name == METRIC
    }


def read_page(client: FlaskClient, address: str) -> SeriesPage:
    text = unescape(re.sub(r"<[^>]+>", "", client.get(address).text))
    before = re.search(r"Before: asv\n(.+)\n(.+)\n", text)
    if before is None:
        raise SystemExit(f"{address} says nothing of what asv measured before")
    path, _, query = address.partition("?")
    chart = client.get(f"{path}/figure?{query}").get_json()
    dashed = [shape for shape in chart["figure"]["layout"]["shapes"] if shape["line"].get("dash") == "dash"]
    points = client.get(f"{path}.json?{query}").get_json()["points"]
    return SeriesPage(address, len(points), before.groups(), len(dashed), tuple(chart["changes"]))


def delete_bridge(commands: Commands) -> None:
    """Delete what perfci measured of the commits that asv measured too, as if it had begun after them."""
    with closing(open_store(commands.url, create=False)) as store, store.read() as tx:
        keys = [
            record.key
            for sha in commands.moved.bridge
            for record in load_runs_of_commit(tx, PROJECT, sha)
            if record.harness != "asv"
        ]
    commands.run("delete", "run", "--yes", *keys)


def take_picture(url: str, file: Path) -> None:
    """Take a picture of the page of the benchmark that became slower."""
    with closing(open_store(url, create=False)) as store:
        addresses = find_addresses(store)
    address = next(address for series, address in addresses.items() if series.benchmark.name == SLOWER.name)
    with a_server(url) as server, a_browser() as browser:
        page = browser.new_page(viewport=PICTURE_SIZE, color_scheme="light")
        page.goto(server.rstrip("/") + address)
        page.wait_for_selector("figure.interactive")
        page.wait_for_timeout(300)
        chart = page.locator("figure.chart").bounding_box()
        assert chart
        height = chart["y"] + chart["height"] + 8 - PICTURE_TOP_PX
        part = {"x": 0, "y": PICTURE_TOP_PX, "width": PICTURE_SIZE["width"], "height": height}
        page.screenshot(path=file, full_page=True, clip=part)
    print(f"{file}: {file.stat().st_size // 1024} KiB", flush=True)


# ------------------------------------------------------------------ what came of it


def format_series(pages: Mapping[str, SeriesPage], measured: Sequence[str], slower: str) -> Iterator[str]:
    for name, page in pages.items():
        changes = [sha for sha in page.changes if sha in measured]
        names = ", ".join("the planted one" if sha == slower else sha[:10] for sha in changes) or "none"
        counts = f"{page.points} own points, changes after the line: {names}"
        yield f"- `{name.rpartition('.')[2]}`, {counts}. *{' '.join(page.before)}*"


def find_misses(
    pages: Mapping[str, SeriesPage], measured: Sequence[str], slower: str, *, linked: bool
) -> Iterator[str]:
    """What a page says of the seam, or of the commits that perfci measured, that is not so."""
    for name, page in pages.items():
        changes = [sha for sha in page.changes if sha in measured]
        expected = [slower] if name == SLOWER.name else []
        if changes != expected:
            yield f"{name}: changes at {changes}, expected at {expected}"
        if page.seam_marks != 1:
            yield f"{name}: {page.seam_marks} marks of the seam"
        if ("measured by both, this series reads" in page.before[0]) != linked:
            yield f"{name}: {page.before[0]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", type=Path, help="put the figures into this page")
    parser.add_argument("--pictures", type=Path, help="take the two pictures, into this folder")
    options = parser.parse_args(arguments)
    if not ARCHIVE.exists():
        print(f"skipped: the history of Django is not there ({ARCHIVE})")
        return 0
    load = os.getloadavg()[2]
    with tempfile.TemporaryDirectory() as place:
        figures, misses = move(Path(place), options.pictures)
    print(figures)
    if options.page:
        replace_figures(options.page, f"{describe_circumstances(load)}.\n\n{figures}")
    print("\n".join(misses) or "nothing is said at the seam but what happened there")
    return 1 if misses else 0


def move(folder: Path, pictures: Path | None) -> tuple[str, list[str]]:
    """Live through the day; answers the figures and what was missed."""
    moved = create_repository(folder / "repository", unpack_history(folder))
    for sha in moved.bridge:
        measure_by_asv(moved, sha, folder)
    commands = Commands(moved, folder / "linked.db")
    imported = commands.run("ingest", "../results")
    measured = commands.run("run", "v1.4..HEAD")
    shown = commands.run("show", moved.slower)
    linked = read_pages(commands.url)
    alone = Commands(moved, folder / "alone.db")
    shutil.copy(commands.database, alone.database)
    delete_bridge(alone)
    unlinked = read_pages(alone.url)
    if pictures:
        take_picture(commands.url, pictures / "linked.png")
        take_picture(alone.url, pictures / "break.png")
    text = f"""
`perfci ingest ../results`:

```
{imported.strip()}
```

`perfci run v1.4..HEAD`, of which asv had measured the first {BRIDGE_COMMITS}:

```
{measured.strip()}
```

`perfci show {moved.slower[:10]}`, the commit with {format_signed_percent(SLOWDOWN)} planted in one benchmark:

```
{shown.strip()}
```

Pages with the bridge of {BRIDGE_COMMITS} commits:

{chr(10).join(format_series(linked, (*moved.bridge, *moved.own), moved.slower))}

Pages without it, what perfci measured of those {BRIDGE_COMMITS} being deleted:

{chr(10).join(format_series(unlinked, moved.own, moved.slower))}
"""
    misses = [
        *find_misses(linked, (*moved.bridge, *moved.own), moved.slower, linked=True),
        *find_misses(unlinked, moved.own, moved.slower, linked=False),
    ]
    return text.strip(), misses


if __name__ == "__main__":
    sys.exit(main())
