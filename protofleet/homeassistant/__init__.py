"""What Home Assistant is told of a fleet: values and words, for devices and coordinator alike."""
