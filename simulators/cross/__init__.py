"""`fleet` against the papers' methods on the papers' own devices, seed by seed."""
