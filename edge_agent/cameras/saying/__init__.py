"""To whom it is said what cameras see."""
