"""What OpenVibe promises of any model, kept with real ones of half a billion and of 1.5 billion parameters."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.request import urlopen

import pytest
from django.db import transaction

from agents.connect.model_connection import ModelRequest, connect_model
from agents.connect.presets import Preset, find_local_servers
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from agents.runs.lifecycle import retry_run
from agents.statistics.cache_rates import cache_history, visible_runs
from agents.statistics.charts import total_rate
from memory.episodes.models import Episode
from memory.models import Compaction
from memory.plugins.compaction import execute_compaction
from memory.plugins.lcm.models import Summary
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.lcm.source_lines import strip_details
from memory.plugins.lcm.summary_sources import read_source
from memory.plugins.lcm.summary_validation import SourceCheck, find_problem
from memory.services import request_compaction
from openvibe.chat.models import Channel, Thread
from openvibe.engines.llm.endpoints.endpoints import client_for
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.protocol import ModelClient, ModelStream
from openvibe.engines.llm.values import NO_OPTIONS, CallOptions, ChatMessage, Completion, ToolSpec
from openvibe.runner.local_model.process import ServedModel
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask, reply_of
from tests.factories import access, make_member, make_thread, say
from tests.nightly.conftest import Connect, Serve, figures
from tests.nightly.facts import FACTS, Fact

SIZES = ["0.5b", "1.5b"]
TURNS = 15
MAX_RATE_DIFFERENCE = 5
"""Points between what the server read from its cache and what OpenVibe shows."""
TEMPLATE_MARKUP = re.compile(r"</?tool_call|<\|im_|</?(?:request|data|message)\b|\"arguments\"\s*:")
CONTEXT_TO_KILL = 6_000
"""Tokens; of no other server here, so that no test asks the one that was killed."""
ANSWER_TOKENS = 40
"""The length in tokens of an answer to bare lines."""


def answered(thread: Thread, by: Member, body: str, client: ModelClient | None = None) -> Run:
    run = ask(thread, by, body)
    execute_run(run.pk, client=client)
    run.refresh_from_db()
    return run


@dataclass
class Listening:
    """Passes everything on to a real client, and keeps what it answered whole. The server, where one is given, is
    killed after three pieces of a stream."""

    client: ModelClient
    answers: list[str] = field(default_factory=list)
    server: ServedModel | None = None

    @property
    def model(self) -> str:
        return self.client.model

    @property
    def is_free(self) -> bool:
        return self.client.is_free

    def complete(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> Completion:
        completion = self.client.complete(messages, tools=tools, max_output_tokens=max_output_tokens, options=options)
        self.answers.append(completion.text)
        return completion

    def stream(
        self,
        messages: Sequence[ChatMessage],
        *,
        tools: Sequence[ToolSpec] = (),
        max_output_tokens: int | None = None,
        options: CallOptions = NO_OPTIONS,
    ) -> ModelStream:
        pieces = self.client.stream(messages, tools=tools, max_output_tokens=max_output_tokens, options=options)
        for at, piece in enumerate(pieces):
            yield piece
            if at == 2 and self.server is not None:
                self.server.process.kill()
                self.server.process.wait()


@pytest.mark.parametrize("size", SIZES)
def test_a_mention_is_answered(
    serve: Serve, connect: Connect, ana: Member, vibe: Agent, thread: Thread, size: str
) -> None:
    connect(serve(size), f"qwen2.5-coder-{size}")
    say(thread, ana, "The spare key lies under the blue pot.")
    run = answered(thread, ana, "@vibe where is the spare key?")
    assert run.state == "done", run.error
    assert "blue pot" in reply_of(run).body.lower()
    assert not TEMPLATE_MARKUP.search(reply_of(run).body)
    assert (run.input_tokens or 0) > 0
    assert (run.output_tokens or 0) > 0
    assert run.cached_tokens is not None


def test_it_is_found_and_connected(serve: Serve, connect: Connect, ana: Member, vibe: Agent, thread: Thread) -> None:
    served = serve()
    preset = Preset("llama.cpp", f"http://localhost:{served.port}/v1", is_local=True)
    (found,) = find_local_servers([preset])
    assert found.models == ("qwen2.5-coder-0.5b",)
    request = ModelRequest(preset=preset)
    connection = connect_model(workspace=ana.workspace, by=access(ana), request=request, is_superuser=True)
    assert connection.endpoint.model == "qwen2.5-coder-0.5b"
    assert connection.agents == (vibe,)


@pytest.mark.parametrize("size", SIZES)
def test_offered_tools_are_used_or_not_but_never_shown_as_text(
    serve: Serve, connect: Connect, ana: Member, vibe: Agent, thread: Thread, size: str
) -> None:
    connect(serve(size), f"qwen2.5-coder-{size}")
    run = answered(thread, ana, "@vibe please log as progress that bed 1 is mulched.")
    calls = list(run.tool_calls.values_list("name", "decision"))
    figures.append(f"tools, {size}: called {calls or 'nothing'}, then said {reply_of(run).body[:100]!r}")
    assert run.state == "done", run.error
    assert not TEMPLATE_MARKUP.search(reply_of(run).body)


def test_a_server_that_refuses_tools_is_asked_without_them(
    serve: Serve, connect: Connect, ana: Member, vibe: Agent, thread: Thread
) -> None:
    connect(serve(offers_tools=False))
    say(thread, ana, "The spare key lies under the blue pot.")
    run = answered(thread, ana, "@vibe where is the spare key?")
    assert run.state == "done", run.error
    assert "blue pot" in reply_of(run).body.lower()


def test_a_prompt_longer_than_the_context_is_made_anew_in_the_same_run(
    serve: Serve, connect: Connect, ana: Member, vibe: Agent, thread: Thread
) -> None:
    """The endpoint was given a window that the server does not have."""
    connect(serve(context=2_048), context_window=32_000)
    for number in range(60):
        say(thread, ana, f"Bed {number} was weeded, raked and watered, and then it was sown with beans and a few peas.")
    run = answered(thread, ana, "@vibe which bed was weeded last?")
    assert run.state == "done", run.error
    assert reply_of(run).body


@pytest.mark.django_db(transaction=True)
def test_a_killed_server_leaves_what_was_said_and_no_memory_of_itself(
    serve: Serve, connect: Connect, ana: Member, vibe: Agent, thread: Thread
) -> None:
    served = serve(context=CONTEXT_TO_KILL)
    endpoint = connect(served)
    client = Listening(client_for(endpoint), server=served)
    run = answered(thread, ana, "@vibe tell me at length how mulch is made.", client)
    assert run.state == "failed"
    assert run.error.endswith((".", "!"))
    assert reply_of(run).body
    assert not Episode.objects.filter(kind="task_failed").exists()
    Endpoint.objects.filter(pk=endpoint.pk).update(base_url=serve().base_url)
    again = retry_run(run=run, by=access(ana)) or run
    execute_run(again.pk)
    run.refresh_from_db()
    assert run.state == "done", run.error


def test_a_conversation_is_compacted_and_weak_summaries_are_kept_out(
    serve: Serve, connect: Connect, ana: Member, vibe: Agent, thread: Thread
) -> None:
    client = Listening(client_for(connect(serve())))
    for at, fact in enumerate((*FACTS, *FACTS)):
        say(thread, ana, f"{fact.told} I noted it on page {at + 1}, before we went on to the next matter of the day.")
    compaction = request_compaction(thread=thread, trigger=Compaction.Trigger.HAND, full=True, by=access(ana))
    assert compaction is not None
    execute_compaction(compaction.pk, provider=LcmProvider(client=client))
    compaction.refresh_from_db()
    assert compaction.state == Compaction.State.DONE, compaction.error
    summaries = list(Summary.objects.filter(conversation__thread=thread))
    levels = [summary.level for summary in summaries]
    figures.append(f"compaction, 0.5b: {len(client.answers)} answers, summaries stored as {', '.join(levels)}")
    assert client.answers
    assert summaries
    for summary in summaries:
        assert summary.token_count < summary.source_tokens
        if summary.level in (Summary.Level.NORMAL, Summary.Level.AGGRESSIVE) and summary.kind == Summary.Kind.LEAF:
            assert find_problem(strip_details(summary.content), SourceCheck(read_source(summary))) == ""


@pytest.fixture
def told(ana: Member, channel: Channel, vibe: Agent) -> Thread:
    """A thread in which the twenty facts were told by three people."""
    people = {"Ana": ana} | {name: make_member(name, ana.workspace) for name in ("Dora", "Emil")}
    thread = make_thread(channel, ana, "The garden")
    for fact in FACTS:
        say(thread, people[fact.speaker], fact.told)
    return thread


@pytest.mark.parametrize("size", SIZES)
def test_facts_are_found_as_often_as_in_the_same_lines_bare(
    serve: Serve, connect: Connect, ana: Member, told: Thread, size: str
) -> None:
    endpoint = connect(serve(size), f"qwen2.5-coder-{size}")
    ours = {fact: _asked_in(told, ana, fact) for fact in FACTS}
    bare = {fact: _asked_bare(endpoint, fact) for fact in FACTS}
    right, right_bare = (sum(fact.is_in(text) for fact, text in texts.items()) for texts in (ours, bare))
    figures.append(f"facts, {size}: of {len(FACTS)} {right} right from our prompt, {right_bare} from bare lines")
    figures.extend(f"  {fact.question} {text[:120]!r}" for fact, text in ours.items() if not fact.is_in(text))
    assert right >= right_bare


def _asked_in(thread: Thread, by: Member, fact: Fact) -> str:
    """The answer that the thread's agent gives; nothing of it stays, so each question meets the same thread."""
    with transaction.atomic():
        run = answered(thread, by, f"@vibe {fact.question}")
        text = reply_of(run).body if run.state == "done" else f"({run.state})"
        transaction.set_rollback(True)
    return text


def _asked_bare(endpoint: Endpoint, fact: Fact) -> str:
    lines = "\n".join(f"{each.speaker}: {each.told}" for each in FACTS)
    messages = [ChatMessage("user", f"{lines}\n\n{fact.question}")]
    return client_for(endpoint).complete(messages, max_output_tokens=ANSWER_TOKENS).text


def test_the_cache_rate_shown_is_what_the_server_reused(
    serve: Serve, connect: Connect, ana: Member, vibe: Agent, thread: Thread
) -> None:
    served = serve()
    connect(served)
    read = []
    for fact in FACTS[:TURNS]:
        run = answered(thread, ana, f"@vibe {fact.told} Say in three words that you noted it.")
        assert run.state == "done", run.error
        read.append(_tokens_read(served))
    points = cache_history(visible_runs(access(ana)).filter(thread=thread)).points[1:]
    shown, computed = total_rate(point.cached for point in points), total_rate(point.shared for point in points)
    assert shown.percent is not None
    assert computed.percent is not None
    reused = 100 - 100 * (read[-1] - read[0]) / (shown.whole or 1)
    figures.append(
        f"prefix from the second of {TURNS} turns on: the server reused {reused:.1f} %; OpenVibe shows"
        f" {shown.percent} %, as its usage says, and computed {computed.percent} % itself"
    )
    assert abs(shown.percent - reused) <= MAX_RATE_DIFFERENCE
    assert abs(computed.percent - reused) <= MAX_RATE_DIFFERENCE


def _tokens_read(served: ServedModel) -> int:
    """Tokens of prompts that the server has read since it started, without those it found in its cache."""
    with urlopen(f"http://127.0.0.1:{served.port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("llamacpp:prompt_tokens_total")))
