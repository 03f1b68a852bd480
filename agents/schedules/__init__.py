"""Schedules: when an agent speaks without being asked."""
