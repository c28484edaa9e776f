"""Find names and prose that carry a word which is no standard term."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tools.readability.sources import Source, comments_in, docstrings_in

IDENTIFIER_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")

WordCounts = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Word:
    """A dialect word and the term that replaces it.

    ``pattern`` is a regular expression over the snake_case parts of a name; ``bare`` words count only as a
    whole name. ``allowed`` is searched in ``path:name`` and exempts what it matches. ``in_text`` words are
    unmistakable in prose, so they are also counted in docstrings and comments.
    """

    pattern: str
    standard: str
    bare: bool = False
    allowed: str = ""
    in_text: bool = False

    def is_part_of(self, parts: str) -> bool:
        """Whether a name in snake_case has the word."""
        pattern = rf"^(?:{self.pattern})$" if self.bare else rf"(?:^|_)(?:{self.pattern})(?=_|$)"
        return bool(re.search(pattern, parts))

    def is_allowed(self, path: str, name: str) -> bool:
        return bool(self.allowed and re.search(self.allowed, f"{path}:{name}"))

    def count_in(self, text: str) -> int:
        return len(re.findall(rf"\b(?:{self.pattern})\b", text, re.IGNORECASE)) if self.in_text else 0


OUTSIDE_STATS = r"^(?!perfci/stats/)"

INTERIM_ANALYSES = (
    r":_?(\w+_)?(looks?|LOOKS?)(_\w+)?$|:_?(On|Planned)?Look(Record|Row|Decision|Plan|Result)?s?$"
)
"""A *look* is the literature's word for an interim analysis; the verb forms are not allowed."""

INCIDENT_SUSPECTS = r":(\w*suspects\w*|\w*SUSPECTS|Suspect\w*|suspect_lines)$"

NOTIFICATION_OR_HASH = (
    r":(hexdigest|compare_digest|content_digest|\w*digest_(subject|text|time|body|pattern)|DIGEST_PATTERN)$"
    r"|^(?!.*(judged|level|points|bulk|summar|history)).*:_?(digest|DIGEST)$"
)

DIALECT = (
    Word("found", "what it holds: verdicts, change_points, row", allowed=r"(?i)not_?found|culprit_found"),
    Word(
        "told|tell|tells|telling", "notify, report, event, message", allowed="messages.py:tell$", in_text=True
    ),
    Word("say|says|saying|said", "message, text, notification"),
    Word("one", "a noun for the item", bare=True),
    Word("asked", "request, options, query"),
    Word("known", "priors, existing", bare=True),
    Word("given", "value, supplied", bare=True),
    Word("of", "a noun", bare=True),
    Word("looks?|looking", "evaluation, poll (look: interim analysis only)", allowed=INTERIM_ANALYSES),
    Word("equals", "A/A runs, identical inputs", bare=True),
    Word("alike", "identical, duplicates", in_text=True),
    Word(r"convict\w*", "confirm, confirmation", in_text=True),
    Word(r"suspect\w*", "candidate (suspects: commits of an incident)", allowed=INCIDENT_SUSPECTS),
    Word(r"nominat\w*", "select", in_text=True),
    Word("trial", "boundary test, validate"),
    Word("proving|heard", "validate"),
    Word(r"calibrations?", "noise (of a project: what its A/A runs show)", allowed="noise/routes"),
    Word(r"suspicions?", "suspected change"),
    Word("ledgers?", "changes, impact"),
    Word("witness|witnesses", "informational metric", in_text=True),
    Word("mood", "machine drift", in_text=True),
    Word(r"calm\w*", "baseline, quiet", in_text=True),
    Word("hiccups?", "outlier", in_text=True),
    Word("wolf|wolves", "noisy benchmark", in_text=True),
    Word("lend|lending|lent", "noise prior, shrinkage", in_text=True),
    Word("past", "noise prior, history pool", bare=True),
    Word("hops?", "mode switching", allowed="login/proxy"),
    Word("growing", "incremental segmentation"),
    Word("lines", "preprocessing (stats)", allowed=OUTSIDE_STATS),
    Word("evidence", "boundary test (stats)", bare=True, allowed=OUTSIDE_STATS),
    Word("lineups?", "variant session", in_text=True),
    Word("family|families", "variant group", allowed="GaugeMetricFamily|CounterMetricFamily|server"),
    Word(r"climb\w*|ladders?", "ablation", in_text=True),
    Word("rungs?", "ablation step", in_text=True),
    Word("fallen", "rejected", in_text=True),
    Word("digests?", "result summary (digest: daily notification, hash)", allowed=NOTIFICATION_OR_HASH),
    Word("levelling", "result summaries", in_text=True),
    Word("desks?", "worker", in_text=True),
    Word("stays?", "worker session", allowed="LONG_STAY"),
    Word("seats?", "slot", in_text=True),
    Word(r"announc\w*|foretold", "expected change", in_text=True),
    Word("arrived", "expected change", allowed=":arrived_at$"),
    Word(r"quarantin\w*|suspensions?", "mute, unresolved unit", in_text=True),
    Word("expectations?|absences?|silence", "reporting schedule, missing data", bare=True),
    Word("attend|attending", "due transition", in_text=True),
    Word("chores?", "periodic jobs", in_text=True),
    Word("courier", "leased loop", in_text=True),
    Word("hearing|catching_up", "webhook receiver, reconciliation poll"),
    Word("handed|handing", "results artifact"),
    Word("left_behind", "results artifact"),
    Word("exchanging", "OIDC token exchange"),
    Word("surroundings", "incident inputs", in_text=True),
    Word("timetables?", "visit index", in_text=True),
    Word("endings?", "latest results", bare=True),
    Word("standing", "project status"),
    Word("tally|tallies", "verdict counts", in_text=True),
    Word("care|thinning", "maintenance, retention"),
    Word("happenings?", "activity log", in_text=True),
    Word("notices?", "notification text", bare=True),
    Word("fitting", "truncation"),
    Word(r"nudg\w*", "move boundary", in_text=True),
    Word("alerts?", "incidents", bare=True),
    Word("rel", "change_ratio", bare=True),
    Word("cost", "a public name that says of what", bare=True, allowed=r"^(?!.*net/api_schemas)"),
    Word("by|act", "AuditContext (the classes By and Act)", bare=True, allowed=r":_?(by|act|BY|ACT)$"),
)


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One place where a name stands; ``defines`` is true where the name is introduced rather than used."""

    path: str
    line: int
    name: str
    defines: bool


def list_name_occurrences(source: Source) -> Iterator[Occurrence]:
    """Every name in a module: its own, and those it defines, uses, imports and passes by keyword."""
    yield Occurrence(source.path, 1, source.module.rpartition(".")[2], True)
    for node in ast.walk(source.tree):
        for name, defines in list_node_names(node):
            yield Occurrence(source.path, definition_line(node), name, defines)


def list_node_names(node: ast.AST) -> list[tuple[str, bool]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [(node.name, True)]
        case ast.arg():
            return [(node.arg, True)]
        case ast.Name():
            return [(node.id, isinstance(node.ctx, ast.Store))]
        case ast.Attribute():
            return [(node.attr, isinstance(node.ctx, ast.Store))]
        case ast.keyword(arg=str(name)) | ast.MatchAs(name=str(name)):
            return [(name, isinstance(node, ast.MatchAs))]
        case ast.ExceptHandler(name=str(name)):
            return [(name, True)]
        case ast.Import() | ast.ImportFrom():
            return [(name, False) for name in imported_names(node)]
    return []


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    base = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    if base.split(".")[0] in ("perfci", "perfci_web"):
        yield from base.split(".")
    for alias in node.names:
        if base.split(".")[0] in ("perfci", "perfci_web") or alias.name.startswith("perfci"):
            yield from alias.name.split(".")
        if alias.asname:
            yield alias.asname


def definition_line(node: ast.AST) -> int:
    if isinstance(node, ast.keyword):
        return node.value.lineno
    return int(getattr(node, "lineno", 1))


def snake_case(name: str) -> str:
    return "_".join(IDENTIFIER_PARTS.findall(name)).lower()


def count_words(sources: Sequence[Source], occurrences: Sequence[Occurrence]) -> WordCounts:
    """For each dialect word its definitions and all its occurrences as a name, and its uses in prose."""
    docstrings = "\n".join(text for source in sources for text in docstrings_in(source.tree))
    comments = "\n".join(text for source in sources for text in comments_in(source))
    counts = {
        word.pattern: {
            "defined": 0,
            "names": 0,
            "files": 0,
            "docstrings": word.count_in(docstrings),
            "comments": word.count_in(comments),
        }
        for word in DIALECT
    }
    files: dict[str, set[str]] = {word.pattern: set() for word in DIALECT}
    for word, occurrence in list_dialect_occurrences(occurrences):
        counts[word.pattern]["names"] += 1
        counts[word.pattern]["defined"] += occurrence.defines
        files[word.pattern].add(occurrence.path)
        counts[word.pattern]["files"] = len(files[word.pattern])
    return counts


def list_dialect_occurrences(occurrences: Iterable[Occurrence]) -> Iterator[tuple[Word, Occurrence]]:
    """Occurrences that carry a dialect word, each under the first word of the table that matches it."""
    for occurrence in occurrences:
        for word in dialect_words_of_name(occurrence.name):
            if not word.is_allowed(occurrence.path, occurrence.name):
                yield word, occurrence
                break


@functools.cache
def dialect_words_of_name(name: str) -> tuple[Word, ...]:
    parts = snake_case(name)
    return tuple(word for word in DIALECT if word.is_part_of(parts))


def total_counts(words: WordCounts) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for counts in words.values():
        totals.update(counts)
    return dict(totals)
