"""Sums that nobody can read: what each device adds is masked, and only the total comes out."""
