"""`manage.py context show`: the prompt an agent would get, layer by layer, without asking any model."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents.agent.access import model_takes_tools
from agents.agent.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from agents.prompts.assembler.stack import BUDGETS, STACK
from agents.prompts.snapshots.redaction import prompt_payload
from agents.prompts.snapshots.store import shared_prefix_with_last_run
from agents.tools.toolbox import Toolbox
from openvibe.base.problems import Missing, Problem
from openvibe.chat.models import Thread


class Command(BaseCommand):
    help = "Shows what an agent would read in a thread, and what is left out and why. Nothing is stored or sent."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        show = verbs.add_parser("show", help="print the prompt")
        show.add_argument("--agent", required=True, metavar="HANDLE")
        show.add_argument("--thread", required=True, type=int, metavar="ID")
        show.add_argument("--task", default="mention", choices=[*BUDGETS])
        show.add_argument("--workspace", default="", metavar="SLUG", help="default: the thread's")
        show.add_argument("--request", metavar="TEXT", help="default: the newest message of a person")
        show.add_argument("--budget", type=int, help="tokens; may only lower the task's ceiling")
        show.add_argument("--json", action="store_true", help="what POST /api/v1/context/assemble/ answers")

    def handle(self, *_arguments: Any, **options: Any) -> None:
        thread = get_thread(options["thread"], options["workspace"])
        agent = get_agent(thread, options["agent"])
        try:
            prompt = assemble(
                agent=agent,
                thread=thread,
                task=options["task"],
                request=options["request"],
                budget=options["budget"],
                tools=Toolbox.for_agent(agent, thread).offered_specs if model_takes_tools(agent) else (),
            )
        except Missing:
            raise CommandError(
                f"@{agent.handle} (L{agent.level}) may not see thread {thread.pk}. Add it to #{thread.channel.name}, "
                "or open the thread to it."
            ) from None
        except Problem as error:
            raise CommandError(error.message) from None
        shared = shared_prefix_with_last_run(None, prompt, agent_id=agent.pk, thread_id=thread.pk)
        if options["json"]:
            self.stdout.write(json.dumps(prompt_payload(prompt, shared), ensure_ascii=False, indent=2))
        else:
            self.stdout.write(prompt_report(prompt, shared))


def get_thread(pk: int, slug: str) -> Thread:
    threads = Thread.objects.select_related("workspace", "channel").filter(pk=pk)
    thread = (threads.filter(workspace__slug=slug) if slug else threads).first()
    if thread is None:
        raise CommandError(f"There is no thread {pk}{f' in workspace {slug!r}' if slug else ''}.")
    return thread


def get_agent(thread: Thread, handle: str) -> Agent:
    agents = Agent.objects.select_related("participant", "workspace", "soul", "endpoint")
    agent = agents.filter(workspace=thread.workspace, participant__handle=handle.lstrip("@")).first()
    if agent is None:
        raise CommandError(f"There is no agent @{handle.lstrip('@')} in {thread.workspace.name}.")
    return agent


def prompt_report(prompt: Prompt, shared: int | None) -> str:
    """The table of layers, what was left out, then the messages as they would be sent."""
    titles: dict[str, str] = {layer.name: layer.title for layer in STACK}
    shares = [
        f"{layer:<5} {tokens:>7,}  {titles.get(layer, 'wrapping of the messages')}"
        for layer, tokens in prompt.layers.items()
    ]
    dropped_lines = [f"  {d.reason}: {d.section}, {d.source}, {_token_words(d.tokens)}" for d in prompt.dropped]
    messages = [f"\n--- {message.role}\n{message.content.rstrip()}" for message in prompt.messages]
    size = f"{prompt.tokens:,} of {prompt.ceiling:,} tokens"
    head = f"{prompt.task} · {prompt.model} · {size} · shared prefix {shared or 0:,}"
    left_out = [f"Left out ({len(dropped_lines)}):", *dropped_lines] if dropped_lines else ["Nothing was left out."]
    return "\n".join([head, *shares, *left_out, *messages])


def _token_words(tokens: int) -> str:
    """0: nobody counted what was left out."""
    return f"{tokens:,} tokens" if tokens else "not counted"
