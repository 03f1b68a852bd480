"""`manage.py memory check | compact | rebuild | stats`: memory as it is stored, put in order from a shell."""

from argparse import ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.plugins.base import Rebuilder, read_stats
from memory.plugins.compaction import execute_compaction, request_compaction
from memory.plugins.lcm.integrity import find_violations, forget_unusable_summaries
from memory.plugins.models import Compaction
from memory.plugins.registry import provider_for
from memory.plugins.sessions import session_for_thread
from openvibe.base.problems import Problem
from openvibe.chat.models import Thread

COLUMNS = ("thread", "messages", "in context", "tokens", "summaries", "deepest")


class Command(BaseCommand):
    help = "Checks what lossless memory has stored, compacts or rebuilds it, or says how much there is of each."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        check_parser = verbs.add_parser("check", help="look for rows that break an invariant; exits 1 naming them")
        check_parser.add_argument("--thread", type=int, metavar="ID", help="default: every thread with a memory")
        compact_parser = verbs.add_parser("compact", help="compact a thread now, in this process")
        compact_parser.add_argument("--thread", type=int, metavar="ID", required=True)
        compact_parser.add_argument("--full", action="store_true", help="until nothing is left to compact")
        rebuild_parser = verbs.add_parser("rebuild", help="write anew what is no summary, or waits to be rewritten")
        rebuild_parser.add_argument("--thread", type=int, metavar="ID", help="default: every thread with a memory")
        stats_parser = verbs.add_parser("stats", help="how much of each thread is remembered, and how")
        stats_parser.add_argument("--thread", type=int, metavar="ID", help="default: every thread with a memory")

    def handle(self, *_arguments: Any, verb: str, thread: int | None, **options: Any) -> None:
        if verb == "compact":
            for each in selected_threads(thread):
                self.stdout.write(compact_thread(each, full=options["full"]))
        elif verb == "rebuild":
            for each in selected_threads(thread):
                self.stdout.write(rebuild_thread(each))
        elif verb == "check":
            self.check_threads(selected_threads(thread))
        else:
            self.stdout.write("".join(f"{column:>12}" for column in COLUMNS))
            for each in selected_threads(thread):
                self.stdout.write(format_stats(each))

    def check_threads(self, threads: Iterable[Thread]) -> None:
        """Raises CommandError (exit code 1) when a row breaks an invariant; the rows are printed as they are found."""
        thread_count = violation_count = 0
        for thread in threads:
            thread_count += 1
            for sentence in find_violations(thread.pk):
                violation_count += 1
                self.stdout.write(sentence)
        if violation_count:
            raise CommandError(
                f"Threads checked: {thread_count}. Sentences above: {violation_count}. Do what they say; where they say"
                " nothing to do, report them with this output."
            )
        self.stdout.write(f"Threads checked: {thread_count}. All is well.")


def selected_threads(pk: int | None) -> Iterable[Thread]:
    """The one asked for, or all that have a memory. Raises CommandError when there is none of this number."""
    threads = Thread.objects.select_related("workspace", "channel")
    if pk is None:
        return threads.filter(lcm_conversation__isnull=False).order_by("pk").iterator()
    if not (matches := threads.filter(pk=pk)):
        raise CommandError(f"There is no thread {pk}.")
    return matches


def compact_thread(thread: Thread, *, full: bool) -> str:
    """Compacts the thread and says what came of it. Raises CommandError where it cannot."""
    try:
        compaction = request_compaction(thread=thread, trigger=Compaction.Trigger.HAND, full=full)
    except Problem as problem:
        if problem.code == "nothing_new":
            return "Nothing to compact: nothing was said since the last compaction."
        raise CommandError(problem.message) from None
    if compaction is None:
        raise CommandError(f"Thread {thread.pk} is being compacted already, or is about to be. Try again in a moment.")
    delay = execute_compaction(compaction.pk)
    compaction.refresh_from_db()
    if delay is not None:
        raise CommandError(f"{compaction.error} Nothing was changed; a worker tries again in {delay} seconds.")
    if compaction.state == Compaction.State.FAILED:
        raise CommandError(compaction.error)
    if compaction.state == Compaction.State.NOTHING:
        return f"Nothing to compact: {compaction.tokens_after or 0:,} tokens."
    sizes = f"{compaction.tokens_before or 0:,} tokens before, {compaction.tokens_after or 0:,} after"
    return f"{sizes}; new summaries: {compaction.created_count}."


def rebuild_thread(thread: Thread) -> str:
    """Has everything written anew that is no summary, or lost its words; returns what came of it. Raises
    CommandError."""
    unusable_count = forget_unusable_summaries(thread.pk)
    provider = provider_for(thread.workspace_id)
    if not isinstance(provider, Rebuilder):
        return f"Thread {thread.pk}: the memory plugin of its workspace makes no summaries. Nothing changed."
    session = session_for_thread(thread)
    if session is None:
        return f"Thread {thread.pk}: nobody reads it any more, or it is for people only. Nothing was written."
    try:
        result = provider.rebuild(session)
    except Problem as problem:
        raise CommandError(f"Thread {thread.pk}: {problem.message} Workers try again by themselves.") from None
    if not result.rounds:
        return f"Thread {thread.pk}: every summary stands."
    sizes = f"{result.tokens_before:,} tokens before, {result.tokens_after:,} after"
    return f"Thread {thread.pk}: {unusable_count} that were none, and what was made of them, written anew; {sizes}."


def format_stats(thread: Thread) -> str:
    """One line of numbers, and the note of the plugin where it has one."""
    session = session_for_thread(thread)
    if session is None:
        return f"{thread.pk:>12}  nobody reads this thread any more, or it is for people only"
    stats = read_stats(provider_for(thread.workspace_id), session)
    numbers = (thread.pk, stats.messages, stats.entries, stats.tokens, stats.summaries, stats.deepest)
    return "".join(f"{number:>12,}" for number in numbers) + (f"  {stats.note}" if stats.note else "")
