"""The operator's page: a process that asks a running coordinator by its socket."""
