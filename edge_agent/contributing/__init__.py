"""What a device contributes to a fleet whose extractor stays: its samples' features, once; what it
says of them; and its counts. Numpy and onnxruntime, no torch.
"""
