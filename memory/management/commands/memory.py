"""`manage.py memory check | compact | stats`: memory as it is stored, looked at and put in order from a shell."""

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.models import Compaction
from memory.providers.lcm.checking import check
from memory.providers.registry import provider_for
from memory.services.compaction import carry_out_compaction, request_compaction
from memory.services.compaction.viewpoint import session_on
from openvibe.base.problems import Problem
from openvibe.chat.models import Thread

COLUMNS = ("thread", "messages", "in context", "tokens", "summaries", "deepest")


class Command(BaseCommand):
    help = "Checks what lossless memory has stored, compacts a thread, or says how much there is of each."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        checked = verbs.add_parser("check", help="look for rows that break an invariant; exits 1 naming them")
        checked.add_argument("--thread", type=int, metavar="ID", help="default: every thread with a memory")
        compacted = verbs.add_parser("compact", help="compact a thread now, in this process")
        compacted.add_argument("--thread", type=int, metavar="ID", required=True)
        compacted.add_argument("--full", action="store_true", help="until nothing is left to compact")
        counted = verbs.add_parser("stats", help="how much of each thread is remembered, and how")
        counted.add_argument("--thread", type=int, metavar="ID", help="default: every thread with a memory")

    def handle(self, *_arguments: Any, verb: str, thread: int | None, **options: Any) -> None:
        if verb == "compact":
            assert thread is not None
            self.stdout.write(compacted(thread_of(thread), full=options["full"]))
        elif verb == "check":
            self.check_threads(threads(thread))
        else:
            self.stdout.write("".join(f"{column:>12}" for column in COLUMNS))
            for found in threads(thread):
                self.stdout.write(counted(found))

    def check_threads(self, found: Iterable[Thread]) -> None:
        """Raises CommandError (exit code 1) when a row breaks an invariant; the rows are printed as they are found."""
        checked = broken = 0
        for thread in found:
            checked += 1
            for sentence in check(thread.pk):
                broken += 1
                self.stdout.write(sentence)
        if broken:
            raise CommandError(f"Threads checked: {checked}. Sentences above: {broken}. Report them, with this output.")
        self.stdout.write(f"Threads checked: {checked}. All is well.")


def thread_of(pk: int) -> Thread:
    thread = Thread.objects.select_related("workspace", "channel").filter(pk=pk).first()
    if thread is None:
        raise CommandError(f"There is no thread {pk}.")
    return thread


def threads(pk: int | None) -> Iterable[Thread]:
    """The one asked for, or all that have a memory."""
    if pk is not None:
        return [thread_of(pk)]
    remembered = Thread.objects.filter(lcm_conversation__isnull=False)
    return remembered.select_related("workspace", "channel").order_by("pk").iterator()


def compacted(thread: Thread, *, full: bool) -> str:
    """Carries a compaction out and says what came of it. Raises CommandError where it cannot."""
    try:
        asked = request_compaction(thread=thread, trigger=Compaction.Trigger.HAND, full=full)
    except Problem as problem:
        if problem.code == "nothing_new":
            return "Nothing to compact: nothing was said since the last compaction."
        raise CommandError(problem.message) from None
    if asked is None:
        raise CommandError(f"Thread {thread.pk} is being compacted already, or is about to be. Try again in a moment.")
    again = carry_out_compaction(asked.pk)
    asked.refresh_from_db()
    if again is not None:
        raise CommandError(f"{asked.error} Nothing was changed; a worker tries again in {again.seconds} seconds.")
    if asked.state == Compaction.State.FAILED:
        raise CommandError(asked.error)
    if asked.state == Compaction.State.NOTHING:
        return f"Nothing to compact: {asked.tokens_after or 0:,} tokens."
    sizes = f"{asked.tokens_before or 0:,} tokens before, {asked.tokens_after or 0:,} after"
    return f"{sizes}; new summaries: {asked.created_count}."


def counted(thread: Thread) -> str:
    """One line of numbers, and the note of the plugin where it has one."""
    session = session_on(thread)
    if session is None:
        return f"{thread.pk:>12}  nobody reads this thread any more, or it is for people only"
    found = provider_for(thread.workspace_id).stats(session)
    numbers = (thread.pk, found.messages, found.entries, found.tokens, found.summaries, found.deepest)
    return "".join(f"{number:>12,}" for number in numbers) + (f"  {found.note}" if found.note else "")
