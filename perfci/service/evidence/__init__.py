"""Evidence bundles: what one incident rests on, written from the store and computed again without it."""
