"""Pages of a store and of one project at a glance."""
