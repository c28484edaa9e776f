"""What a pull request shows: comment, check result and their texts."""
