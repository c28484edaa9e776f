"""The page of what moved a series since a release."""
