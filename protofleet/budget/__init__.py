"""Noise that bounds what anybody can learn, and what of the budget it has cost."""
