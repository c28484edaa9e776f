"""Which commit moved which series, and by how much."""
