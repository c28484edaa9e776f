"""The table classes, by subject."""
