"""What an answer cites of what its run was shown: found at the run's end, kept, and read for each reader."""
