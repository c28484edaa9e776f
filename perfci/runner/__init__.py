"""The measuring side: commit -> work tree -> environment -> interleaved processes."""
