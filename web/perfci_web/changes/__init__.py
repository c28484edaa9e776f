"""The page of changes: which commit moved which series by how much, even if fixed since."""
