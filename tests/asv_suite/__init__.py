"""The reference suite: a training step, generation and memory of a small GPT, for asv and for perfci."""
