"""Measure how readable a checkout is: folders, imports, functions, line lengths and leftover dialect words.

Usage::

    python -m tools.readability                                  # this checkout
    python -m tools.readability --root DIR --json before.json    # another checkout, with its measures saved
    python -m tools.readability --before before.json             # two columns, before and after
    python -m tools.readability --words   # every remaining dialect word as path:line name

Only ``perfci`` and ``web/perfci_web`` are measured, without the example suites in their ``sample`` folders
and without migrations, which stay as they were written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.readability.measures import Measures, Value, measure_checkout
from tools.readability.nonstandard_words import (
    DIALECT,
    Occurrence,
    WordCounts,
    count_words,
    list_dialect_occurrences,
    list_name_occurrences,
    total_counts,
)
from tools.readability.sources import read_sources

REPOSITORY = Path(__file__).resolve().parents[2]


def main() -> None:
    options = parse_arguments()
    sources = list(read_sources(options.root))
    occurrences = [occurrence for source in sources for occurrence in list_name_occurrences(source)]
    if options.words:
        print_words(occurrences)
        return
    measures = measure_checkout(options.root, sources)
    words = count_words(sources, occurrences)
    earlier = json.loads(options.before.read_text()) if options.before else {"measures": {}, "words": {}}
    print_measures(measures, earlier["measures"])
    print_words_table(words, earlier["words"])
    if options.json:
        options.json.write_text(json.dumps({"measures": measures, "words": words}, indent=2) + "\n")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure how readable a checkout is.")
    parser.add_argument("--root", type=Path, default=REPOSITORY, help="the checkout")
    parser.add_argument("--json", type=Path, help="file to save the measures to")
    parser.add_argument("--before", type=Path, help="measures saved earlier, shown as a column of their own")
    parser.add_argument("--words", action="store_true", help="list every remaining dialect word")
    return parser.parse_args()


def print_measures(measures: Measures, before: Measures) -> None:
    print("| measure | before | after |\n|---|---|---|" if before else "| measure | value |\n|---|---|")
    for label, value in measures.items():
        columns = [before.get(label, ""), value] if before else [value]
        print(f"| {label} | {' | '.join(format_value(column) for column in columns)} |")


def format_value(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def print_words_table(words: WordCounts, before: WordCounts) -> None:
    print("\n| dialect word | standard term | defined | names | in files | in docstrings | in comments |")
    print("|---|---|---|---|---|---|---|")
    for word in DIALECT:
        cells = word_cells(words[word.pattern], before.get(word.pattern, {}))
        if not word.in_text:
            cells[3:] = ["-", "-"]
        pattern = word.pattern.replace(r"\w*", "*").replace("|", ", ")
        print(f"| {pattern}{' (bare)' * word.bare} | {word.standard} | {' | '.join(cells)} |")
    print(f"| **all** | | {' | '.join(word_cells(total_counts(words), total_counts(before)))} |")


def word_cells(counts: Mapping[str, int], before: Mapping[str, int]) -> list[str]:
    texts = {key: f"{count:,}" for key, count in counts.items()}
    return [f"{before[key]:,} → {text}" if key in before else text for key, text in texts.items()]


def print_words(occurrences: Iterable[Occurrence]) -> None:
    for _, occurrence in list_dialect_occurrences(occurrences):
        print(f"{occurrence.path}:{occurrence.line} {occurrence.name}")


if __name__ == "__main__":
    main()
