"""A classifier from sums: what devices say of their labelled samples under one extractor, how it
adds up exactly, and what is known when it is added up.
"""
