"""What people say in a thread while an agent works there reaches its run: a built-in one before its next round, one
elsewhere where its program asks.

Nobody has to mention it again. A message that names only other agents is theirs; in a dive and in direct messages all
that is said is said to it. A draft, and what a program asked for, hears nobody.

A message that the run has heard is answered by it: a run that waits for that very message ends with this one, once it
is done, or stopped after more words. Until then it only waits, so nothing that was said is lost where a run fails."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Q
from django.db.models.functions import Length
from django.utils import timezone

from agents.agent.models import Agent, HeardMessage, Run
from agents.prompts.assembler.assemble import told_text
from agents.prompts.assembler.items import Item
from agents.prompts.assembler.sections.history import LaterMessageRow, later_item
from agents.prompts.snapshots.store import add_to_snapshot
from agents.runs.client_tools import client_turn_of
from agents.runs.steps import add_step
from agents.runs.thoughts import emit_step
from openvibe.chat.queries import MessageSaid, count_said_since, said_messages, said_since
from openvibe.engines.llm.tokens import TokenCounter, count_message
from openvibe.engines.llm.values import ChatMessage

HEARD_MESSAGE_TOKENS, HEARD_TOKENS = 1_200, 4_000
"""The limits of what one look tells, the oldest first: tokens of one message, and tokens in all. The next look tells
the rest."""

MIN_HEARD_TOKENS = 200
"""Tokens that the first message of a look keeps, head and tail of a longer one, whatever room there is."""


@dataclass(frozen=True)
class Heard:
    """What one look tells: `items` stand in a prompt, `message` is what is sent, of so many `tokens`. `rows` are those
    that it was made of."""

    items: tuple[Item, ...]
    rows: tuple[MessageSaid, ...]
    message: ChatMessage
    tokens: int

    @property
    def last_seq(self) -> int:
        return self.rows[-1].seq


def hears_people(run: Run) -> bool:
    """Whether what people say meanwhile reaches the run."""
    return run.task != Run.Task.PUBLISH and (run.is_external or client_turn_of(run) is None)


def read_unheard(run: Run, after_seq: int, counter: TokenCounter, max_tokens: int = HEARD_TOKENS) -> Heard | None:
    """What people said after message `after_seq` and the run may be told now, within about `max_tokens`; None where
    there is nothing. One query."""
    messages = said_since(run.thread_id, after_seq, to=_addressee(run))
    return _tell(messages, counter, max_tokens) if messages else None


def has_unanswered(run: Run, after_seq: int) -> bool:
    """Whether people said something after message `after_seq` that the run may be told, and that no run of its own
    answers: words that name nobody. Two queries at most."""
    said = {message.pk for message in said_since(run.thread_id, after_seq, to=_addressee(run))}
    own = Run.objects.filter(agent=run.agent_id, trigger__in=said) if said else Run.objects.none()
    return bool(said.difference(own.values_list("trigger", flat=True)))


def read_heard(run: Run, message_ids: Iterable[int], counter: TokenCounter) -> tuple[Item, ...]:
    """What the run was told, as it stands now. One query."""
    return tuple(_make_item(message, counter, HEARD_MESSAGE_TOKENS) for message in said_messages(message_ids))


def count_unheard(run: Run) -> int:
    """How many messages of people the run was not told of. One query; none where it hears nobody."""
    if not hears_people(run):
        return 0
    return count_said_since(run.thread_id, heard_until(run), to=_addressee(run))


def heard_until(run: Run) -> int:
    """The number of the newest message that the run was shown, or could have been."""
    return run.trigger.seq if run.heard_seq is None else run.heard_seq


def keep_heard(run: Run, heard: Heard, *, reply_length: int) -> None:
    """Notes what the run is told, in the transaction that holds its row; the caller saves `HEARD_FIELDS`."""
    HeardMessage.objects.bulk_create(
        [HeardMessage(run=run, message_id=row.pk, reply_length=reply_length) for row in heard.rows],
        ignore_conflicts=True,
    )
    add_to_snapshot(run, heard.items, heard.message, heard.tokens)
    run.heard_seq, run.interrupt_requested_at = heard.last_seq, None
    add_step(run, "heard", attempt=run.attempt, people=list(dict.fromkeys(row.author_id for row in heard.rows)))
    emit_step(run)


HEARD_FIELDS = ("heard_seq", "interrupt_requested_at", "steps")


def end_heard_runs(run: Run, *, min_length: int | None = None) -> None:
    """Ends the runs that wait for what the run has heard, as answered by it, in the transaction that ends it.
    `min_length`: only for what it had heard before its reply was so long."""
    heard = HeardMessage.objects.filter(run=run)
    if min_length is not None:
        heard = heard.filter(reply_length__lt=min_length)
    tasks = (Run.Task.MENTION, Run.Task.THREAD, Run.Task.DIVE)
    waiting = Run.objects.filter(agent=run.agent_id, thread=run.thread_id, state=Run.State.QUEUED, regenerates=None)
    waiting = waiting.filter(trigger__in=heard.values("message"), task__in=tasks).exclude(pk=run.pk)
    for other in waiting.select_for_update(no_key=True, of=("self",)).order_by("pk"):
        other.state, other.finished_at, other.error_code, other.error = Run.State.DONE, timezone.now(), "", ""
        add_step(other, "done", attempt=other.attempt, answered_by=run.pk)
        other.save(update_fields=["state", "finished_at", "error_code", "error", "steps"])


def forget_heard(run: Run, *, reply_length: int) -> None:
    """Takes back what the run heard since its reply had so many characters: its program, or worker, may have been lost
    before it made anything of it. It is told again. In the transaction that holds the run; the caller saves
    `heard_seq`."""
    lost = HeardMessage.objects.filter(run=run, reply_length__gte=reply_length)
    if first := lost.order_by("message__seq").values_list("message__seq", flat=True).first():
        run.heard_seq = first - 1
        lost.delete()


def answering_run(agent: Agent, message_id: int) -> int | None:
    """The run of the agent that heard the message and has answered it; None where none did."""
    heard = HeardMessage.objects.filter(message=message_id, run__agent=agent)
    went_on = Q(run__state=Run.State.STOPPED, reply_length__lt=Length("run__reply__body"))
    answered = heard.filter(Q(run__state=Run.State.DONE) | went_on)
    return answered.order_by("-run").values_list("run", flat=True).first()


def _tell(messages: Sequence[MessageSaid], counter: TokenCounter, max_tokens: int) -> Heard:
    limit = min(HEARD_MESSAGE_TOKENS, max(max_tokens, MIN_HEARD_TOKENS))
    items: list[Item] = []
    for said in messages:
        item = _make_item(said, counter, limit)
        if items and sum(each.tokens for each in items) + item.tokens > max_tokens:
            break
        items.append(item)
    message = ChatMessage("user", told_text(items), ends_stable_part=True)
    return Heard(tuple(items), tuple(messages[: len(items)]), message, count_message(message, counter))


def _make_item(said: MessageSaid, counter: TokenCounter, max_tokens: int) -> Item:
    row = LaterMessageRow._make(said[: len(LaterMessageRow._fields)])
    return later_item(counter, row, max_tokens, is_own=False, file_names=(*said.file_names, *said.image_names))


def _addressee(run: Run) -> int | None:
    """The participant to whom it has to be said; None where all that is said there is said to the agent: a dive, and
    direct messages."""
    is_private = run.thread.parent_id is not None or run.thread.channel.is_direct
    return None if is_private else run.agent.participant_id
