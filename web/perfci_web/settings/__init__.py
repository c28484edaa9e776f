"""The settings of a project: thresholds, mutes, members, tokens and destinations."""
