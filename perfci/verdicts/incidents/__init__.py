"""Change points of many series, grouped into incidents and budgeted."""
