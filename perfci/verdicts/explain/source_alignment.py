"""Which line of the head is which line of the base: line numbers move, functions and files too."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from perfci.verdicts.explain.call_profile import SourceLine

MIN_RENAME_SHARE = 0.5
"""Share of its lines that a renamed file keeps, as git's default."""

MAX_HUNK_GAP = 3
"""Unchanged lines between two changes of one function that count as one change."""

MIN_EDITED_LIKENESS = 0.6
"""Likeness of two lines, by ``difflib``, from which on one is the other after an edit."""


@dataclass(frozen=True)
class SourceAlignment:
    """The sources of both sides; a line is known by its path and number on its own side."""

    base: Mapping[str, str]
    head: Mapping[str, str]

    def base_line(self, line: SourceLine) -> SourceLine | None:
        """The line of the base that a line of the head was, None where it is new; files without a source
        are taken as equal.
        """
        return self._base_of_head.get(line) if line[0] in self.head else line

    def is_gone(self, line: SourceLine) -> bool:
        """Whether a line of the base is not in the head."""
        return line[0] in self.base and line not in self._kept

    def hunk(self, line: SourceLine, *, of_head: bool) -> SourceLine:
        """The change that a new or gone line belongs to, named by a line of it."""
        hunks = self._head_hunks if of_head else self._base_hunks
        return hunks.get(line, line)

    def text(self, line: SourceLine, *, of_head: bool) -> str:
        """The text of a line, without indentation; empty where its file is not known."""
        lines = self._lines(line[0], of_head=of_head)
        return lines[line[1] - 1].strip() if 0 < line[1] <= len(lines) else ""

    def function(self, line: SourceLine, *, of_head: bool) -> str:
        """The qualified name of the function that holds a line; empty at the top of a module."""
        functions = self._head_functions if of_head else self._base_functions
        return functions.get(line[0], {}).get(line[1], "")

    @cached_property
    def changed_lines(self) -> tuple[SourceLine, ...]:
        """The lines of code of the head that are new, in order: no comments and no empty lines."""
        return tuple(
            (path, number)
            for path, text in sorted(self.head.items())
            for number, line in enumerate(text.splitlines(), 1)
            if (path, number) not in self._base_of_head and _is_code(line)
        )

    @cached_property
    def gone_lines(self) -> tuple[SourceLine, ...]:
        """The lines of code of the base that are not in the head, in order."""
        return tuple(
            (path, number)
            for path, text in sorted(self.base.items())
            for number, line in enumerate(text.splitlines(), 1)
            if (path, number) not in self._kept and _is_code(line)
        )

    @property
    def has_changes(self) -> bool:
        """Whether any code that either side imported differs."""
        return bool(self.changed_lines or self.gone_lines)

    def _lines(self, path: str, *, of_head: bool) -> list[str]:
        return (self.head if of_head else self.base).get(path, "").splitlines()

    @cached_property
    def _head_functions(self) -> dict[str, dict[int, str]]:
        return {path: map_functions(text) for path, text in self.head.items()}

    @cached_property
    def _base_functions(self) -> dict[str, dict[int, str]]:
        return {path: map_functions(text) for path, text in self.base.items()}

    @cached_property
    def _renamed(self) -> dict[str, str]:
        """The path in the base of each file of the head."""
        paths = {path: path for path in self.head if path in self.base}
        gone = [path for path in self.base if path not in self.head]
        for path in self.head:
            if path not in paths and gone:
                best = max(gone, key=lambda old: _common_share(self.base[old], self.head[path]))
                if _common_share(self.base[best], self.head[path]) >= MIN_RENAME_SHARE:
                    paths[path] = best
                    gone.remove(best)
        return paths

    @cached_property
    def _base_of_head(self) -> dict[SourceLine, SourceLine]:
        matched: dict[SourceLine, SourceLine] = {}
        for path, old in self._renamed.items():
            for operation, i, i_end, j, _ in self._opcodes(path, old):
                if operation == "equal":
                    matched.update({(path, j + k + 1): (old, i + k + 1) for k in range(i_end - i)})
        for head_line, base_line in self._moved_lines(matched):
            matched[head_line] = base_line
        return matched

    def _opcodes(self, path: str, old: str) -> list[tuple[str, int, int, int, int]]:
        before = [line.strip() for line in self._lines(old, of_head=False)]
        after = [line.strip() for line in self._lines(path, of_head=True)]
        return list(SequenceMatcher(None, before, after, autojunk=False).get_opcodes())

    def _moved_lines(
        self, matched: Mapping[SourceLine, SourceLine]
    ) -> Iterator[tuple[SourceLine, SourceLine]]:
        """Lines of functions that stand elsewhere: same function and text, as often on both sides."""
        taken = set(matched.values())
        before = self._lines_by_function(self.base, self._base_functions, taken)
        after = self._lines_by_function(self.head, self._head_functions, set(matched))
        for key, lines in after.items():
            if len(before.get(key, ())) == len(lines):
                yield from zip(lines, before[key], strict=True)

    @staticmethod
    def _lines_by_function(
        sources: Mapping[str, str], functions: Mapping[str, Mapping[int, str]], aligned: set[SourceLine]
    ) -> dict[tuple[str, str], list[SourceLine]]:
        """Unknown lines by function and text, of functions that lost or got most of their lines."""
        rows: dict[tuple[str, str], list[SourceLine]] = defaultdict(list)
        whole = Counter[tuple[str, str]]()
        kept = Counter[tuple[str, str]]()
        for path, text in sources.items():
            for number, line in enumerate(text.splitlines(), 1):
                function = functions[path].get(number, "")
                if function and _is_code(line):
                    whole[path, function] += 1
                    kept[path, function] += (path, number) in aligned
        for path, text in sources.items():
            for number, line in enumerate(text.splitlines(), 1):
                function = functions[path].get(number, "")
                is_moved = function and 2 * kept[path, function] < whole[path, function]
                if is_moved and _is_code(line) and (path, number) not in aligned:
                    rows[function.rpartition(".")[2], line.strip()].append((path, number))
        return rows

    @cached_property
    def _kept(self) -> frozenset[SourceLine]:
        return frozenset(self._base_of_head.values())

    @cached_property
    def _hunks(self) -> tuple[dict[SourceLine, SourceLine], dict[SourceLine, SourceLine]]:
        head_hunks: dict[SourceLine, SourceLine] = {}
        base_hunks: dict[SourceLine, SourceLine] = {}
        for path, old in self._renamed.items():
            before, after = self._lines(old, of_head=False), self._lines(path, of_head=True)
            for part in self._join_replacements(path, self._opcodes(path, old), before, after):
                for gone, new in part.split(before, after):
                    name: SourceLine = (path, new[0] + 1) if new else (old, -gone[0] - 1)
                    head_hunks.update({(path, number + 1): name for number in new})
                    base_hunks.update({(old, number + 1): name for number in gone})
        return head_hunks, base_hunks

    def _join_replacements(
        self,
        path: str,
        opcodes: Sequence[tuple[str, int, int, int, int]],
        before: Sequence[str],
        after: Sequence[str],
    ) -> list[_Difference]:
        """The differences of a file; those that replace code by other code are joined with their neighbours
        in the same function.
        """
        parts: list[_Difference] = []
        for operation, i, i_end, j, j_end in opcodes:
            if operation == "equal":
                continue
            part = _Difference(range(i, i_end), range(j, j_end))
            last = parts[-1] if parts else None
            if (
                last is not None
                and j - last.head.stop <= MAX_HUNK_GAP
                and self.function((path, j + 1), of_head=True)
                == self.function((path, max(last.head.stop, 1)), of_head=True)
                and not (
                    part.is_edited_line_by_line(before, after) and last.is_edited_line_by_line(before, after)
                )
            ):
                parts[-1] = _Difference(range(last.base.start, i_end), range(last.head.start, j_end))
            else:
                parts.append(part)
        return parts

    @property
    def _head_hunks(self) -> dict[SourceLine, SourceLine]:
        return self._hunks[0]

    @property
    def _base_hunks(self) -> dict[SourceLine, SourceLine]:
        return self._hunks[1]


@dataclass(frozen=True, slots=True)
class _Difference:
    """Lines of the base that lines of the head stand for, as indices."""

    base: range
    head: range

    def pair_lines(self, before: Sequence[str], after: Sequence[str]) -> dict[int, int]:
        """Lines that were edited: each line of code of the base with the line of the head most like it."""
        pairs: dict[int, int] = {}
        for i in self.base:
            free = [j for j in self.head if j not in pairs.values() and _is_code(after[j])]
            likeness = {j: SequenceMatcher(None, before[i].strip(), after[j].strip()).ratio() for j in free}
            best = max(likeness, key=lambda j: likeness[j], default=-1)
            if best >= 0 and _is_code(before[i]) and likeness[best] >= MIN_EDITED_LIKENESS:
                pairs[i] = best
        return pairs

    def is_edited_line_by_line(self, before: Sequence[str], after: Sequence[str]) -> bool:
        """Whether each line of code that is gone has one that stands for it."""
        return len(self.pair_lines(before, after)) == sum(_is_code(before[i]) for i in self.base)

    def split(self, before: Sequence[str], after: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """The edited lines and the runs of added ones each for themselves; what replaces code as a whole."""
        if not self.is_edited_line_by_line(before, after):
            return [(list(self.base), list(self.head))]
        pairs = self.pair_lines(before, after)
        edited = {j: i for i, j in pairs.items()}
        parts: list[tuple[list[int], list[int]]] = []
        run: list[int] = []
        for j in self.head:
            if j in edited:
                parts += [([], run)] if run else []
                parts.append(([edited[j]], [j]))
                run = []
            else:
                run.append(j)
        parts += [([], run)] if run else []
        rest = [i for i in self.base if i not in pairs]
        return parts + ([(rest, [])] if rest else [])


def map_functions(text: str) -> dict[int, str]:
    """The qualified name of the function that each line of a file belongs to, the innermost."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    names: dict[int, str] = {}
    _add_functions(tree, "", names)
    return names


def _add_functions(node: ast.AST, prefix: str, names: dict[int, str]) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{child.name}".lstrip(".")
            if not isinstance(child, ast.ClassDef):
                names.update(dict.fromkeys(range(child.lineno, (child.end_lineno or child.lineno) + 1), name))
            _add_functions(child, name, names)
        else:
            _add_functions(child, prefix, names)


def _is_code(line: str) -> bool:
    stripped = line.strip()
    return bool(stripped) and not stripped.startswith("#")


def _common_share(before: str, after: str) -> float:
    """Share of the lines that both files hold, of the longer one."""
    first, second = (
        Counter(line.strip() for line in text.splitlines() if _is_code(line)) for text in (before, after)
    )
    longer = max(first.total(), second.total())
    return (first & second).total() / longer if longer else 0.0
