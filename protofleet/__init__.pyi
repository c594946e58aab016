# What type checkers see of names that are loaded when they are used.
from edge_agent.client import Client as Client
from protofleet.recipe import Recipe as Recipe
from simulators.experiment import compare as compare
from simulators.experiment import simulate as simulate
from simulators.experiment import sweep as sweep

__version__: str
