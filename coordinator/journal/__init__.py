"""What must not be lost: SQLite, and files beside it that only grow."""
