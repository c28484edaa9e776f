"""One result of a series: its samples, its environment, and what to do with it."""
