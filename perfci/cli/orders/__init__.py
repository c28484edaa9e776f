"""``perfci order`` and ``perfci work``: order measurements, and carry them out."""
