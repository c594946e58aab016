"""How well a fleet of cameras knows real photographs, through an extractor that never learns."""
