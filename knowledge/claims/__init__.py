"""What a text claims, read by rules: statements, and the quantities in them. Pure: no Django, no database."""
