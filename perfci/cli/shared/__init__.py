"""Modules that several verbs share: options, context, progress, output."""
