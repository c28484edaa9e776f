"""The front door: ``perfci VERB``. A verb's module is imported only when it is asked for."""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Any

import click

from perfci import __version__
from perfci.cli.shared.options import GlobalOptions, global_options
from perfci.model import PerfciError

VERB_HELP = {
    "demo": "measure a sample repository commit by commit and find what was planted in it",
    "init": "write perfci.toml, a starter suite and a workflow into this repository",
    "run": "measure a commit or a range of commits in rounds, and judge it",
    "compare": "measure two commits in interleaved pairs and say what changed",
    "profile": "show where the time of a benchmark goes, and write a trace to open",
    "wrap": "run a script that writes its steps, and store them as a run of this commit",
    "judge": "the pull request statistics as a filter: JSON in, JSON out",
    "detect": "the change point statistics as a filter: JSON in, JSON out",
    "ingest": "read results of other tools into the store",
    "export": "write what the store holds",
    "upload": "send result files to a server; what cannot be sent now waits on disk",
    "flush": "send what waits on disk",
    "judge-worker": "judge what was uploaded",
    "serve": "show the dashboard",
    "github": "compare a pull request in a job of GitHub Actions, and tell it what came of that",
    "alerts": "list incidents: what moved, who is suspected, what to measure again",
    "check": "show what the policy of perfci.toml would have said of everything that is stored",
    "calibration": "show how often verdicts on equal commits were wrong, and what equals wander by themselves",
    "doctor": "say whether everything needed is there and the machine is quiet enough",
    "project": "make projects, and say who may see and change them",
    "token": "make, list and revoke the tokens that programs upload with",
    "mcp": "answer an assistant's questions about what is stored",
    "db": "upgrade, check, back up, restore or thin the database",
}


FOLDERS = {"alerts": "incidents", "compare": "compare", "github": "github", "project": "project"}
"""Verbs that have a folder of modules; their command is in its ``commands``."""


class VerbGroup(click.Group):
    """Verbs by name, so that ``perfci --help`` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERB_HELP)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERB_HELP:
            return None
        module = f"{FOLDERS[name]}.commands" if name in FOLDERS else name.replace("-", "_")
        gc.disable()  # what an import makes is no garbage: to look through it for some takes a quarter of the time
        try:
            command: click.Command = importlib.import_module(f"perfci.cli.{module}").command
        finally:
            gc.enable()
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERB_HELP.items()))


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="perfci")
@global_options
def perfci() -> None:
    """Continuous performance regression service for PyTorch code.

    Measures commits in interleaved processes, judges them statistically, says how sure it is.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run one verb and leave with its exit code: errors are one sentence, a traceback only with --debug."""
    sys.exit(run_cli(arguments))


def run_cli(arguments: list[str] | None = None) -> int:
    settings = GlobalOptions()
    try:
        outcome: Any = perfci.main(arguments, prog_name="perfci", standalone_mode=False, obj=settings)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PerfciError as error:
        if settings.debug:
            raise
        click.echo(f"perfci: {error}", err=True)
        return 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; what was measured is stored, run the same command again to go on", err=True)
        return 130
    return outcome if isinstance(outcome, int) else 0
