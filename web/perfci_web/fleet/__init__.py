"""The machines that measure a project: whether they are alive, on time and quiet."""
