"""`manage.py adopt_migrations`: once, for a database that was made by the version before."""

from typing import Any

from django.core.management.base import BaseCommand

from openvibe.runner.bootstrap import adopt_migrations


class Command(BaseCommand):
    help = "Carries the record of migrations over from the version before; changes no table and no other row."
    requires_system_checks = ()

    def handle(self, *_arguments: Any, **_options: Any) -> None:
        if adopt_migrations():
            self.stdout.write("The record of migrations was carried over. Now run `manage.py migrate`.")
        else:
            self.stdout.write("Nothing to do: this database records no migrations of the version before.")
