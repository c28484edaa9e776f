"""The sample repository of `perfci demo`, and what was found in it."""
