"""Fleets of sites: coordinators below a coordinator, with devices that look at nothing."""
