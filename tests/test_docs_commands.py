"""Commands of the documentation have the verbs and options that they name; those of the pages on moving to
perfci are run, and examples of JSON are answered as shown."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from perfci.cli import perfci, run_cli
from perfci.formats.json_filters.detect_change_points import detect_change_points_json
from perfci.formats.json_filters.judge_cases import judge_cases_json
from tests.support.git_project import GitProject

ROOT = Path(__file__).parent.parent
FILES = ROOT / "tests" / "formats" / "files"
PAGES = [ROOT / "README.md", *sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "README.md"})]
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:`|^ {4,}|^\$ )perfci ([a-z][^`\n]*)", re.MULTILINE)
SHELL_ENDS = ("#", "|", ">", "&&", ";", "--", "<")


def list_commands(page: Path) -> list[list[str]]:
    """The words of every command of a page, up to what belongs to the shell or to another program."""
    text = page.read_text()
    inline = COMMAND.findall(FENCED.sub("", text))
    fenced = re.findall(r"^ *(?:\$ )?perfci ([a-z].*)", "".join(FENCED.findall(text)), re.MULTILINE)
    commands = []
    for command in inline + fenced:
        words = re.sub(r"[\[\]'\"]", "", command).split()
        ends = [place for place, word in enumerate(words) if word in SHELL_ENDS]
        commands.append(words[: ends[0]] if ends else words)
    return commands


def find_fault(words: list[str]) -> str:
    """The verb or option that perfci does not have."""
    command: click.Command = perfci
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        verb = words.pop(0).strip(",:.").partition("|")[0]
        child = command.get_command(click.Context(command), verb)
        if child is None:
            return verb
        command = child
    known = {name for part in command.params for name in (*part.opts, *part.secondary_opts)} | {"--help"}
    options = [word.partition("=")[0].strip(",:.") for word in words if re.match(r"--[a-z]", word)]
    return next((option for option in options if option not in known), "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_has_the_verb_and_options_it_names(page: Path) -> None:
    faults = {" ".join(words): find_fault([*words]) for words in list_commands(page)}

    assert {command: fault for command, fault in faults.items() if fault} == {}


def read_blocks(page: str, kind: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{kind}\n(.*?)^```\n", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("page", "name", "source"),
    [
        ("from-asv.md", "", "asv/recorded-1.tar.gz"),
        ("from-bencher.md", "bmf.json", "bencher/documented-1.json"),
        ("from-pytorch-hud.md", "records.json", "pytorch/record.json"),
    ],
)
def test_the_commands_of_who_moves_here_are_run(
    working_folder: Path, page: str, name: str, source: str
) -> None:
    GitProject(working_folder).commit("First", net="")
    if name:
        (working_folder / name).write_bytes((FILES / source).read_bytes())
    else:
        shutil.unpack_archive(FILES / source, working_folder, filter="data")
    (block,) = read_blocks(page, "sh")
    commands = [shlex.split(line.partition(" > ")[0])[1:] for line in block.splitlines()]

    assert [" ".join(command) for command in commands if run_cli(command) != 0] == []


def rounded(answer: Any) -> Any:
    """Numbers as the page shows them, to four places."""
    if isinstance(answer, dict):
        return {name: rounded(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [rounded(value) for value in answer]
    return round(answer, 4) if isinstance(answer, float) else answer


def test_examples_of_json_are_answered_as_shown() -> None:
    blocks = [json.loads(block) for block in read_blocks("judge-and-detect.md", "json")]
    requests, answers = blocks[::2], blocks[1::2]

    answered = [
        detect_change_points_json(request) if "series" in request else judge_cases_json(request)
        for request in requests
    ]

    assert len(answers) == 3
    assert rounded(answered) == answers
