"""What devices classify with: enrolled classes, a frozen extractor's bundle, the class means of
devices.
"""
