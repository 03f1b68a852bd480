"""Contradictions between entries: detect (the job), rules (pure), model_judge (pure), claims and quantities (pure)."""
