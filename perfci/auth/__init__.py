"""Access decisions: pure checks of stored values, without database, request or clock."""
