"""The process: its loop, what it is made of, its socket, and the coordinator it must not meet."""
