"""The device's page: for the owner of a camera, who taps a label and never opens a terminal."""
