"""How a device becomes a member of a fleet, and stays one."""
