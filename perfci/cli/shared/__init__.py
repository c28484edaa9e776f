"""What several verbs share: options, context, progress, output."""
