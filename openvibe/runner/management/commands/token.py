"""`manage.py token issue|list|revoke`: tokens of members and agents."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from openvibe.api.models import SCOPES, Token
from openvibe.api.services import issue_token, revoke_token
from openvibe.base.problems import Problem
from openvibe.workspaces.queries import resolve_workspace


class Command(BaseCommand):
    help = (
        "Issue, list and revoke API tokens. The secret is printed once and not kept. What is issued here is the "
        "operator's: it stays when its agent joins a private channel, where a token made in the app ends."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        subcommands = parser.add_subparsers(dest="verb", required=True)
        issue = subcommands.add_parser("issue", help="make a token and print its secret")
        issue.add_argument("--workspace", required=True, metavar="SLUG")
        issue.add_argument("--handle", required=True, help="of a member or an agent")
        issue.add_argument("--name", required=True, help="what the token is for")
        issue.add_argument("--scopes", default="read,write", help=f"comma-separated: {', '.join(SCOPES)}")
        issue.add_argument("--days", type=int, help="until it expires; never when left out")
        listing = subcommands.add_parser("list", help="show a workspace's tokens")
        listing.add_argument("--workspace", required=True, metavar="SLUG")
        revoke = subcommands.add_parser("revoke", help="make a token invalid at once")
        revoke.add_argument("id", type=int)

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        try:
            {"issue": self.issue, "list": self.list, "revoke": self.revoke}[verb](options)
        except Problem as error:
            raise CommandError(error.message) from None

    @transaction.atomic
    def issue(self, options: dict[str, Any]) -> None:
        """Prints the secret before the token is made: one that nobody read would be lost."""
        workspace = resolve_workspace(options["workspace"])
        participant = workspace.participants.filter(handle=options["handle"].lstrip("@")).first()
        if participant is None:
            raise CommandError(f"There is nobody called {options['handle']} in workspace {workspace.slug}.")
        scopes = [scope.strip() for scope in options["scopes"].split(",") if scope.strip()]
        _, secret = issue_token(participant=participant, name=options["name"], scopes=scopes, days=options["days"])
        self.stdout.write(secret)
        self.stdout.flush()

    def list(self, options: dict[str, Any]) -> None:
        tokens = Token.objects.filter(participant__workspace=resolve_workspace(options["workspace"]))
        for token in tokens.select_related("participant", "made_by").order_by("id"):
            state = "valid" if token.is_valid else "revoked" if token.revoked_at else "expired"
            facts = (token.name, f"…{token.hint}", ",".join(token.scopes), state, f"made by {token.maker}")
            self.stdout.write("\t".join((str(token.pk), f"@{token.participant.handle}", *facts)))

    def revoke(self, options: dict[str, Any]) -> None:
        token = Token.objects.filter(pk=options["id"]).first()
        if token is None:
            raise CommandError(f"There is no token {options['id']}. `token list` shows them.")
        revoke_token(token=token)
        self.stdout.write(f"Token {token.pk} is revoked.")
