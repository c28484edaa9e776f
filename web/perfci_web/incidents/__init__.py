"""The list of incidents, and one of them as people work on it."""
