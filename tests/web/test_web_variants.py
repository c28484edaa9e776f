"""The page of variants: ladders of a comparison and of an ablation, rejected steps, goals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from page_reading import words
from web_builders import NOW, a_store

from perfci.model import (
    GoalClauseRecord,
    GoalRecord,
    Interval,
    Series,
    Stage,
    VariantComparisonRecord,
    VariantNumericsRecord,
    VariantStepRecord,
    Verdict,
    VerdictKind,
)
from perfci.store import Store
from perfci.store.writes.find_or_add_rows import upsert_commits
from perfci.store.writes.measured_sessions import start_session
from perfci.store.writes.variant_comparisons import add_goals, add_variant_comparison
from perfci_web import create_app
from tests.support.builders import PROJECT, a_commit, a_series, a_sha

P = "/acme:model"
SCRIPT = "<script>alert(1)</script>"
GPT = "model.Gpt.measure_training"
SHARED = (("batch", "8"),)


def a_step_series(attn: str, metric: str = "step_time", unit: str = "seconds") -> Series:
    return replace(a_series(GPT, metric, unit=unit), parameters=(("attn", f"'{attn}'"), *SHARED))


def a_step_verdict(series: Series, ratio: float, base_level: float = 0.012) -> Verdict:
    kind = VerdictKind.IMPROVEMENT if ratio < 1 else VerdictKind.REGRESSION
    return Verdict(
        kind,
        Stage.CONFIRMATION,
        series,
        a_sha(7),
        a_sha(7),
        ratio,
        Interval(ratio - 0.01, ratio + 0.01),
        base_level,
        base_level * ratio,
        pairs=10,
    )


def an_ablation() -> VariantComparisonRecord:
    flash, bf16 = a_step_series("flash"), a_step_series("bf16")
    memory = a_step_series("flash", "peak_allocated", "bytes")
    flash_verdicts = (a_step_verdict(memory, 1.25, 2**30), a_step_verdict(flash, 0.8, 0.006))
    place = (GPT, SHARED)
    steps = (
        VariantStepRecord(*place, "baseline"),
        VariantStepRecord(*place, "+bf16", "baseline", (a_step_verdict(bf16, 0.5),)),
        VariantStepRecord(*place, f"+{SCRIPT}", rejection_reason="rejected: fails parity, loss is 2.4"),
        VariantStepRecord(*place, "+flash", "+bf16", flash_verdicts),
        VariantStepRecord(*place, "total", "baseline", (a_step_verdict(flash, 0.52),), is_total=True),
    )
    return VariantComparisonRecord("ablation", "training", a_sha(7), "ladder", NOW, steps)


def a_comparison() -> VariantComparisonRecord:
    steps = (
        VariantStepRecord(GPT, SHARED, "attn=sdpa"),
        VariantStepRecord(
            GPT,
            SHARED,
            "attn=flash",
            "attn=sdpa",
            (a_step_verdict(a_step_series("flash"), 0.8),),
            numerics=(
                VariantNumericsRecord("loss_at_step_k", "agrees", "the same"),
                VariantNumericsRecord("grad_norm", "undecided", f"grad_norm is 1.1 against 1.0 {SCRIPT}"),
            ),
        ),
    )
    return VariantComparisonRecord("vary", "attn=sdpa,flash", a_sha(6), "varied", NOW, steps)


def goals() -> list[GoalRecord]:
    clauses = (
        GoalClauseRecord("step_time <= 0.67x", "met", a_step_series("flash"), 0.52, Interval(0.51, 0.53)),
        GoalClauseRecord(
            "peak_allocated <= 1.0x",
            "undecided",
            a_step_series("flash", "peak_allocated", "bytes"),
            1.0,
            Interval(0.98, 1.03),
            "about 12 more pairs would decide",
        ),
    )
    about = (a_sha(7), a_sha(7), "ladder", NOW)
    of_commits = (a_sha(5), a_sha(7), "pairs", NOW)
    return [
        GoalRecord("fast and lean", "+flash", "undecided", "", *about, clauses),
        GoalRecord("exact", "", "rejected", f"loss is 2.4 {SCRIPT}", *of_commits, ()),
    ]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    with closing(a_store(tmp_path_factory.mktemp("variants"))) as store:
        store_variants(store)
        app = create_app(store, clock=lambda: NOW)
        yield app.test_client()
        app.extensions["perfci"].group_commit.close()


def store_variants(store: Store) -> None:
    """Store both comparisons with their goals, and the commits they are of."""
    with store.begin() as tx:
        upsert_commits(tx, PROJECT, [a_commit(number) for number in range(1, 9)])
        for session in ("varied", "ladder", "pairs"):
            start_session(tx, PROJECT, session, "variants", session, 7, 0, NOW)
        add_variant_comparison(tx, PROJECT, a_comparison())
        add_variant_comparison(tx, PROJECT, an_ablation())
        add_goals(tx, PROJECT, goals())


def test_shows_every_step_with_level_change_interval_and_gain(client: FlaskClient) -> None:
    page = client.get(f"{P}/variants").text
    text = words(page)

    assert "Ablation training: 1 regression, 2 improvements, 1 rejected." in text
    speed = text.partition("step_time")[2]
    assert "baseline 12.00 ms" in speed
    assert "+bf16against baseline 6.000 ms −50.0 % [−51.0, −49.0] 2.00x 10" in speed
    assert "+flashagainst +bf16 4.800 ms −20.0 % [−21.0, −19.0] 1.25x 10" in speed
    assert "totalagainst baseline −48.0 % [−49.0, −47.0] 1.92x 10" in speed
    assert text.index("step_time") < text.index("peak_allocated")
    assert f"+{SCRIPT} ✕ rejectedfails parity, loss is 2.4" in text
    assert "<script>alert" not in page


def test_shows_in_which_numerics_a_variant_agrees(client: FlaskClient) -> None:
    page = client.get(f"{P}/variants").text
    (step,) = (
        step
        for record in client.get(f"{P}/variants.json").get_json()["comparisons"]
        for step in record["steps"]
        if step["numerics"]
    )

    assert f"≈ attn=flash at {GPT} agrees with the baseline in loss_at_step_k" in words(page)
    assert f"? attn=flash at {GPT}, undecided: grad_norm is 1.1 against 1.0 {SCRIPT}" in words(page)
    assert step["numerics"][0] == {"metric": "loss_at_step_k", "outcome": "agrees", "text": "the same"}
    assert "<script>alert" not in page


def test_shows_goals_with_clauses_estimates_and_reasons(client: FlaskClient) -> None:
    text = words(client.get(f"{P}/variants").text).partition("Goals with their clauses")[2]

    assert "? undecided goal fast and lean, +flash" in text
    assert "step_time <= 0.67x ✓ met 0.520x [0.510, 0.530] model.Gpt.measure_training('flash', 8)" in text
    assert "peak_allocated <= 1.0xabout 12 more pairs would decide ? undecided 1.000x [0.980, 1.030]" in text
    assert f"✕ rejected goal exact {a_sha(5)[:7]} → {a_sha(7)[:7]}" in text
    assert f"loss is 2.4 {SCRIPT}" in text


def test_a_commit_leads_to_its_variants_and_their_goals(client: FlaskClient) -> None:
    commit = client.get(f"{P}/commit/{a_sha(7)}").text

    assert f'href="{P}/variants?commit={a_sha(7)[:12]}">1 comparison of variants<' in commit
    assert "of variants" not in client.get(f"{P}/commit/{a_sha(4)}").text
    text = words(client.get(f"{P}/variants?commit={a_sha(6)[:12]}").text)
    assert "Vary attn=sdpa,flash: 1 improvement." in text
    assert "training" not in text.partition("Step Level")[0].replace("measure_training", "")


def test_twins_hold_every_step_and_clause_in_full(client: FlaskClient) -> None:
    fields = client.get(f"{P}/variants.json?session=ladder").get_json()
    steps = client.get(f"{P}/variants.csv?session=ladder").text.splitlines()
    clauses = client.get(f"{P}/goals.csv").text.splitlines()

    (comparison,) = fields["comparisons"]
    assert [step["step"] for step in comparison["steps"]][1::2] == ["+bf16", "+flash"]
    assert comparison["steps"][1]["verdicts"][0]["ratio"] == 0.5
    assert [goal["name"] for goal in fields["goals"]] == ["fast and lean"]
    assert len(steps) == 1 + 6
    assert steps[2].startswith(f"ablation,training,{a_sha(7)},ladder,")
    assert steps[2].endswith(",,0.006,0.5,0.49,0.51,10,improvement,")
    assert len(clauses) == 1 + 3
    assert clauses[1].startswith("fast and lean,'+flash,undecided,")


def test_says_how_variants_are_compared_where_none_were(client: FlaskClient) -> None:
    text = words(client.get(f"{P}/variants?commit={a_sha(3)}").text)

    assert "No variants were compared here." in text
    assert "perfci compare --vary attn=sdpa,flash" in text


def test_a_page_shows_few_rows_of_a_large_comparison(tmp_path: Path) -> None:
    steps = tuple(
        VariantStepRecord(
            f"model.B{number}", (), f"v{k}", "v0", (a_step_verdict(a_series(f"model.B{number}"), 0.9),)
        )
        for number in range(3)
        for k in range(100)
    )
    with closing(a_store(tmp_path)) as store:
        with store.begin() as tx:
            start_session(tx, PROJECT, "large", "variants", "large", 7, 0, NOW)
            for _ in range(6):
                record = VariantComparisonRecord("vary", "v=0,1", a_sha(1), "large", NOW, steps)
                add_variant_comparison(tx, PROJECT, record)
        client = create_app(store, clock=lambda: NOW).test_client()
        page = client.get(f"{P}/variants")
        rows = client.get(f"{P}/variants.csv").text.count("\n")

    assert page.text.count("<tr>") < 150
    assert page.text.count("<") / 2 < 3000
    assert "and 76 more steps" in words(page.text)
    assert "and 2 more tables" in words(page.text)
    assert "older →" in words(page.text)
    assert rows == 1 + 6 * 300


def test_leaves_out_what_repeats_a_row_or_has_only_numerics(tmp_path: Path) -> None:
    flash = (a_step_verdict(a_step_series("flash"), 0.75),)
    steps = (
        VariantStepRecord("model.Gpt.track_loss", (), "baseline"),
        VariantStepRecord("model.Gpt.track_loss", (), "+flash", "baseline"),
        VariantStepRecord(GPT, SHARED, "baseline"),
        VariantStepRecord(GPT, SHARED, "+flash", "baseline", flash),
        VariantStepRecord(GPT, SHARED, "total", "baseline", flash, is_total=True),
    )
    with closing(a_store(tmp_path)) as store:
        with store.begin() as tx:
            start_session(tx, PROJECT, "short", "variants", "short", 7, 0, NOW)
            record = VariantComparisonRecord("ablation", "short", a_sha(1), "short", NOW, steps)
            add_variant_comparison(tx, PROJECT, record)
        text = words(create_app(store, clock=lambda: NOW).test_client().get(f"{P}/variants").text)

    assert "+flashagainst baseline 9.000 ms −25.0 %" in text
    assert "totalagainst" not in text
    assert "track_loss" not in text
