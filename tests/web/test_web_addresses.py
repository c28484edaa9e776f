"""Names in addresses."""

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from web_builders import MACHINE, STEP_TIME, a_series

from perfci.config import RESERVED_PROJECTS
from perfci.model import Benchmark, Machine, Series, Variant
from perfci.net.url_segments import FORMAT_SUFFIXES, decode_segment, encode_segment
from perfci_web.page_urls import ProjectLinks, encode_project_segment, matches_url_query
from perfci_web.url_lookups import Suggestion, closest_suggestions

names = (
    st.text(max_size=30)
    | st.text(alphabet="ab/.~:%-_ é", max_size=12)
    | st.sampled_from(sorted(RESERVED_PROJECTS))
)


@given(names)
@settings(deadline=None, derandomize=True, max_examples=300)
def test_every_name_has_one_spelling_that_reads_back(name: str) -> None:
    spelled = encode_project_segment(name)

    assert decode_segment(spelled, RESERVED_PROJECTS) == name
    assert re.fullmatch(r"[A-Za-z0-9._:~-]+", spelled)
    assert spelled not in {".", ".."} | RESERVED_PROJECTS
    assert not spelled.endswith(tuple(f".{twin}" for twin in FORMAT_SUFFIXES))


@given(names, names)
@settings(deadline=None, derandomize=True, max_examples=300)
def test_no_two_names_share_a_spelling(name: str, other: str) -> None:
    assert (encode_project_segment(name) == encode_project_segment(other)) == (name == other)


@given(st.text(alphabet="ab/.~:%2E7F-_", max_size=10))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_no_name_has_two_spellings(text: str) -> None:
    try:
        name = decode_segment(text)
    except ValueError:
        return

    assert encode_segment(name) == text


@pytest.mark.parametrize(
    ("name", "spelled"),
    [
        ("acme/tiny-lm", "acme:tiny-lm"),
        ("a b", "a~20b"),
        ("a:b", "a~3Ab"),
        ("api", "~61pi"),
        ("results.json", "results~2Ejson"),
        ("", "~"),
        ("..", "~2E~2E"),
        ("test_x.py::test_y[a]", "test_x.py~3A~3Atest_y~5Ba~5D"),
    ],
)
def test_names_stay_readable(name: str, spelled: str) -> None:
    assert encode_project_segment(name) == spelled


@pytest.mark.parametrize("text", ["a/b", "a~2", "a~zz", "~41", "a%20b", "a b", "~FF", "a.json"])
def test_what_is_no_spelling_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"name|decode"):
        decode_segment(text)


def test_a_series_is_named_by_its_parameters() -> None:
    assert ProjectLinks("acme/tiny-lm").series(STEP_TIME) == (
        "/acme:tiny-lm/s/train.Step.time_step/cpu_time?p.batch=8&p.dtype=%27bf16%27"
    )


def test_an_address_names_what_else_differs_only_where_something_does() -> None:
    other = Series(STEP_TIME.benchmark, STEP_TIME.parameters, STEP_TIME.metric, Machine(name="laptop"))

    links = ProjectLinks("p", [STEP_TIME, other])

    assert links.series(other).endswith("&machine=laptop")
    assert "machine=AMD+EPYC+9354,+2+cores,+16+GB" in links.series(STEP_TIME)


@pytest.mark.parametrize(
    "other",
    [
        Series(STEP_TIME.benchmark, STEP_TIME.parameters, STEP_TIME.metric, Machine(name="laptop")),
        Series(Benchmark(STEP_TIME.benchmark.name, "2"), STEP_TIME.parameters, STEP_TIME.metric, MACHINE),
        Series(
            STEP_TIME.benchmark,
            STEP_TIME.parameters,
            STEP_TIME.metric,
            MACHINE,
            Variant((("python", "3.12"),)),
        ),
        Series(STEP_TIME.benchmark, STEP_TIME.parameters, STEP_TIME.metric, MACHINE, harness="2"),
        Series(STEP_TIME.benchmark, STEP_TIME.parameters, STEP_TIME.metric, Machine()),
        a_series("train.Step.time_step", batch=8, dtype="'fp32'"),
    ],
)
def test_an_address_means_the_series_it_was_made_for_and_no_other(other: Series) -> None:
    links = ProjectLinks("p", [STEP_TIME, other])

    for item, stranger in ((STEP_TIME, other), (other, STEP_TIME)):
        query = dict(parse_qsl(urlsplit(links.series(item)).query, keep_blank_values=True))
        assert matches_url_query(item, query)
        assert not matches_url_query(stranger, query)


def test_two_machines_of_one_label_are_told_apart() -> None:
    gpus = [Machine(cpu=cpu, accelerator="NVIDIA H200", accelerators=2) for cpu in ("AMD EPYC", "Intel Xeon")]
    item, other = (Series(STEP_TIME.benchmark, (), STEP_TIME.metric, machine) for machine in gpus)

    links = ProjectLinks("p", [item, other])

    assert links.series(item) != links.series(other)


def test_a_text_parameter_may_be_typed_without_its_quotes() -> None:
    assert matches_url_query(STEP_TIME, {"p.dtype": "bf16"})
    assert not matches_url_query(STEP_TIME, {"p.dtype": "fp32"})
    assert not matches_url_query(STEP_TIME, {"p.unknown": "1"})


def test_knobs_of_the_page_mean_no_series() -> None:
    assert matches_url_query(STEP_TIME, {"most": "100", "utm_source": "mail"})


def test_links_respect_where_the_application_is_mounted() -> None:
    assert ProjectLinks("p", root="/perf").overview == "/perf/p/"


def test_a_missing_page_offers_what_looks_most_like_it() -> None:
    suggestions = [
        Suggestion(name, f"/{name}") for name in ("train.time_step", "serve.time_token", "train.time_data")
    ]

    assert closest_suggestions("train.time_stop", suggestions)[0].label == "train.time_step"
    assert len(closest_suggestions("zzz", suggestions)) == 3
