"""Memory of a function: peaks, live storages, the largest batch that fits."""
