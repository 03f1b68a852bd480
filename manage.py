#!/usr/bin/env python
"""OpenVibe's command line: every command works on its own, starting or joining the embedded PostgreSQL."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "openvibe.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError as error:
        raise SystemExit(
            "Django is not installed here. Run `make setup`, then `.venv/bin/python manage.py …`."
        ) from error
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
