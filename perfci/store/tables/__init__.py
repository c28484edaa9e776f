"""SQLAlchemy table classes, by subject."""
