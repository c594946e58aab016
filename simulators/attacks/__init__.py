"""What somebody who reads one upload learns of the samples behind it, in figures that a command
prints again.
"""
