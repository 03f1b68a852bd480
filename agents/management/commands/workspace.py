"""`manage.py workspace create|export|import|delete`."""

import hashlib
import math
import secrets
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils.text import slugify
from tqdm import tqdm

from agents.archive.delete import delete_workspace
from agents.archive.export import export_workspace
from agents.archive.folders import own_folder
from agents.archive.restore import MAX_BYTES, import_workspace
from openvibe.base.command_report import write_report
from openvibe.base.problems import Problem
from openvibe.engines.database.planner_statistics import analyze_changed_tables
from openvibe.workspaces.models import User
from openvibe.workspaces.queries import resolve_workspace
from openvibe.workspaces.services import create_workspace


class Command(BaseCommand):
    help = "Makes a workspace and the account that owns it, writes one to an archive, brings one in, deletes one."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        create = verbs.add_parser("create", help="make a workspace, and the account of its owner if need be")
        create.add_argument("name", help="what people call it")
        create.add_argument("--owner", required=True, metavar="EMAIL", help="an account, or the one to be made")
        create.add_argument("--owner-name", default="", help="of a new account; what stands before the @ otherwise")
        create.add_argument(
            "--password-stdin", action="store_true", help="read a new account's password; else one is made"
        )
        create.add_argument("--slug", type=slug, default="", help="in addresses; made of the name when left out")
        export = verbs.add_parser("export", help="write a workspace to a zip of JSONL and attached files")
        export.add_argument("file", type=Path)
        export.add_argument("--workspace", metavar="SLUG", default="", help="needed when there is more than one")
        bring = verbs.add_parser("import", help="bring in the workspace of an archive, whole or not at all")
        bring.add_argument("file", type=Path)
        bring.add_argument("--slug", type=slug, default="", help="another name in addresses than the archive's")
        most = MAX_BYTES // 1024**3
        bring.add_argument("--max-gib", type=gib, default=most, help="refuse what is larger unpacked (%(default)s)")
        delete = verbs.add_parser("delete", help="delete a workspace and everything in it, for good")
        delete.add_argument("slug")
        delete.add_argument("--confirm", metavar="NAME", help="the workspace's name; asked for when left out")

    def handle(self, *_arguments: Any, verb: str, **options: Any) -> None:
        verbs: dict[str, Callable[[dict[str, Any]], str | None]] = {
            "create": self.create,
            "export": self.export,
            "import": self.bring_in,
            "delete": self.delete,
        }
        try:
            report = verbs[verb](options)
        except Problem as error:
            raise CommandError(error.message) from None
        except OSError as error:
            name = options.get("file") or error.filename or "Output"
            raise CommandError(f"{name}: {error.strerror or error}. Nothing was changed.") from None
        if report:
            write_report(self, report)

    @transaction.atomic
    def create(self, options: dict[str, Any]) -> None:
        """Prints what it makes before it is made: a password that nobody read would be lost."""
        owner = User.objects.filter(email__iexact=options["owner"]).first()
        password = ""
        if owner and (options["password_stdin"] or options["owner_name"]):
            raise CommandError(
                f"{owner.email} has an account already, which stays as it is: leave --owner-name and --password-stdin "
                f"out. `manage.py changepassword {owner.email}` sets another password. Nothing was made."
            )
        if owner is None:
            password = read_password() if options["password_stdin"] else secrets.token_urlsafe(12)
            owner = create_account(options["owner"], options["owner_name"], password)
        member = create_workspace(name=options["name"], slug=options["slug"], owner=owner)
        self.stdout.write(f"{member.workspace.name} is made, at /w/{member.workspace.slug}/. {owner.email} owns it.")
        if owner.is_superuser and password:
            self.stdout.write("The account is this installation's first, so it may open the admin.")
        if password and not options["password_stdin"]:
            self.stdout.write(f"Sign in as {owner.email} with password {password} (shown this once).")
        self.stdout.flush()

    def export(self, options: dict[str, Any]) -> str:
        workspace = resolve_workspace(options["workspace"])
        with tqdm(unit=" rows", disable=not sys.stderr.isatty(), desc="Exporting") as bar:
            manifest = export_workspace(workspace=workspace, path=options["file"], progress=bar.update)
        rows = sum(table["rows"] for table in manifest["tables"])
        with options["file"].open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return (
            f"{workspace.name}: {rows:,} rows in {options['file']}, SHA-256 {digest}.\n"
            "Not in it: keys, tokens, passwords, invitations, webhooks, audit log."
        )

    def bring_in(self, options: dict[str, Any]) -> str:
        max_bytes = int(options["max_gib"] * 1024**3)
        with tqdm(unit=" rows", disable=not sys.stderr.isatty(), desc="Importing") as bar:
            workspace = import_workspace(
                path=options["file"], slug=options["slug"], max_bytes=max_bytes, progress=bar.update
            )
        analyze_changed_tables()
        return (
            f"{workspace.name} is here, at /w/{workspace.slug}/.\n"
            "Who had no account has one now and sets a password by “Forgot the password?”; enter model keys anew."
        )

    def delete(self, options: dict[str, Any]) -> str:
        workspace = resolve_workspace(options["slug"])
        name = options["confirm"]
        if name is None:
            if not sys.stdin.isatty():
                raise CommandError("Say its name with --confirm. Nothing was deleted.")
            print(f"Everything in {workspace.name} goes for good. Type its name to delete it: ", end="", flush=True)
            name = sys.stdin.readline()
        if name.strip() != workspace.name:
            raise CommandError(f"That is not its name ({workspace.name}). Nothing was deleted.")
        try:
            rows = delete_workspace(workspace=workspace)
        except OSError as error:
            raise CommandError(
                f"{workspace.name} is deleted, but not every folder of its agents ({error.filename}: {error.strerror})."
                f" Delete what is left: {own_folder('*', workspace.slug)}."
            ) from None
        return f"{workspace.name} is deleted, {rows:,} rows. Accounts stay."


def slug(text: str) -> str:
    """The value of `--slug`."""
    if slugify(text) != text:
        raise ArgumentTypeError(f"{text!r} cannot stand in an address. Write {slugify(text) or 'our-team'}")
    return text


def gib(text: str) -> float:
    """The value of `--max-gib`."""
    if not 0 < float(text) < math.inf:
        raise ArgumentTypeError(f"{text} is not a number above 0")
    return float(text)


def read_password() -> str:
    """The first line of standard input. Raises CommandError."""
    try:
        password = sys.stdin.readline().rstrip("\n")
        password.encode()  # half a character, which stands for a byte, cannot be
    except UnicodeError:
        raise CommandError("The password on standard input is not UTF-8. Nothing was made.") from None
    return password


def create_account(email: str, name: str, password: str) -> User:
    """A new account; the installation's first is a superuser. Raises CommandError."""
    email = email.strip().lower()
    try:
        User._meta.get_field("email").run_validators(email)
        user = User(email=email, name=(name.strip() or email.split("@")[0])[:80])
        validate_password(password, user)
    except ValidationError as error:
        raise CommandError(f"{' '.join(error.messages)} Nothing was made.") from None
    make = (
        User.objects.create_user if User.objects.filter(is_superuser=True).exists() else User.objects.create_superuser
    )
    return make(email, password, name=user.name)
