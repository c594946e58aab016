"""Classification without torch: a bundle, its session, prototypes exchanged while it runs."""
