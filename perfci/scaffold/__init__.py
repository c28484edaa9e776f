"""Files that `perfci init` writes: a starter suite and the workflows."""
