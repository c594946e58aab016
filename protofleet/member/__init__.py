"""How a device, or a site, becomes a member of a fleet, and stays one."""
