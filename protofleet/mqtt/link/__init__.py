"""One connection that lasts: reconnecting, sending again, acknowledging."""
