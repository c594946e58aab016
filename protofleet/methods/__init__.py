"""One file a method: its settings, its four moves, and at the end the recipe made of them."""
