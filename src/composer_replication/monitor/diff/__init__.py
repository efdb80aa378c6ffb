"""The diff layer: rules over changed files, against what they were."""
