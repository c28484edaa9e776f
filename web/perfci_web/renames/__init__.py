"""Benchmarks and machines that go on under other names: the page that lists and makes renames."""
