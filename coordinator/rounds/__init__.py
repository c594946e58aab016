"""When rounds open and close, and who is asked."""
