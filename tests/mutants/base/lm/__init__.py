"""A language model small enough to be measured in a second, written the way it should be."""
