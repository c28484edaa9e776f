"""Addresses of pages, and the names encoded in them."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from web_builders import MACHINE, STEP_TIME, a_series

from perfci.config import RESERVED_PROJECTS
from perfci.model import Benchmark, Machine, Series, Variant
from perfci.net.url_segments import FORMAT_SUFFIXES, decode_segment, encode_segment
from perfci_web.page_urls import ProjectLinks, encode_project_segment, series_matches_url_query
from perfci_web.place_slugs import machine_slug, variant_slug
from perfci_web.url_lookups import MAX_COMPARED_NAMES, find_closest_names

names = (
    st.text(max_size=30)
    | st.text(alphabet="ab/.~:%-_ é", max_size=12)
    | st.sampled_from(sorted(RESERVED_PROJECTS))
)


@given(names)
@settings(deadline=None, derandomize=True, max_examples=300)
def test_decodes_every_encoded_name(name: str) -> None:
    spelled = encode_project_segment(name)

    assert decode_segment(spelled, RESERVED_PROJECTS) == name
    assert re.fullmatch(r"[A-Za-z0-9._:~-]+", spelled)
    assert spelled not in {".", ".."} | RESERVED_PROJECTS
    assert not spelled.endswith(tuple(f".{twin}" for twin in FORMAT_SUFFIXES))


@given(names, names)
@settings(deadline=None, derandomize=True, max_examples=300)
def test_encodes_different_names_differently(name: str, other: str) -> None:
    assert (encode_project_segment(name) == encode_project_segment(other)) == (name == other)


@given(st.text(alphabet="ab/.~:%2E7F-_", max_size=10))
@settings(deadline=None, derandomize=True, max_examples=300)
def test_accepts_one_encoding_of_each_name(text: str) -> None:
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
def test_keeps_names_readable(name: str, spelled: str) -> None:
    assert encode_project_segment(name) == spelled


@pytest.mark.parametrize("text", ["a/b", "a~2", "a~zz", "~41", "a%20b", "a b", "~FF", "a.json"])
def test_refuses_segments_that_encode_nothing(text: str) -> None:
    with pytest.raises(ValueError, match=r"name|decode"):
        decode_segment(text)


def test_addresses_a_series_by_its_parameters() -> None:
    assert ProjectLinks("acme/tiny-lm").series(STEP_TIME) == (
        "/acme:tiny-lm/s/train.Step.time_step/cpu_time?m=amd-epyc-9354-042c&p.batch=8&p.dtype=%27bf16%27"
    )


def test_an_address_means_the_same_when_other_series_appear() -> None:
    before = ProjectLinks("p", [STEP_TIME]).series(STEP_TIME)
    places = [
        replace(STEP_TIME, machine=Machine(name="laptop")),
        replace(STEP_TIME, variant=Variant((("python", "3.12"),))),
    ]

    after = ProjectLinks("p", [STEP_TIME, *places]).series(STEP_TIME)

    assert before == after
    query = dict(parse_qsl(urlsplit(before).query))
    assert [series_matches_url_query(item, query) for item in (STEP_TIME, *places)] == [True, False, False]


any_machine = st.builds(
    Machine,
    names,
    st.integers(1, 4) | st.none(),
    st.integers(1, 4) | st.none(),
    names,
    st.integers(0, 8),
    names,
)
any_variant = st.dictionaries(st.sampled_from(["python", "torch", "environment_type"]), names).map(
    lambda axes: Variant(tuple(sorted(axes.items())))
)


@given(any_machine, any_variant)
@settings(deadline=None, derandomize=True, max_examples=200)
def test_names_places_in_few_plain_characters(machine: Machine, variant: Variant) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._-]{1,44}", machine_slug(machine))
    assert re.fullmatch(r"[A-Za-z0-9._-]{0,44}", variant_slug(variant))
    assert bool(variant_slug(variant)) == bool(variant.values)


@pytest.mark.parametrize(
    ("machine", "slug"),
    [
        (Machine(name="ubuntu-latest"), "ubuntu-latest"),
        (Machine(name="the lab's box"), "the-lab-s-box-d0d0"),
        (Machine("Intel Xeon", 32, 2000, "NVIDIA H200", 8), "8x-nvidia-h200-4123"),
        (Machine(), "unknown-e675"),
    ],
)
def test_names_a_machine_by_what_people_call_it(machine: Machine, slug: str) -> None:
    assert machine_slug(machine) == slug


@pytest.mark.parametrize(
    ("axes", "slug"),
    [
        ((), ""),
        ((("python", "3.13"),), "py3.13"),
        ((("environment_type", "conda"), ("python", "3.13")), "conda-py3.13-aed1"),
    ],
)
def test_names_a_variant_by_its_axes(axes: tuple[tuple[str, str], ...], slug: str) -> None:
    assert variant_slug(Variant(axes)) == slug


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
def test_matches_exactly_the_series_of_an_address(other: Series) -> None:
    links = ProjectLinks("p", [STEP_TIME, other])

    for item, stranger in ((STEP_TIME, other), (other, STEP_TIME)):
        query = dict(parse_qsl(urlsplit(links.series(item)).query, keep_blank_values=True))
        assert series_matches_url_query(item, query)
        assert not series_matches_url_query(stranger, query)


def test_distinguishes_two_machines_with_the_same_label() -> None:
    gpus = [Machine(cpu=cpu, accelerator="NVIDIA H200", accelerators=2) for cpu in ("AMD EPYC", "Intel Xeon")]
    item, other = (Series(STEP_TIME.benchmark, (), STEP_TIME.metric, machine) for machine in gpus)

    links = ProjectLinks("p", [item, other])

    assert links.series(item) != links.series(other)


def test_accepts_a_text_parameter_without_quotes() -> None:
    assert series_matches_url_query(STEP_TIME, {"p.dtype": "bf16"})
    assert not series_matches_url_query(STEP_TIME, {"p.dtype": "fp32"})
    assert not series_matches_url_query(STEP_TIME, {"p.unknown": "1"})


def test_ignores_query_options_of_the_page() -> None:
    assert series_matches_url_query(STEP_TIME, {"most": "100", "utm_source": "mail"})


def test_prefixes_links_with_the_mount_path() -> None:
    assert ProjectLinks("p", root="/perf").overview == "/perf/p/"


def test_suggests_the_most_similar_pages() -> None:
    names = ("train.time_step", "serve.time_token", "train.time_data")

    assert find_closest_names("train.time_stop", names)[0] == "train.time_step"
    assert len(find_closest_names("zzz", names)) == 3


def test_compares_a_wrong_name_with_few_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[int] = []
    get_close_matches = difflib.get_close_matches

    def count(word: str, names: Sequence[str], **about: Any) -> list[str]:
        compared.append(len(names))
        return get_close_matches(word, names, **about)

    monkeypatch.setattr(difflib, "get_close_matches", count)
    names = [f"suite.Case{number}.time_step" for number in range(3000)]

    assert find_closest_names("suite.Case2718.time_stop", names)[0] == "suite.Case2718.time_step"
    assert compared == [MAX_COMPARED_NAMES]
