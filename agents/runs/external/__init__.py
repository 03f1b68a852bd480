"""Runs of agents that run elsewhere: begun, reported and ended by their programs."""
