"""What runs on a device: networks, local data, training, evaluation and (without torch)
inference.
"""
