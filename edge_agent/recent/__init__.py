"""What a device saw last: a few pictures that a person may name, and what all looked like."""
