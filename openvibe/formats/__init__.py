"""How dates are written where nothing else is said, in the admin first of all."""
