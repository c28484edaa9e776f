"""Checks of perfci's figures on a GPU, each against a way of its own."""
