"""What does not know a fleet: logs, seeds, files, memory."""
