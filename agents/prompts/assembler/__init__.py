"""Every prompt comes from here: a priority stack under a hard token budget, with trust labels and a snapshot."""
