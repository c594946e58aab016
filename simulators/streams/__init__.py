"""Cameras without cameras: streams on this machine whose pictures tell the time."""
