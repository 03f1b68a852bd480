"""Codes by which the program of an agent elsewhere joins: an admin makes one, the program exchanges it for a token."""

import shlex
from dataclasses import dataclass
from datetime import timedelta
from pathlib import PurePath
from typing import NamedTuple

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from agents.agent.models import Agent, JoinCode
from agents.connect.client_wheel import read_client_wheel
from openvibe.api.services import issue_token
from openvibe.base.audit import AuditAction, record_audit
from openvibe.base.events import emit
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.queries import token_owners
from openvibe.workspaces.access import Access
from openvibe.workspaces.queries import participant_access

JOIN_MINUTES = 10
JOIN_SCOPES = ("read", "write", "memory", "knowledge")
"""The scopes of a token that a program joins with: all that agents do, and nothing that admins do."""
MAX_COMMAND_CHARACTERS = 200
MAX_TOKEN_NAME = 80
RUNNERS = frozenset(
    (
        *("npx", "bunx", "pnpm", "pnpx", "yarn", "dlx", "exec", "node"),
        *("uv", "uvx", "tool", "run", "env", "python", "python3"),
    )
)
"""Words before the name of a program that say how it is started."""
FRESH_CODE = "Make a fresh one on the agent's page, with Connect its program."


class BadCode(Problem):
    """A code that lets nobody in."""

    code = "bad_code"


@dataclass(frozen=True)
class KnownCommand:
    """A coding agent that people have: `command` is what they type to start it."""

    name: str
    command: str


KNOWN_COMMANDS = (
    KnownCommand("Claude Code", "claude"),
    KnownCommand("Codex", "codex"),
    KnownCommand("OpenCode", "opencode"),
    KnownCommand("Gemini CLI", "gemini"),
    KnownCommand("GitHub Copilot", "copilot"),
    KnownCommand("Cursor", "cursor-agent"),
    KnownCommand("Goose", "goose"),
    KnownCommand("Kimi", "kimi"),
    KnownCommand("Qwen Code", "qwen"),
    KnownCommand("Pi", "pi"),
)


@dataclass(frozen=True)
class JoinResult:
    """What a program gets for its code. `secret` is the token's, shown this once."""

    agent: Agent
    secret: str


def check_command(command: str) -> str:
    """The command, as one line that a shell reads. Raises Problem."""
    cleaned = command.strip()
    if not cleaned or len(cleaned) > MAX_COMMAND_CHARACTERS or not cleaned.isprintable():
        raise Problem(
            f"Write the command as you type it, in one line of at most {MAX_COMMAND_CHARACTERS} characters.",
            code="bad_command",
            field="command",
        )
    try:
        return shlex.join(shlex.split(cleaned))
    except ValueError:
        message = "A quotation mark in this command is not closed. Write it as you type it in a terminal."
        raise Problem(message, code="bad_command", field="command") from None


@transaction.atomic
def create_join_code(*, agent: Agent, by: Access, command: str = "claude") -> JoinCode:
    """A code for ten minutes and one use; those of the agent that were not used hold no longer.

    Raises Refused for who may not make tokens of the agent, Conflict for one that OpenVibe answers for or that is
    deactivated, Problem for a command that is none.
    """
    _check_may_connect(by, agent)
    command = check_command(command)
    current = Agent.objects.select_for_update(no_key=True).get(pk=agent.pk)
    if reason := _closed_reason(current, agent.handle):
        raise reason
    JoinCode.objects.filter(agent=agent, used_at=None).delete()
    expires_at = timezone.now() + timedelta(minutes=JOIN_MINUTES)
    code = JoinCode.make(agent=agent, made_by_id=by.participant_id, command=command, expires_at=expires_at)
    code.save()
    after = f"a code to join with, for {JOIN_MINUTES} minutes"
    record_audit(AuditAction.TOKEN, workspace_id=agent.workspace_id, by=by, subject=f"@{agent.handle}", after=after)
    emit("agent_changed", workspace_id=agent.workspace_id)
    return code


@transaction.atomic
def use_join_code(*, code: str, host: str = "", command: str = "", client: str = "") -> JoinResult:
    """Exchanges the code for a token of its agent. Of two that send one code at once, one gets it.

    Raises BadCode for one that is wrong, used or late, Refused where its maker may not make tokens of the agent any
    more, Conflict where the agent is deactivated or answered for here meanwhile; the code is not used then.
    """
    kept = _lock_code(JoinCode.digest_of(code))
    if kept is None:
        raise BadCode(f"This code is wrong, or a newer one took its place. {FRESH_CODE}", field="code")
    if kept.used_at is not None:
        raise BadCode(f"This code was used already: a code lets one program in, once. {FRESH_CODE}", field="code")
    if not kept.is_open:
        raise BadCode(f"This code is too late: it held {JOIN_MINUTES} minutes. {FRESH_CODE}", field="code")
    agent = kept.agent
    if reason := _closed_reason(agent, agent.handle):
        raise reason
    maker = participant_access(kept.made_by)
    if maker is None or not token_owners(maker).filter(pk=agent.participant_id).exists():
        sentence = f"Who made this code may not make tokens of @{agent.handle} any more. {FRESH_CODE}"
        raise Refused(sentence, code="maker_may_not")
    token, secret = issue_token(
        participant=agent.participant,
        name=token_name(command or kept.command, host),
        scopes=JOIN_SCOPES,
        by=maker,
        made_by_id=maker.participant_id,
    )
    kept.used_at, kept.token = timezone.now(), token
    kept.save(update_fields=["used_at", "token"])
    record_audit(
        AuditAction.AGENT,
        workspace_id=agent.workspace_id,
        by=maker,
        subject=f"@{agent.handle}",
        after=f"joined by code: {token.name}",
        note=f"with {_shown(client, 60)}" if _shown(client, 60) else "",
    )
    emit("agent_changed", workspace_id=agent.workspace_id)
    return JoinResult(agent, secret)


def _lock_code(digest: str) -> JoinCode | None:
    """The code with its agent, both locked until the transaction ends; the agent first, as when a code is made."""
    found = JoinCode.objects.filter(digest=digest).values_list("agent_id", "digest").first()
    if found is None or not constant_time_compare(found[1], digest):
        return None
    Agent.objects.select_for_update(no_key=True).get(pk=found[0])
    rows = JoinCode.objects.select_for_update(of=("self",)).filter(digest=digest)
    return rows.select_related("agent__participant", "agent__workspace", "made_by").first()


class JoinLines(NamedTuple):
    """What is pasted where the agent is to run: on a machine with uv, and on one that has pip alone."""

    uv: str
    pip: str


def join_lines(code: JoinCode, root: str) -> JoinLines:
    """The lines with this code. `root` is the server's address, as who asks for them knows it. Raises Missing where
    the server came without its client."""
    url = root.rstrip("/")
    wheel = f"{url}/client/{read_client_wheel().filename}"
    join = f"openvibe join {code.code} --url {url} -- {code.command}"
    return JoinLines(f"uvx --from {wheel} {join}", f"pip install {wheel} && {join}")


def token_name(command: str, host: str) -> str:
    """The name of the token on the page of tokens, such as "claude on reed-laptop"."""
    program, machine = _program(command), _shown(host, 40)
    return f"{program} on {machine}"[:MAX_TOKEN_NAME] if machine else program


def _program(command: str) -> str:
    """The name of the program that a command starts. Its arguments are not shown: one may be a secret."""
    try:
        words = [word for word in shlex.split(command) if word]
    except ValueError:
        words = command.split()
    names = [
        word for word in words if not word.startswith("-") and "=" not in word and PurePath(word).name not in RUNNERS
    ]
    name = names[0] if names else "program"
    return _shown(name if name.startswith("@") else PurePath(name).name, 36) or "program"


def _shown(words: str, limit: int) -> str:
    """Words of somebody's machine as they may stand on a page: printable, in one line, cut."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in words).split())[:limit]


def _closed_reason(agent: Agent, handle: str) -> Conflict | None:
    """Returns why no program can join as the agent now; None where one can."""
    if not agent.is_active:
        return Conflict(
            f"@{handle} is deactivated. Have an owner or admin bring it back, then make a fresh code.",
            code="agent_inactive",
        )
    if not agent.answers_itself:
        return Conflict(
            f"OpenVibe answers for @{handle}. Choose “A program elsewhere, through the API” in its settings first.",
            code="answered_here",
        )
    return None


def _check_may_connect(by: Access, agent: Agent) -> None:
    if not by.administers or by.workspace_id != agent.workspace_id:
        raise Refused("Only owners and admins connect agents. Ask one of them.")
    if agent.is_active and not token_owners(by).filter(pk=agent.participant_id).exists():
        sentence = (
            f"@{agent.handle} reads a private channel that you are not in, so you cannot let a program in as it. "
            "Ask somebody who is."
        )
        raise Refused(sentence, code="reads_more")


def latest_join_code(agent: Agent) -> JoinCode | None:
    """The newest code of the agent, with the token it became."""
    return JoinCode.objects.filter(agent=agent).select_related("token").first()
