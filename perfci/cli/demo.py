"""``perfci demo``: the first ten minutes."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.serve import serve_dashboard, with_server
from perfci.cli.shared.options import global_options
from perfci.cli.shared.terminal_progress import Progress
from perfci.demo.detection_score import Score, complaints, open_lines, score, score_table
from perfci.demo.measure_sample import Shown, look, measure, sample, sample_config
from perfci.demo.sample_repository import read_planted
from perfci.report.number_format import percent


@click.command("demo")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="of the dashboard; 0: a free one")
@click.option("--no-serve", is_flag=True, help="end after the table")
@click.option("--fresh", is_flag=True, help="measure again, though a measured store is there")
@global_options
def command(port: int, no_serve: bool, fresh: bool) -> int:
    """Measure a sample repository of 24 commits with real torch, and find what was planted in it.

    Exit code 0 only when everything planted was found at its own commit and nothing else was reported.
    """
    repository = sample(Path.cwd(), fresh=fresh)
    config = sample_config(repository)
    progress = Progress()
    progress.say(f"the sample repository is {repository.root}")
    if not measure(repository, config, progress):
        progress.say("it was measured before; --fresh measures it again")
    shown = look(repository, config)
    result = score(read_planted(repository.root), shown.verdicts)
    click.echo(conclusion(result, shown))
    if not no_serve:
        serve_dashboard(with_server(config, {"port": port}), read_only=True)
    return 0 if result.perfect else 1


def conclusion(result: Score, shown: Shown) -> str:
    commits = dict(shown.commits)
    parts = [score_table(result, commits), *complaints(result, commits), *open_lines(result, commits)]
    found = len(result.found) - len(result.misses)
    parts += [
        f"{found} of {len(result.found)} planted changes found at their own commit, "
        f"{len(result.false_alarms)} false alarms among {len(commits)} commits.",
        noise_lines(shown),
        "For your own repository:\n  perfci init\n  perfci run --smoke && perfci compare HEAD~1 --smoke",
    ]
    return "\n\n".join(part for part in parts if part)


def noise_lines(shown: Shown) -> str:
    lines = ["This machine, per benchmark: noise floor (10 pairs of equal commits), smallest change it could convict"]
    for series, floor in sorted(shown.noise_floor.items(), key=lambda item: item[0].label):
        lines.append(f"  {series.label}: {percent(floor)}, {percent(shown.smallest_visible[series])}")
    return "\n".join(lines)
