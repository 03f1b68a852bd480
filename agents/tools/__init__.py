"""What an agent may do in a run besides writing its answer: a readable list of tools, and the box a run is given."""
