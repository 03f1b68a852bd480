"""Real small models, started on this machine and asked through OpenVibe: `make nightly` alone runs these."""
