"""The command ``perfci VERB``; the module of a verb is imported only when that verb runs."""

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
    "demo": "measure a sample repository with known regressions and detect them",
    "init": "write perfci.toml, a starter suite and a workflow into this repository",
    "run": "measure a commit or a range of commits in rounds, and judge it",
    "compare": "measure two commits in interleaved pairs and report what changed",
    "bisect": "find the commit of a range that moved a benchmark",
    "explain": "explain why a benchmark got slower: phase, operator and source line",
    "show": "show the values of a commit, or what lies between two commits",
    "order": "order measurements, list and cancel them",
    "work": "carry out ordered measurements on this machine",
    "profile": "profile a benchmark and write a trace",
    "wrap": "run a script that writes its steps, and store them as a run of this commit",
    "judge": "the pull request statistics as a filter: JSON in, JSON out",
    "detect": "the change point statistics as a filter: JSON in, JSON out",
    "ingest": "read results of other tools into the store",
    "unresolved": "list results whose unit is unknown, and say what they mean",
    "export": "write what the store holds",
    "report": "write a report that opens without a server",
    "upload": "send result files to a server, by way of a spool on disk",
    "flush": "send spooled results",
    "judge-worker": "judge uploaded results",
    "serve": "show the dashboard",
    "github": "compare a pull request in GitHub Actions and report the result on it",
    "incidents": "list and triage incidents",
    "check": "re-judge everything stored by the current policy and show the differences",
    "verify": "compute an evidence bundle again, without the store it came from",
    "noise": "show the false-alarm rate and noise floors measured by A/A runs",
    "doctor": "check the setup, the suite and the machine's noise",
    "project": "manage projects and who may see and change them",
    "token": "create, list and revoke API tokens",
    "rename": "let the history of a benchmark or machine go on under another name",
    "invalidate": "mark runs or points as invalid, or take such a mark back",
    "archive": "archive series that nobody looks at any more, or bring them back",
    "delete": "delete runs, series or a project",
    "mcp": "serve read-only MCP tools over the stored results",
    "db": "upgrade, check, back up, restore, prune or partition the database",
}


VERB_PLACES = {
    "compare": "compare.commands:compare_command",
    "show": "results.show:show_command",
    "github": "github.commands:github_group",
    "incidents": "incidents.commands:incidents_group",
    "order": "orders.commands:order_group",
    "work": "orders.work:work_command",
    "profile": "profiles.profile:profile_command",
    "explain": "profiles.explain:explain_command",
    "report": "results.report:report_command",
    "check": "rejudge_or_verify_results:check_command",
    "verify": "results.verify:verify_command",
    "judge": "judge_and_detect:judge_command",
    "detect": "judge_and_detect:detect_command",
    "upload": "upload_and_flush:upload_command",
    "flush": "upload_and_flush:flush_command",
    "project": "project.commands:project_group",
    "token": "token:token_group",
    "rename": "results.rename:rename_group",
    "invalidate": "results.invalidate:invalidate_group",
    "archive": "results.archive:archive_group",
    "delete": "delete:delete_group",
    "unresolved": "unresolved:unresolved_group",
    "db": "db:db_group",
}
"""Module and name of the commands that are not ``VERB_command`` in a module named like their verb."""


class VerbGroup(click.Group):
    """A group that knows its verbs by name, so that ``perfci --help`` imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERB_HELP)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERB_HELP:
            return None
        verb = name.replace("-", "_")
        module, _, attribute = VERB_PLACES.get(name, f"{verb}:{verb}_command").partition(":")
        gc.disable()  # an import makes no garbage: collecting during one takes a quarter of its time
        try:
            command: click.Command = getattr(importlib.import_module(f"perfci.cli.{module}"), attribute)
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

    Measures commits in interleaved processes, judges them statistically and reports its confidence.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run one verb and exit with its code: an error is one sentence, a traceback only with --debug."""
    sys.exit(run_cli(arguments))


def run_cli(arguments: list[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    settings = GlobalOptions()
    try:
        # In standalone mode click would exit by itself, with messages of its own.
        result: Any = perfci.main(arguments, prog_name="perfci", standalone_mode=False, obj=settings)
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
    return result if isinstance(result, int) else 0
