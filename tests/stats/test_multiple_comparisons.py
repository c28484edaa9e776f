"""False-discovery control of many p-values."""

from perfci.stats.multiple_comparisons import benjamini_hochberg


def test_agrees_with_the_example_of_benjamini_and_hochberg() -> None:
    p_values = [
        0.0001,
        0.0004,
        0.0019,
        0.0095,
        0.0201,
        0.0278,
        0.0298,
        0.0344,
        0.0459,
        0.3240,
        0.4262,
        0.5719,
    ]

    assert sum(benjamini_hochberg([*p_values, 0.6528, 0.7590, 1.0])) == 4


def test_keeps_the_order_of_p_values_and_accepts_none() -> None:
    assert benjamini_hochberg([0.9, 0.001, 0.02]) == [False, True, True]
    assert benjamini_hochberg([]) == []
