"""What recipes are made of: losses (torch tensors in, a scalar out), summaries and fusions
(numpy).
"""
