"""The commands of the export room, found by the entry points of the umbrella and of
`edge-agent`.
"""
