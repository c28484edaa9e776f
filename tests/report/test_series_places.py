"""No two rows of a list read alike, and what all rows share stands once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from perfci.model import Benchmark, Machine, Metric, Series, Variant
from perfci.report.series_places import SeriesPlaces
from tests.support.builders import a_series

UBUNTU, MACOS = Machine(name="ubuntu-latest"), Machine(name="macos-12")


def variant(**axes: str) -> Variant:
    return Variant(tuple(sorted(axes.items())))


def test_one_place_stands_above_the_list_and_not_beside_each_name() -> None:
    listed = [
        replace(a_series(), machine=UBUNTU, variant=variant(env="conda"), metric=metric)
        for metric in (Metric("time", "seconds"), Metric("memory", "bytes"))
    ]

    places = SeriesPlaces(listed)

    assert places.common == "ubuntu-latest · env=conda"
    assert [places.label(series) for series in listed] == ["", ""]


def test_only_what_differs_stands_beside_a_name() -> None:
    listed = [
        replace(a_series(), machine=machine, variant=variant(env="conda", python=python))
        for machine, python in ((UBUNTU, "3.12"), (UBUNTU, "3.13"), (MACOS, "3.12"))
    ]

    places = SeriesPlaces(listed)

    assert places.common == "env=conda"
    assert list(map(places.label, listed)) == [
        "ubuntu-latest · py3.12",
        "ubuntu-latest · py3.13",
        "macos-12 · py3.12",
    ]


def test_versions_of_one_benchmark_are_told_apart_by_as_much_as_differs() -> None:
    versions = ["aaaaaaaabbbb", "aaaaaaaacccc", ""]
    listed = [replace(a_series(), benchmark=Benchmark("Step.time", version)) for version in versions]

    places = SeriesPlaces(listed)

    assert list(map(places.label, listed)) == [
        "version aaaaaaaabbbb",
        "version aaaaaaaacccc",
        "without version",
    ]


def test_machines_of_one_label_are_told_apart_by_their_hardware() -> None:
    machines = [
        Machine(cpu, cores, 64, "NVIDIA H200", 1) for cpu, cores in (("Xeon", 8), ("EPYC", 8), ("EPYC", 16))
    ]
    listed = [replace(a_series(), machine=machine) for machine in machines]

    assert list(map(SeriesPlaces(listed).label, listed)) == [
        "Xeon · 8 cores",
        "EPYC · 8 cores",
        "EPYC · 16 cores",
    ]


short_texts = st.sampled_from(["", "a", "b", "a · pyb", "1"])
any_series = st.builds(
    Series,
    st.builds(Benchmark, st.sampled_from(["Step.time", "Step.track"]), short_texts),
    st.sampled_from([(), (("n", "1"),), (("m", "1"),)]),
    st.builds(Metric, st.sampled_from(["time", "memory"]), short_texts, st.sampled_from(["lower", "higher"])),
    st.builds(
        Machine,
        short_texts,
        st.sampled_from([None, 2]),
        st.sampled_from([None, 8]),
        short_texts,
        st.sampled_from([0, 1]),
        short_texts,
    ),
    st.dictionaries(st.sampled_from(["python", "torch"]), short_texts).map(lambda axes: variant(**axes)),
    short_texts,
)


@given(st.lists(any_series, unique=True, max_size=12))
def test_no_two_rows_of_a_list_read_alike(listed: list[Series]) -> None:
    places = SeriesPlaces(listed)

    rows = [(series.cell, series.metric.name, places.label(series)) for series in listed]

    assert len(set(rows)) == len(rows)
