"""Notes on charts: the forms of the pages of series and commits."""
