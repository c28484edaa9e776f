"""The pull request comment: every form as a whole, and its safety with hostile text and sizes."""

from __future__ import annotations

import functools
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rendered import Page, page_of

from perfci.model import (
    Commit,
    EnvironmentChange,
    Interval,
    Machine,
    Series,
    Stage,
    Variant,
    Verdict,
    VerdictKind,
    freeze_named_values,
)
from perfci.report.ablation_text import render_ablations_markdown
from perfci.report.pulls.comparison_findings import Findings
from perfci.report.pulls.not_measured_comment import NotMeasuredReason, render_not_measured_comment
from perfci.report.pulls.order_lines import OrderLine, render_order_lines, replace_order_lines
from perfci.report.pulls.outdated_comment import render_outdated_comment
from perfci.report.pulls.pull_comment import MAX_COMMENT_BYTES, render_pull_comment, should_comment
from perfci.verdicts.expected_change import ExpectedChange
from perfci.verdicts.goals.goal_clauses import GoalClause
from perfci.verdicts.goals.goal_verdict import ClauseVerdict, GoalOutcome, GoalVerdict
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.variants.stepwise_ablation import Ablation, AblationStep
from perfci.verdicts.variants.variant_contrast import VariantRejection
from tests.support.comment_forms import (
    EXPECTED,
    FORMS,
    REGRESSIONS,
    build_findings,
    drifted,
    new,
    removed,
    same,
    slower,
    thousand,
    undecided,
)
from tests.support.report_builders import a_commit, a_series, a_verdict


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_the_comment(form: str) -> None:
    """``python -m tests.support.comment_forms`` writes these files again."""
    assert FORMS[form]() == (EXPECTED / f"{form}.md").read_text(encoding="utf-8")


def test_every_expected_file_belongs_to_a_form() -> None:
    assert {path.stem for path in EXPECTED.glob("*.md")} == set(FORMS)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_renders_as_tables_and_our_own_link(form: str) -> None:
    page = page_of(FORMS[form]())

    assert set(page.links) <= {"https://perf.example.com/acme/tiny-lm/compare/0011001100...0012001200"}
    assert not [text for text in page.plain if "|" in text or "`" in text]


def test_the_sentence_that_explains_a_verdict_stands_whole() -> None:
    """Nothing can expand a comment; only text longer than any sentence is cut."""
    whole, hostile = f"+3.1 % over 20 pairs: too close to the threshold of {'x' * 200} to settle.", "y" * 5000
    reasons = {
        VerdictKind.INCONCLUSIVE: whole,
        VerdictKind.MISSING: whole.upper(),
        VerdictKind.FAILED: hostile,
    }
    verdicts = [
        a_verdict(kind, None, None, reason=reason, series=a_series(f"train.time_{kind}"))
        for kind, reason in reasons.items()
    ]

    comment = render_pull_comment(build_findings(verdicts))

    assert f"| `{whole}` |" in comment
    assert f"| `{whole.upper()}` |" in comment
    assert f"`{'y' * 999}…`" in comment


def test_counts_are_complete_and_omitted_rows_are_counted() -> None:
    text = render_pull_comment(build_findings(thousand()))

    assert "### perfci: 1,000 regressions on `1x NVIDIA H200` (200 unchanged)" in text
    assert "**Time**: 999 worse" in text
    assert "<summary>990 more worse</summary>" in text
    assert "… and 940 more rows not shown." in text
    assert text.count("\n| `ops.time_0") == 9 + 50 + 50


def test_a_memory_regression_is_shown_beside_a_thousand_slowdowns() -> None:
    text = render_pull_comment(build_findings(thousand()))

    above = text[: text.index("<details>")]
    assert "**Memory**: 1 worse" in above
    assert "`peak_allocated`" in above


def test_rows_come_by_effect_against_noise() -> None:
    quiet = a_verdict(ratio=1.06, series=a_series("quiet"), noise_floor=0.01)
    noisy = a_verdict(ratio=1.2, series=a_series("noisy"), noise_floor=0.1)
    candidate = a_verdict(ratio=9.0, series=a_series("suspected"), stage=Stage.SCREENING)
    broken = a_verdict(VerdictKind.FAILED, None, None, series=a_series("broken"))

    cells = page_of(render_pull_comment(build_findings([noisy, candidate, quiet, broken]))).cells

    assert [row[0] for row in cells if len(row) == 6] == [
        "Benchmark",
        "broken",
        "quiet",
        "noisy",
        "suspected",
    ]


def test_hardware_stands_in_every_row_where_it_differs() -> None:
    other = replace(
        slower(), series=replace(slower().series, machine=Machine(accelerator="NVIDIA L4", accelerators=1))
    )

    text = render_pull_comment(build_findings([slower(), other]))

    assert "on 2 kinds of machine" in text
    assert "| Noise floor | Hardware |" in text
    assert "| `1x NVIDIA L4` |" in text


def test_a_command_names_what_is_worse_or_open_and_a_shell_cannot_misread_it() -> None:
    hostile = a_verdict(series=a_series("time_$(rm -rf ~)'\n`x`"))

    text = render_pull_comment(build_findings([hostile, undecided(), *same(1)]))

    assert "--bench 'time_..rm..rf......x.|model.Gpt.measure_training'\n" in text


def test_a_working_tree_is_measured_again_without_a_head() -> None:
    head = replace(a_commit(18), dirty=True)

    assert "perfci compare 0011001100 --bench" in render_pull_comment(build_findings([slower()], head=head))


@pytest.mark.parametrize(
    ("findings", "comments"),
    [
        (build_findings(same(3)), False),
        (build_findings([new(), *same(1)]), False),
        (build_findings([undecided()]), True),
        (build_findings([removed()]), True),
        (REGRESSIONS, True),
        (
            build_findings(
                [], rejections=[VariantRejection("model.Gpt.measure_training", (), "loss is 2.4 against 2.2")]
            ),
            True,
        ),
    ],
)
def test_no_comment_is_posted_without_a_change(findings: Findings, comments: bool) -> None:
    assert should_comment(findings) is comments


def test_an_outdated_comment_is_outdated_once() -> None:
    once = render_outdated_comment(render_pull_comment(REGRESSIONS), a_commit(19))

    twice = render_outdated_comment(once, a_commit(20))

    assert twice == once.replace(a_commit(19).short_sha, a_commit(20).short_sha)
    assert (
        once.splitlines()[0]
        == "> **Outdated:** there is a newer head, `0013001300`; its result will replace this comment."
    )


def test_main_without_changes_is_one_line() -> None:
    text = render_pull_comment(build_findings([slower()], main_drift=same(3), main_head=a_commit(30)))

    assert "**Main since the merge base** (now `001e001e00`): nothing changed on main." in text


def test_an_invalid_url_is_no_link() -> None:
    text = render_pull_comment(
        build_findings([slower()], report_url="https://perf.example.com/a) [b](https://evil.example")
    )

    assert page_of(text).links == []


HOSTILE = [
    "plain",
    "`tick`",
    "```fence```",
    "````",
    "a | b",
    r"\|",
    r"a \\| b \\",
    "@team",
    "fixes #1",
    "acme/tiny-lm#1",
    "0123456789012345678901234567890123456789",
    "<script>alert(1)</script>",
    "<!-- ",
    "</details></td></table>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt; &#64;team",
    "[link](https://evil.example)",
    "![image](https://evil.example/x.png)",
    "[ref]: https://evil.example",
    "https://evil.example www.evil.example ada@evil.example",
    "line\nbreak\r\n\n# heading",
    "\n```\nout\n```\n",
    "\x00\x07\x1b[31m",
    "\u202eright to left\u2066\u200b",
    "\ud800",
    "$x^2$ :tada: ~~struck~~ **bold** __b__",
    "` ",
    " ",
    "x" * 500,
    "`" * 500,
    "|" * 500,
    "\U0001f600" * 500,
    "\\",
    "\\`",
]
"""Text that the author of a suite, a branch or a commit may choose."""


def hostile_findings(word: str) -> Findings:
    """Build findings in which all foreign text is this word."""
    series = hostile_series(word)
    verdicts = [
        Verdict(kind, stage, series, word, word, ratio, interval, 1.0, 2.0, 0.01, 0.02, 5, None, reason=word)
        for kind in VerdictKind
        for stage in Stage
        for ratio, interval in ((1.2, Interval(1.1, 1.3)), (None, None))
    ]
    clause = GoalClause(word, word, "<=", 1.0)
    broken_clause = ClauseVerdict(clause, GoalOutcome.BROKEN, series, 1.0, Interval(1.0, 2.0), reason=word)
    return Findings(
        verdicts,
        Commit(word, word, word),
        Commit(word, word, word),
        merge_base=True,
        sides_label=word,
        measurement_order="in turns",
        goals=[GoalVerdict(word, GoalOutcome.BROKEN, (broken_clause,), subject=word, reason=word)],
        rejections=[VariantRejection(word, freeze_named_values({word: word}), word)],
        environment_changes=[EnvironmentChange(word, word, word)],
        main_drift=verdicts,
        main_head=Commit(word),
        spent_budget=word,
        acceptance=word,
        expected_changes=[ExpectedChange(word, 0.1, word), ExpectedChange("nothing", 0.1, word)],
        reproduce_command=("perfci", word),
        report_url=word,
        profiled_cells=[word],
    )


def hostile_series(word: str) -> Series:
    machine, variant = Machine(name=word), Variant(((word, word),))
    return replace(a_series(word, word, word, **{word: word}), machine=machine, variant=variant)


def plain_texts(page: Page) -> list[str]:
    """Return the text outside code, with digits replaced."""
    return [re.sub(r"\d+", "#", text) for text in page.plain]


OMISSIONS = {
    f"… and # more {thing} not shown."
    for thing in ("row", "rows", "line", "lines", "reason", "reasons", "value", "rejected variant")
}
"""Notes on omitted rows, of which long words cause more."""


@functools.cache
def harmless_page() -> Page:
    return page_of(render_pull_comment(hostile_findings("plain")))


def assert_nothing_escapes(word: str) -> None:
    page, harmless = page_of(render_pull_comment(hostile_findings(word))), harmless_page()

    assert set(plain_texts(page)) <= set(plain_texts(harmless)) | OMISSIONS
    assert {len(row) for row in page.cells} <= {len(row) for row in harmless.cells}
    assert page.links == []


@pytest.mark.parametrize("word", HOSTILE)
def test_no_hostile_text_leaves_its_code_span_or_its_cell(word: str) -> None:
    assert_nothing_escapes(word)


any_text = given(
    st.text(st.sampled_from("`|\\<>&[]()!@#*_~\n\r \x00\u202e-=ax1/:."), min_size=1, max_size=40)
    | st.text(min_size=1)
)


@any_text
@settings(max_examples=50, deadline=None)
def test_no_text_at_all_leaves_its_code_span_or_its_cell(word: str) -> None:
    assert_stays_in_its_place(word)


@pytest.mark.proof
@any_text
@settings(max_examples=500, deadline=None)
def test_none_of_many_texts_leaves_its_code_span_or_its_cell(word: str) -> None:
    assert_stays_in_its_place(word)


def assert_stays_in_its_place(word: str) -> None:
    plain_class, word_class = (Policy().metric_class_of(hostile_series(text)) for text in ("plain", word))
    assume(word_class is plain_class)  # a unit such as KB rightly puts its rows under "Memory"

    assert_nothing_escapes(word)


@pytest.mark.parametrize("word", HOSTILE)
def test_an_ablation_keeps_hostile_text_in_its_code_block(word: str) -> None:
    ablation = Ablation(
        word,
        word,
        ((word, word),),
        (AblationStep(word, ()), AblationStep(word, (), rejection_reason=f"oom: {word}")),
    )

    page = page_of(render_ablations_markdown([ablation], Policy()))

    assert [text for text in page.plain if text.strip()] == ["ablation "]


@pytest.mark.parametrize("reason", NotMeasuredReason)
@pytest.mark.parametrize("word", HOSTILE)
def test_an_error_message_stays_in_code(word: str, reason: NotMeasuredReason) -> None:
    page = page_of(render_not_measured_comment(reason, Commit(word), Commit(word), detail=word, page=word))

    assert page.links == []
    harmless = render_not_measured_comment(reason, Commit("b"), Commit("h"), detail=word and "d", page="p")
    assert set(plain_texts(page)) <= set(plain_texts(page_of(harmless)))


numbers = st.floats(allow_nan=False) | st.none()
verdicts = st.builds(
    Verdict,
    st.sampled_from(VerdictKind),
    st.sampled_from(Stage),
    st.sampled_from([hostile_series(word) for word in HOSTILE]),
    st.just("b"),
    st.just("h"),
    numbers,
    st.builds(Interval, st.floats(allow_nan=False), st.floats(allow_nan=False)) | st.none(),
    numbers,
    numbers,
    numbers,
    numbers,
    st.integers(),
    st.integers() | st.none(),
    reason=st.sampled_from(HOSTILE),
)


@given(st.lists(verdicts, max_size=12), st.sampled_from([1, 3, 100]), st.sampled_from(HOSTILE))
@settings(max_examples=60, deadline=None)
def test_a_comment_stays_below_what_github_takes(repeated: list[Verdict], times: int, word: str) -> None:
    findings = replace(hostile_findings(word), verdicts=repeated * times, main_drift=repeated * times)

    text = render_pull_comment(findings)

    page_of(text)
    assert len(text.encode()) < MAX_COMMENT_BYTES
    assert len(render_outdated_comment(text, Commit(word)).encode()) < 65_535


def test_a_thousand_long_hostile_names_fit() -> None:
    words = [f"{k}{'`|' * 250}" for k in range(1000)]
    verdicts = [a_verdict(series=hostile_series(word), reason=word) for word in words]
    goals = [GoalVerdict(word, GoalOutcome.BROKEN, (), reason=word) for word in words]

    text = render_pull_comment(
        replace(hostile_findings("😀" * 500), verdicts=verdicts, main_drift=[drifted()] * 1000, goals=goals)
    )

    assert len(text.encode()) < MAX_COMMENT_BYTES
    assert "1,000 regressions, 1,000 goals broken" in text
    page_of(text)


def test_a_smoke_comparison_is_reproduced_with_smoke() -> None:
    comment = render_pull_comment(build_findings([slower()], smoke=True))

    assert "perfci compare 0011001100 0012001200 --smoke --bench model.Gpt.measure_training" in comment


def test_order_lines_are_replaced_and_leave_with_an_older_head() -> None:
    report = render_pull_comment(build_findings([slower()]))
    first, second = (
        render_order_lines([OrderLine(["bob"], "", None, state)]) for state in ("queued", "done")
    )

    shown = replace_order_lines(replace_order_lines(report, first), second)

    assert shown == f"{second}\n{report}"
    assert replace_order_lines(shown, "") == report
    assert render_outdated_comment(shown, a_commit(19)) == render_outdated_comment(report, a_commit(19))
    assert render_outdated_comment(first, a_commit(19)).count("\n") == 1
    assert len(render_order_lines([OrderLine(["bob"], "", None, "queued")] * 9).splitlines()) == 5


def test_says_why_below_the_regressions() -> None:
    sentence = "`net.py:10` takes 3.000 ms more of each call: 92 % of the slowdown [85, 97]."

    text = render_pull_comment(build_findings([slower()], explanations=[sentence]))

    assert f"\n**Why**: {sentence}\n" in text
