"""From a trained model to a device bundle."""
