"""A device in a run: receive, work, evaluate."""
