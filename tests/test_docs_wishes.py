"""The table of wishes: every row says whether it is granted, and what it names is there."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from pathlib import Path

from test_docs_commands import find_fault

from perfci.store import open_store
from perfci_web import create_app

PAGE = (Path(__file__).parent.parent / "docs" / "wishes.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| \d", line)]
NUMBER_WORDS = {"none": 0, "one": 1, "twenty-five": 25}


def test_every_wish_has_an_answer_and_they_are_counted() -> None:
    counted = Counter(row[2] for row in ROWS)
    (text,) = re.findall(r"^([\w-]+) are granted, (\w+) in part, (\w+) not yet\.$", PAGE, re.MULTILINE)

    assert [row[0] for row in ROWS] == [str(number) for number in range(1, 26)]
    assert [counted[word] for word in ("yes", "in part", "not yet")] == [
        NUMBER_WORDS[word.lower()] for word in text
    ]
    assert [row[0] for row in ROWS if row[2] != "not yet" and "`" not in row[3] and "](" not in row[3]] == []


def test_every_command_it_names_is_there() -> None:
    commands = re.findall(r"`perfci ([^`]+)`", PAGE)

    assert len(commands) > 15
    assert [command for command in commands if find_fault(command.split())] == []


def test_every_page_it_names_is_there(tmp_path: Path) -> None:
    paths = re.findall(r"`(/[^`]+)`", PAGE)
    with closing(open_store(f"sqlite:///{tmp_path}/perfci.db", create=True)) as store:
        pages = create_app(store).url_map.bind("localhost")

        assert len(paths) == 10
        assert [path for path in paths if not pages.test(path, method="GET")] == []
