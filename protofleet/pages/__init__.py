"""Pages for people, in a process of their own: the ground that operator's and device's stand on."""
