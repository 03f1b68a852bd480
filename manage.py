#!/usr/bin/env python
"""OpenVibe's command line: every command works on its own, starting or joining the embedded PostgreSQL."""

import gc
import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")
    gc.set_threshold(50_000)  # modules stay: looking through them every 700 objects took a seventh of every start
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line

        from openvibe.runner.postgres.server import DatabaseUnavailable
    except ImportError as error:
        raise SystemExit(
            "Django is not installed here. Run `make setup`, then `.venv/bin/python manage.py …`."
        ) from error
    try:
        execute_from_command_line(sys.argv)
    except (ImproperlyConfigured, DatabaseUnavailable) as error:
        if "--traceback" in sys.argv:
            raise
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
