"""The proof of an account's address: it is shown to be somebody's, and what was there before lets nobody in any more.

Anybody may sign up with an address that is not theirs, add a passkey and make tokens. Once the address' owner shows
that it is hers (by the operator's provider, a link that was mailed there, or a password reset), the account is hers
alone."""

from collections.abc import Callable

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.db import transaction
from django.db.models import Q

from openvibe.api.models import Token
from openvibe.api.services import revoke_token
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.problems import Conflict
from openvibe.engines.registers import Register
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services.members import revoke_invitations_of
from openvibe.workspaces.services.sessions import end_sessions

ACCOUNT_CLEARERS: Register[Callable[[User], None]] = Register(
    "openvibe.workspaces.services.addresses.ACCOUNT_CLEARERS", may_be_empty=True
)
"""What upper floors end of an account, too: where else its former holder is told what it sees."""


def has_proven_address(user: User) -> bool:
    """Whether somebody has shown that the address of the account is theirs."""
    return bool(EmailAddress.objects.filter(user=user, email=user.email, verified=True).exists())


def is_address_taken(email: str, *, other_than: User | None = None) -> bool:
    """Whether an account has the address, or somebody has shown that it is theirs beside their own; other than that of
    one user."""
    accounts, proven = User.objects.filter(email=email), EmailAddress.objects.filter(email=email, verified=True)
    if other_than is not None:
        accounts, proven = accounts.exclude(pk=other_than.pk), proven.exclude(user=other_than)
    return accounts.exists() or bool(proven.exists())


@transaction.atomic
def prove_address(
    *,
    user: User,
    email: str = "",
    by: str,
    keep_session: str = "",
    keep_social_account: int | None = None,
    keep_password: bool = False,
) -> bool:
    """Stores that the address is shown to be the user's: `email`, which becomes the account's; empty: the one it has.

    Where the account's address had not been shown before, everything that opens it ends, but for
    what is to be kept: the session and the account at the provider of whoever shows it, and a password just given.
    Returns whether it ended. Raises Conflict when the address is another account's. `by` is for the audit log.
    """
    locked_user = User.objects.select_for_update().get(pk=user.pk)  # no factor is added meanwhile
    was_proven = has_proven_address(locked_user)
    if not was_proven:
        EmailAddress.objects.filter(user=user).delete()  # any other one is a door, too
        _end_credentials(user, by, keep_session, keep_social_account, keep_password)
    _store_proven(user, email or locked_user.email)
    return not was_proven


@transaction.atomic
def confirm_own_address(user: User) -> None:
    """Stores that the account's address is shown to be that of whoever is signed in: nothing ends. Raises Conflict."""
    locked_user = User.objects.select_for_update().get(pk=user.pk)
    if not has_proven_address(locked_user):
        _store_proven(user, locked_user.email)


def _store_proven(user: User, email: str) -> None:
    if is_address_taken(email, other_than=user):
        raise Conflict("This address belongs to another account.")
    rows = EmailAddress.objects.filter(user=user)
    rows.filter(Q(verified=False) | Q(email=email)).delete()
    rows.update(primary=False)
    EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
    User.objects.filter(pk=user.pk).update(email=email)
    user.email = email


def _end_credentials(
    user: User, by: str, keep_session: str, keep_social_account: int | None, keep_password: bool
) -> None:
    Authenticator.objects.filter(user=user).delete()
    SocialAccount.objects.filter(user=user).exclude(pk=keep_social_account).delete()
    if not keep_password:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    end_sessions(user=user, keep=keep_session)
    revoke_tokens_of(user, by=by, with_agents=True)
    for member in Member.objects.filter(user=user):
        revoke_invitations_of(member)
    for clear in ACCOUNT_CLEARERS:
        clear(user)
    after = "what opened it before ended: somebody showed that its address is theirs"
    record_audit(AuditAction.ACCOUNT, workspace_id=None, by=by, subject=str(user), after=after)


@transaction.atomic
def revoke_tokens_of(user: User, *, by: str, with_agents: bool) -> None:
    """Revokes the account's own tokens in every workspace; `with_agents`: those of agents whose
    secrets she was shown, too."""
    of_user = Q(participant__member__user=user)
    if with_agents:
        of_user |= Q(made_by__member__user=user)
    for token in Token.objects.filter(of_user, revoked_at=None).select_related("participant"):
        revoke_token(token=token, by=by)


@transaction.atomic
def complete_password_reset(user: User) -> None:
    """Ends what a reset ends beside the password, which was just set: all sessions and the account's own tokens.

    Second factors and passkeys stay where they were added by whoever had shown the address: a mailbox alone is no way
    around them. Where nobody had, the reset shows it now. Tokens of agents stay with a known account: they are its
    workspace's, and others made plans on them.
    """
    if not prove_address(user=user, by="a password reset", keep_password=True):
        end_sessions(user=user, keep="")
        revoke_tokens_of(user, by="a password reset", with_agents=False)
