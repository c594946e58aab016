"""The device's rules as one pure function, and its words."""
