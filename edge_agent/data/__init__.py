"""Data on a device: one pool of samples per set, read from files or made on the spot; numpy and
Pillow, never torch.
"""
