"""What is rolled out, tried on this device before it answers by it, and watched after."""
