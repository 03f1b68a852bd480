"""`manage.py demo`: the first workspace, and the sign-in that opens it."""

import os
import secrets
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from agents.demo import OWNER_EMAIL, WORKSPACE_NAME, WORKSPACE_SLUG, create_demo_workspace
from openvibe.workspaces.models import User, Workspace


class Command(BaseCommand):
    help = "Makes a first workspace with sample content and prints a sign-in. A second time it only prints it again."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--if-empty", action="store_true", help="do nothing when there is any workspace")
        address = f"http://localhost:{settings.ENV.port}/"
        parser.add_argument("--url", default=address, help="where OpenVibe answers (%(default)s)")

    def handle(self, *_arguments: Any, if_empty: bool, url: str, **_options: Any) -> None:
        workspaces = Workspace.objects.all() if if_empty else Workspace.objects.filter(slug=WORKSPACE_SLUG)
        if workspaces.exists():
            self.stdout.write(sign_in_line(url))
            return
        password = secrets.token_urlsafe(12)
        try:
            with transaction.atomic():
                user = create_demo_workspace(password=password).user
                if user.check_password(password):
                    write_credentials(credentials_path(), password)  # before the commit: no workspace without a way in
        except OSError as error:
            raise CommandError(f"{credentials_path()} cannot be written: {error.strerror}. Nothing was made.") from None
        self.stdout.write(sign_in_line(url))


def credentials_path() -> Path:
    return Path(settings.VAR) / "sign-in.txt"


def sign_in_line(url: str) -> str:
    """The line that tells how to sign in, with the password as long as it is the one that was given out."""
    user = User.objects.filter(email=OWNER_EMAIL).first()
    if user is None:
        return f"Sign in: {url} with the account you made."
    password = read_password(credentials_path())
    if password and user.check_password(password):
        return f"Sign in: {url} as {OWNER_EMAIL} with password {password}"
    reset = f"`manage.py changepassword {OWNER_EMAIL}` sets another"
    return f"Sign in: {url} as {OWNER_EMAIL} with the password you have set ({reset})."


def write_credentials(file: Path, password: str) -> None:
    """Write the first sign-in where only this system user can read it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        os.fchmod(stream.fileno(), 0o600)
        stream.write(f"First sign-in of {WORKSPACE_NAME}. Delete this file once you have a password of your own.\n")
        stream.write(f"e-mail: {OWNER_EMAIL}\npassword: {password}\n")


def read_password(file: Path) -> str:
    """The password in the file; empty when there is none."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return ""
    return next((line.removeprefix("password: ") for line in lines if line.startswith("password: ")), "")
