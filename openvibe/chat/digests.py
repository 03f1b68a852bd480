"""E-mail digests of mentions that somebody missed.

Each mention is mailed at most once: the rows that say so are committed before the e-mail is handed over, so a worker
that dies between the two loses that e-mail (the mentions still stand under *Mentions*) and never sends it twice. They
are taken back only when the server says that it did not take the e-mail."""

import smtplib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from textwrap import shorten
from urllib.parse import urljoin

import structlog
from allauth.account.models import EmailAddress
from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.core.signing import BadSignature, Signer
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from openvibe.chat.models import MailedMention, Mention, Message, NotificationPreference, ReadMarker
from openvibe.chat.queries import messages_mentioning
from openvibe.engines.database.time_zones import time_zone_or_utc
from openvibe.engines.text.markdown import plain_text
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.models import DigestFrequency, Member, NotificationLevel, User
from openvibe.workspaces.queries import member_access

MAX_AGE = timedelta(days=3)
"""What was said longer ago is not mailed: whoever turns digests on is not sent the past."""
PAUSES = {DigestFrequency.HOURLY: timedelta(hours=1), DigestFrequency.DAILY: timedelta(days=1)}
"""The time between two e-mails to one member, at least."""
RETRY = timedelta(minutes=15)
"""The pause until a mail server that said "not now" is asked again: longer than most let strangers wait."""
MAX_LISTED_MENTIONS = 20
MAX_CLAIMED_MENTIONS = 200
FIRST_WORDS = 160  # characters
TURN_SECONDS = 40.0
"""What is left is sent at the next turn."""
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class MissedMention:
    """A mention as the e-mail shows it, in the reader's time."""

    author: str
    place: str
    at: str
    words: str
    url: str


@dataclass(frozen=True)
class Digest:
    """An e-mail to a member, and the messages that are marked as mailed to her by it."""

    member: Member
    messages: Sequence[Message]
    email: EmailMultiAlternatives


def effective_digest(member: Member) -> str:
    """What she chose; without a choice daily, where the operator has set up e-mail."""
    return member.digest or (DigestFrequency.DAILY if settings.EMAIL_CONFIGURED else DigestFrequency.OFF)


def send_due_digests(*, seconds: float = TURN_SECONDS) -> int:
    """Mail everybody what she missed and wants to be mailed now; how many e-mails that were.

    The mail server is reached before anything is claimed: while it is down nothing is lost.
    """
    ids = list(_due_members().order_by("?").values_list("pk", flat=True)) if settings.EMAIL_CONFIGURED else []
    if not ids:
        return 0
    deadline, sent_count = time.monotonic() + seconds, 0
    try:
        with get_connection() as connection:
            for pk in ids:
                if time.monotonic() > deadline:
                    break
                digest = _claim_digest(pk)
                if digest is not None:
                    sent_count += _send(connection, digest)
    except (OSError, smtplib.SMTPException) as error:
        log.warning("digests not sent, trying again", error=type(error).__name__)
    return sent_count


def _send(connection: BaseEmailBackend, digest: Digest) -> int:
    """How many e-mails the server took. Raises OSError and SMTPException where it takes no more from us now."""
    try:
        return connection.send_messages([digest.email]) or 0
    except smtplib.SMTPRecipientsRefused as error:
        codes = {code for code, _ in error.recipients.values()}
        if max(codes, default=500) < 500:
            _release(digest)
        if 421 in codes:  # the server hung up
            raise
        return 0  # an address that does not exist holds nobody up
    except smtplib.SMTPResponseException:
        _release(digest)
        raise


@transaction.atomic
def _release(digest: Digest) -> None:
    """Lets what the server did not take be mailed after RETRY."""
    member = digest.member
    MailedMention.objects.filter(participant=member.participant_id, message__in=digest.messages).delete()
    member.digest_sent_at = timezone.now() - PAUSES[DigestFrequency(effective_digest(member))] + RETRY
    member.save(update_fields=["digest_sent_at"])


def _due_members() -> QuerySet[Member]:
    """Members who have been mailed nothing for long enough and missed a mention that nobody mailed."""
    now = timezone.now()
    is_due = Q()
    for choice, pause in PAUSES.items():
        has_choice = Q(digest__in=(choice, "")) if choice == DigestFrequency.DAILY else Q(digest=choice)
        was_ahead = Q(digest_sent_at__gt=now + pause)  # the clock was, at the e-mail before
        is_due |= has_choice & (Q(digest_sent_at=None) | Q(digest_sent_at__lte=now - pause) | was_ahead)
    missed_mentions = Mention.objects.filter(
        Q(message__created_at__gte=now - MAX_AGE, message__created_at__lte=now - _delay()),
        participant=OuterRef("participant"),
        message__deleted_at=None,
        message__thread__parent=None,
    )
    read_markers = ReadMarker.objects.filter(participant=OuterRef("participant"), thread=OuterRef("message__thread"))
    read_markers = read_markers.filter(last_read_seq__gte=OuterRef("message__seq"))
    mailed = MailedMention.objects.filter(participant=OuterRef("participant"), message=OuterRef("message"))
    standing = Member.objects.filter(is_due, removed_at=None, user__is_active=True)
    if settings.OPEN_SIGNUP:  # else somebody known invited whoever gave the address
        standing = standing.filter(Exists(_confirmed_addresses().filter(user=OuterRef("user"))))
    return standing.filter(Exists(missed_mentions.filter(~Exists(read_markers), ~Exists(mailed)))).select_related(
        "user", "workspace"
    )


def _confirmed_addresses() -> QuerySet[EmailAddress, EmailAddress]:
    """The addresses of accounts whose own address it is."""
    rows: QuerySet[EmailAddress, EmailAddress] = EmailAddress.objects.filter(verified=True, email=F("user__email"))
    return rows


def must_confirm_address(user: User) -> bool:
    """Whether nothing is mailed to the person before she confirms her address: where anybody may make an account, an
    address may be anybody's."""
    return settings.OPEN_SIGNUP and not _confirmed_addresses().filter(user=user).exists()


def _delay() -> timedelta:
    return timedelta(minutes=settings.DIGEST_AFTER_MINUTES)


@transaction.atomic
def _claim_digest(member_id: int) -> Digest | None:
    """The e-mail for a member who is still due, its mentions marked as mailed once this returns; None where there is
    nothing she may and wants to read."""
    member = _due_members().select_for_update(of=("self",), skip_locked=True).filter(pk=member_id).first()
    if member is None or member.user.do_not_disturb.ends_at(timezone.now()):
        return None
    messages = _missed_messages(member)
    if not messages:
        return None
    MailedMention.objects.bulk_create(MailedMention(participant_id=member.participant_id, message=m) for m in messages)
    member.digest_sent_at = timezone.now()
    member.save(update_fields=["digest_sent_at"])
    return Digest(member, messages, _email(member, messages))


def _missed_messages(member: Member) -> list[Message]:
    """What names her, the newest first: what she sees now, has not read, did not mute and was not mailed."""
    now = timezone.now()
    mailed = MailedMention.objects.filter(participant=member.participant_id, message=OuterRef("pk"))
    messages = messages_mentioning(member_access(member)).filter(
        ~Exists(mailed), Q(("unseen", True)), created_at__gte=now - MAX_AGE, created_at__lte=now - _delay()
    )
    missed_messages = list(messages.exclude(author=member.participant_id).defer("search")[:MAX_CLAIMED_MENTIONS])
    rows = NotificationPreference.objects.filter(participant=member.participant_id)
    rows = rows.filter(
        Q(thread__in={m.thread_id for m in missed_messages})
        | Q(channel__in={m.thread.channel_id for m in missed_messages})
    )
    choices = rows.values_list("channel", "thread", "level")
    levels: dict[tuple[int | None, int | None], str] = {
        (channel, thread): chosen_level for channel, thread, chosen_level in choices
    }

    def level(message: Message) -> str:
        of_channel = levels.get((message.thread.channel_id, None))
        return levels.get((None, message.thread_id)) or of_channel or member.notify_level

    return [message for message in missed_messages if level(message) != NotificationLevel.NOTHING]


def _email(member: Member, messages: Sequence[Message]) -> EmailMultiAlternatives:
    with timezone.override(time_zone_or_utc(member.user.time_zone)):
        mentions = [_missed_mention(member, message) for message in messages[:MAX_LISTED_MENTIONS]]
    workspace = member.workspace
    link = urljoin(settings.PUBLIC_URL, reverse("unsubscribe", args=[unsubscribe_token(member)]))
    context = {
        "name": member.user.name,
        "workspace": workspace.name,
        "mentions": mentions,
        "more": len(messages) - len(mentions),
        "all_url": urljoin(settings.PUBLIC_URL, reverse("mentions", args=[workspace.slug])),
        "settings_url": urljoin(settings.PUBLIC_URL, reverse("notifications", args=[workspace.slug])),
        "unsubscribe_url": link,
    }
    subject = f"{len(messages)} mentions of you in {workspace.name}"
    if len(messages) == 1:
        subject = f"{mentions[0].author} mentioned you in “{messages[0].thread.title}”"
    email = EmailMultiAlternatives(
        " ".join(subject.split())[:200],
        _plain_text(context, mentions),
        to=[member.user.email],
        headers={
            "List-Unsubscribe": f"<{link}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
            "Auto-Submitted": "auto-generated",
        },
    )
    email.attach_alternative(render_to_string("email/mentions.html", context), "text/html")
    return email


def _missed_mention(member: Member, message: Message) -> MissedMention:
    thread = message.thread
    words = shorten(mask_secrets(plain_text(message.body[: 8 * FIRST_WORDS])), FIRST_WORDS, placeholder=" …")
    return MissedMention(
        author=message.author.label,
        place=f"{thread.channel} · {thread.title}",
        at=_time_in_words(message.created_at),
        words=words,
        url=urljoin(settings.PUBLIC_URL, reverse("message", args=[member.workspace.slug, message.pk])),
    )


def _time_in_words(moment: datetime) -> str:
    return f"{timezone.localtime(moment):%a %-d %b, %H:%M} ({timezone.get_current_timezone_name()})"


def _plain_text(context: dict[str, object], mentions: Sequence[MissedMention]) -> str:
    """The same as the HTML, in lines."""
    blocks = [f"You were mentioned in {context['workspace']} and have not read it yet."]
    blocks += [f"{each.author} in {each.place}, {each.at}:\n{each.words}\n{each.url}" for each in mentions]
    if context["more"]:
        blocks.append(f"And {context['more']} more.")
    blocks.append(f"All mentions: {context['all_url']}")
    blocks.append(
        f"When you get such e-mails: {context['settings_url']}\nNo more of them: {context['unsubscribe_url']}"
    )
    return "\n\n".join(blocks) + "\n"


_signer = Signer(salt="openvibe.chat.digests.unsubscribe")


def unsubscribe_token(member: Member) -> str:
    """What ends this member's digests without a sign-in, and does nothing else. Good for as long as the secret key."""
    return _signer.sign(str(member.pk))


def member_to_unsubscribe(token: str) -> Member | None:
    """The member whose token it is; None for one that nobody was given."""
    try:
        number = int(_signer.unsign(token))
    except (BadSignature, ValueError):
        return None
    return Member.objects.select_related("workspace").filter(pk=number).first()


def stop_digests(member: Member) -> None:
    member.digest = DigestFrequency.OFF
    member.save(update_fields=["digest"])
