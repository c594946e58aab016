"""What a device's page, its status and a monitoring system are told, from outside the daemon."""
