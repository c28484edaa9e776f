"""What two profiles explain: profiles made by hand, whose truth is known."""

from __future__ import annotations

import re

import pytest

from perfci.report.commits.explanation_text import format_explanation
from perfci.verdicts.explain.call_profile import CallProfile, GraphBreak, OperatorCalls, StackTime
from perfci.verdicts.explain.explain_profiles import explain_by_counts, explain_profiles
from perfci.verdicts.explain.explanation import Cause, CauseKind, Conclusion, CountChange, Explanation
from perfci.verdicts.explain.source_alignment import SourceAlignment

BASE = """\
def train(model, batch):
    loss = model(batch)
    loss.backward()
    log(loss)


def model(x):
    x = embed(x)
    x = mix(x)
    return head(x)


def log(loss):
    history.append(loss)
"""

MS = 1e-3


def name_operator(texts: str) -> str:
    """The function that the innermost line calls."""
    return f"aten::{re.findall(r'([a-z]+)[(]', texts.split(' > ')[-1])[0]}"


def a_process(
    source: str, *rows: tuple[str, str, float], speed: float = 1.0, path: str = "net.py"
) -> CallProfile:
    """A process of 100 calls; a row is a phase, open lines by their text and milliseconds."""
    lines = {line.strip(): number for number, line in enumerate(source.splitlines(), 1)}

    def place(texts: str) -> tuple[tuple[str, int], ...]:
        return tuple((path, lines[text]) for text in texts.split(" > "))

    stacks = tuple(
        StackTime(phase, place(texts), time_ms * MS * speed, time_ms * MS * speed)
        for phase, texts, time_ms in rows
    )
    # One operator a line, on inputs that say how much work it is.
    work = tuple(
        OperatorCalls(phase, place(texts), name_operator(texts), "float32(8,)", 1.0, time_ms * MS)
        for phase, texts, time_ms in rows
    )
    whole = sum(time_ms for _, _, time_ms in rows) * MS * speed
    return CallProfile(stacks, work, ((whole, whole),) * 100, {path: source})


LOSS, MIX, HEAD = "loss = model(batch)", "x = mix(x)", "return head(x)"

START = (
    ("forward", f"{LOSS} > x = embed(x)", 2.0),
    ("forward", f"{LOSS} > {MIX}", 4.0),
    ("forward", f"{LOSS} > {HEAD}", 2.0),
    ("backward", "loss.backward()", 6.0),
    ("forward", "log(loss) > history.append(loss)", 1.0),
)


def explain(
    head_source: str, *head_rows: tuple[str, str, float], path: str = "net.py", **options: float
) -> Explanation:
    bases = [a_process(BASE, *START) for _ in range(2)]
    return explain_profiles(
        bases, [a_process(head_source, *head_rows, path=path) for _ in range(2)], **options
    )


def only(explanation: Explanation) -> Cause:
    (cause,) = explanation.causes
    return cause


def test_a_new_call_is_blamed_and_not_the_model_it_calls() -> None:
    source = BASE.replace("    log(loss)\n", "    again = model(batch)\n    log(loss)\n")
    rows = [(phase, texts.replace(LOSS, "again = model(batch)"), ms) for phase, texts, ms in START[:3]]

    cause = only(explain(source, *START, *rows))

    assert (cause.line.text, cause.line.number, cause.line.function) == ("again = model(batch)", 4, "train")
    assert (cause.kind, cause.phase, cause.share) == (CauseKind.CHANGED_CODE, "forward", 1.0)


def test_lines_that_only_moved_are_no_change() -> None:
    source = "import numpy\n\n\n" + BASE.replace("    x = mix(x)\n", "    x = mix(x)\n    x = sort(x)\n")

    cause = only(explain(source, *START, ("forward", f"{LOSS} > x = sort(x)", 3.0)))

    assert (cause.line.text, cause.line.number, cause.operator) == ("x = sort(x)", 13, "aten::sort")


def test_a_renamed_file_is_the_same_file() -> None:
    source = BASE.replace("    x = mix(x)\n", "    x = mix(x)\n    x = sort(x)\n")

    cause = only(explain(source, *START, ("forward", f"{LOSS} > x = sort(x)", 3.0), path="models/net.py"))

    assert (cause.line.path, cause.line.text) == ("models/net.py", "x = sort(x)")


def test_a_function_that_moved_to_another_file_is_the_same_function() -> None:
    model = BASE[BASE.index("def model") : BASE.index("def log")]
    alignment = SourceAlignment(
        {"net.py": BASE}, {"net.py": BASE.replace(model, ""), "model.py": "\n\n" + model}
    )

    assert alignment.base_line(("model.py", 4)) == ("net.py", 8)
    assert not alignment.has_changes


def test_what_the_old_code_took_is_taken_off() -> None:
    source = BASE.replace("    x = mix(x)\n", "    scores = product(x)\n    x = weigh(scores)\n")
    rows = [row for row in START if MIX not in row[1]]

    cause = only(
        explain(
            source,
            *rows,
            ("forward", f"{LOSS} > scores = product(x)", 6.0),
            ("forward", f"{LOSS} > x = weigh(scores)", 3.0),
        )
    )

    assert cause.line.text == "scores = product(x)"
    assert cause.seconds == pytest.approx(5 * MS)
    assert cause.share == 1.0


def test_two_causes_share_the_slowdown() -> None:
    source = BASE.replace("    x = mix(x)\n", "    x = mix(x)\n    x = sort(x)\n").replace(
        "    history.append(loss)\n", "    history.append(loss)\n    history.sort()\n"
    )

    explanation = explain(
        source,
        *START,
        ("forward", f"{LOSS} > x = sort(x)", 3.0),
        ("forward", "log(loss) > history.sort()", 2.0),
    )

    assert [(cause.line.text, round(cause.share, 2)) for cause in explanation.causes] == [
        ("x = sort(x)", 0.6),
        ("history.sort()", 0.4),
    ]
    assert sum(cause.share for cause in explanation.causes) <= 1.0


def test_shares_are_never_more_than_the_whole_where_something_else_got_faster() -> None:
    source = BASE.replace("    x = mix(x)\n", "    x = sort(x)\n").replace(
        "    x = embed(x)\n", "    x = lookup(x)\n"
    )
    rows = [row for row in START if MIX not in row[1] and "embed" not in row[1]]

    explanation = explain(
        source, *rows, ("forward", f"{LOSS} > x = sort(x)", 9.0), ("forward", f"{LOSS} > x = lookup(x)", 0.5)
    )

    assert explanation.causes[0].line.text == "x = sort(x)"
    assert sum(cause.share for cause in explanation.causes) <= 1.0


def test_an_unchanged_line_of_other_operators_names_the_change_that_sets_it_up() -> None:
    setup = "def build():\n    return Optimizer(fused=True)\n\n\n"
    base, head = setup + BASE, setup.replace("True", "False") + BASE
    slower = [
        a_process(head, *START[:-1], ("forward", "log(loss) > history.append(loss)", 5.0)) for _ in range(2)
    ]
    other_work = [
        CallProfile(
            process.stacks,
            (*process.operator_calls[:-1], *(process.operator_calls[-1],) * 3),
            process.calls_s,
            process.sources,
        )
        for process in slower
    ]

    cause = only(explain_profiles([a_process(base, *START)] * 2, other_work))

    assert (cause.kind, cause.line.text) == (CauseKind.MORE_WORK, "history.append(loss)")
    assert [line.text for line in cause.changed] == [
        "return Optimizer(fused=False)",
        "return Optimizer(fused=True)",
    ]


def test_a_new_graph_break_is_named_with_its_reason() -> None:
    source = BASE.replace("    x = mix(x)\n", "    x = mix(x)\n    if x.any(): stop()\n")
    rows = [(phase, texts, ms * (2 if LOSS in texts else 1)) for phase, texts, ms in START]
    head = a_process(source, *rows)
    place = (("net.py", 10),)
    broken = CallProfile(
        head.stacks,
        head.operator_calls,
        head.calls_s,
        head.sources,
        (GraphBreak("data-dependent jump", place),),
    )

    cause = only(explain_profiles([a_process(BASE, *START)] * 2, [broken] * 2))

    assert (cause.kind, cause.line.text) == (CauseKind.GRAPH_BREAK, "if x.any(): stop()")
    assert cause.reason == "data-dependent jump"


@pytest.mark.parametrize("edit", ["    x = mix(x)\n", "    x = mix(x)  # the tokens\n"])
def test_a_slower_machine_gets_no_line(edit: str) -> None:
    source = BASE.replace("    x = mix(x)\n", edit)
    rows = [(phase, texts.replace(MIX, edit.strip()), ms) for phase, texts, ms in START]
    heads = [a_process(source, *rows, speed=speed) for speed in (1.3, 1.4)]

    explanation = explain_profiles([a_process(BASE, *START)] * 2, heads)

    assert (explanation.conclusion, explanation.causes) == (Conclusion.MACHINE, ())
    assert explanation.slower_machine == pytest.approx(1.35)
    assert format_explanation(explanation).startswith("No line of code explains it: ")


def test_says_that_the_profile_does_not_show_it() -> None:
    explanation = explain(BASE, *START, expected_change=0.12)

    assert format_explanation(explanation) == (
        "The profile does not show the slowdown: 4 processes took 15.00 ms at the base and 15.00 ms at the "
        "head for a call (0.0 %), where the verdict has +12.0 %."
    )


def test_a_share_is_of_the_verdict_where_that_is_more() -> None:
    source = BASE.replace("    x = mix(x)\n", "    x = mix(x)\n    x = sort(x)\n")

    cause = only(explain(source, *START, ("forward", f"{LOSS} > x = sort(x)", 3.0), expected_change=0.4))

    assert cause.share == pytest.approx(0.5)


def test_the_sentence_says_where_what_and_how_much() -> None:
    source = BASE.replace("    x = mix(x)\n", "    x = mix(x)\n    x = sort(x)\n")
    explanation = explain(source, *START, ("forward", f"{LOSS} > x = sort(x)", 3.0))

    plain = (
        "net.py:10 x = sort(x) takes 3.000 ms more of each call in forward, most of it aten::sort: "
        "100 % of the slowdown [92, 100]."
    )
    assert format_explanation(explanation) == plain
    assert format_explanation(explanation, markdown=True).startswith(
        "`net.py:10` `x = sort(x)` takes 3.000 ms more"
    )


def test_hostile_source_stays_in_its_code_span() -> None:
    line = "x = sort(x)  # `@all` <b> closes #1"
    source = BASE.replace("    x = mix(x)\n", f"    x = mix(x)\n    {line}\n")
    explanation = explain(source, *START, ("forward", f"{LOSS} > {line}", 3.0))

    assert f"``{line}``" in format_explanation(explanation, markdown=True)


def test_stored_counts_speak_before_anything_is_profiled() -> None:
    changes = [CountChange("flops", "FLOP", 100.0, 198.0), CountChange("host_syncs", "count", 0.0, 3.0)]

    assert format_explanation(explain_by_counts(changes)) == (
        "Stored counts moved: host_syncs 0 → 3, flops +98.0 %; no profile says in which line yet."
    )
    assert format_explanation(explain_by_counts([])) == (
        "Not explained: no exact count that is stored for both commits grew, and nothing is profiled."
    )
