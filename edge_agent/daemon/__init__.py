"""The device's process: a loop that carries events to the protocol and does what it says."""
