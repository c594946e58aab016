"""Cameras: frames of streams, devices and folders, what is seen in them, and to whom it is said."""
