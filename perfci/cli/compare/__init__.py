"""``perfci compare``: commits, variants, ablations and recorded files."""
