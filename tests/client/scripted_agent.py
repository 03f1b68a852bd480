"""An agent that speaks the Agent Client Protocol as it is told: the last `script-…` in a prompt says what it does.

`python scripted_agent.py FOLDER [ANSWER…]`. Everything it was asked stands in `FOLDER/asked.jsonl`, a line each; its
sessions are kept in files there, so that they can be loaded by another process. Words of `ANSWER` switch abilities:
`no-load`, `no-http`, `babble` (writes before `initialize`)."""

import asyncio
import json
import os
import re
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    plan_entry,
    run_agent,
    start_tool_call,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
)
from acp.exceptions import RequestError
from acp.helpers import text_block
from acp.schema import (
    AgentCapabilities,
    InitializeResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    SessionConfigOptionSelect,
    ToolCallUpdate,
    Usage,
)

FOLDER = Path(sys.argv[1])
ABILITIES = sys.argv[2:]
USUAL = (("go", "allow_once"), ("go-always", "allow_always"), ("no", "reject_once"))


class ScriptedAgent:
    """One process; it serves any number of sessions."""

    client: Any

    def __init__(self) -> None:
        self.cancelled: dict[str, asyncio.Event] = {}
        self.turns, self.times = 0, 1

    def on_connect(self, client: Any) -> None:
        self.client = client

    def log(self, method: str, **facts: Any) -> None:
        with (FOLDER / "asked.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"method": method, "pid": os.getpid(), **facts}) + "\n")

    async def initialize(self, protocol_version: int, client_capabilities: Any = None, **more: Any) -> Any:
        self.log("initialize", capabilities=client_capabilities.model_dump() if client_capabilities else None)
        capabilities = AgentCapabilities(
            load_session="no-load" not in ABILITIES, mcp_capabilities=McpCapabilities(http="no-http" not in ABILITIES)
        )
        return InitializeResponse(protocol_version=PROTOCOL_VERSION, agent_capabilities=capabilities)

    async def new_session(self, cwd: str, mcp_servers: Any = None, **more: Any) -> Any:
        session = f"session-{len(list(FOLDER.glob('session-*'))) + 1}"
        (FOLDER / session).touch()
        self.log("new", session=session, cwd=cwd, servers=[server.model_dump() for server in mcp_servers or ()])
        await self.list_tools(mcp_servers or [])
        return NewSessionResponse(session_id=session, config_options=[model_option()])

    async def load_session(self, cwd: str, session_id: str, mcp_servers: Any = None, **more: Any) -> Any:
        self.log("load", session=session_id)
        if not (FOLDER / session_id).exists():
            raise RequestError(-32002, "No such session")
        await self.client.session_update(session_id, update_agent_message_text("What was said before."))
        await self.list_tools(mcp_servers or [])
        return LoadSessionResponse()

    async def list_tools(self, servers: list[Any]) -> None:
        if "no-tools" in ABILITIES or not servers:
            return
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        if getattr(servers[0], "url", None):
            answered = await asyncio.to_thread(call_http, servers[0].url, message)
        else:
            answered = await call_stdio(servers[0], message)
        self.log("tools", names=[tool["name"] for tool in answered["result"]["tools"]])

    async def cancel(self, session_id: str, **more: Any) -> None:
        self.log("cancel", session=session_id)
        self.cancelled[session_id].set()

    async def prompt(self, session_id: str, prompt: Any, **more: Any) -> Any:
        text = "".join(block.text for block in prompt)
        self.turns += 1
        self.log("prompt", session=session_id, text=text)
        self.cancelled[session_id] = asyncio.Event()
        self.times = int((re.findall(r"\bseries-(\d+)", text) or ["1"])[-1])
        words = re.findall(r"\bscript-(\w+)", text)
        act = getattr(self, words[-1] if words else "plain")
        reason = await act(session_id) or "end_turn"
        usage = Usage(total_tokens=115, input_tokens=100, output_tokens=10, cached_read_tokens=5)
        return PromptResponse(stop_reason=reason, usage=usage)

    async def say(self, session: str, *words: str) -> None:
        for word in words:
            await self.client.session_update(session, update_agent_message_text(word))

    async def plain(self, session: str) -> None:
        await self.say(session, "Prune ", "in ", f"March. Turn {self.turns}.")

    async def show(self, session: str) -> None:
        """A thought, a plan, a call with a diff, and words around them."""
        send = self.client.session_update
        await send(session, update_agent_thought_text("Roses "))
        await send(session, update_agent_thought_text("first."))
        await self.say(session, "I look.")
        entries = [plan_entry("Look", status="completed"), plan_entry("Prune", priority="high")]
        await send(session, update_plan(entries))
        call = start_tool_call(
            "call-1", "Edit roses.txt", kind="edit", status="pending", raw_input={"path": "roses.txt"}
        )
        await send(session, call)
        diff = tool_diff_content("roses.txt", "March\nJune\n", "May\nJune\n")
        await send(session, update_tool_call("call-1", status="completed", content=[diff]))
        await self.say(session, "Done.")

    async def ask(self, session: str, options: Any = USUAL, command: str = "ls roses", key: str = "call-ask") -> str:
        """Asks before it acts; the option that was chosen, or what became of it."""
        call = ToolCallUpdate(
            tool_call_id=key, title=f"`{command}`", kind="execute", status="pending", raw_input={"command": command}
        )
        chosen = [PermissionOption(option_id=name, name=name, kind=kind) for name, kind in options]
        answered = await self.client.request_permission(session, call, chosen)
        outcome = getattr(answered.outcome, "option_id", "cancelled")
        self.log("outcome", outcome=outcome)
        return str(outcome)

    async def permit(self, session: str) -> None:
        await self.say(session, f"Chose {await self.ask(session)}.")

    async def series(self, session: str) -> None:
        """Asks as often as the prompt says, and notes when it asked and when it could go on."""
        for number in range(self.times):
            asked_at = time.time()
            await self.ask(session, command=f"ls bed-{number:02}", key=f"call-{number}")
            self.log("answered", number=f"{number:02}", asked_at=asked_at, answered_at=time.time())
        await self.say(session, "All asked.")

    async def tells(self, session: str) -> None:
        """Words before and after a call that it asks for without having told of it."""
        await self.say(session, "I look.")
        await self.say(session, f"Chose {await self.ask(session)}.")

    async def twice(self, session: str) -> None:
        first, second = await asyncio.gather(self.ask(session), self.ask(session))
        other = await self.ask(session, command="rm -r roses")
        await self.say(session, f"Chose {first}, {second}, {other}.")

    async def endless(self, session: str) -> None:
        await self.say(session, f"Chose {await self.ask(session, command='ls ' + 'roses ' * 4_000)}.")

    async def edits(self, session: str) -> None:
        """Edits a file in its folder, and one that is elsewhere."""
        for path in (f"{os.getcwd()}/beds/roses.txt", "/etc/roses.txt"):
            diff = tool_diff_content(path, "May\n", "March\n")
            call = ToolCallUpdate(tool_call_id=path, title="Edit", kind="edit", content=[diff])
            options = [PermissionOption(option_id=name, name=name, kind=kind) for name, kind in USUAL]
            answered = await self.client.request_permission(session, call, options)
            self.log("outcome", outcome=getattr(answered.outcome, "option_id", "cancelled"))
        await self.say(session, "Edited.")

    async def strange(self, session: str) -> None:
        """Options that the protocol does not know, which the SDK would not send."""
        params = {
            "sessionId": session,
            "toolCall": {"toolCallId": "odd", "title": "Odd", "kind": "execute"},
            "options": [{"optionId": "all", "name": "Everything", "kind": "allow_everything"}],
        }
        answered = await self.client._conn.send_request("session/request_permission", params)
        await self.say(session, f"Chose {json.dumps(answered['outcome'])}.")

    async def die(self, session: str) -> None:
        call = asyncio.create_task(self.ask(session))
        while not (FOLDER / "die").exists():
            await asyncio.sleep(0.02)
        call.cancel()
        print("Error: out of roses\n    at prune (garden.js:1:1)\n\nNode.js v20.1", file=sys.stderr, flush=True)
        os._exit(7)

    async def forever(self, session: str) -> str:
        await self.say(session, "I begin.")
        await self.cancelled[session].wait()
        if (FOLDER / "ask-after-stop").exists():
            await self.ask(session)
        return "cancelled"

    async def deaf(self, session: str) -> None:
        await self.say(session, str(os.getpid()))
        await asyncio.Event().wait()

    async def wait(self, session: str) -> str | None:
        """Goes on once the test says so."""
        await self.say(session, "Slowly.")
        while not (FOLDER / "go-on").exists():
            if self.cancelled[session].is_set():
                return "cancelled"
            await asyncio.sleep(0.02)
        return None

    async def huge(self, session: str) -> None:
        await self.say(session, "Before. ", "x" * 50_000_000, "After.")

    async def fail(self, session: str) -> None:
        data = {"details": '{"type":"error","error":{"message":"Your credit balance is too low."}}'}
        raise RequestError(-32603, "Internal error", data)

    async def hostile(self, session: str) -> None:
        """Sends too much of everything, and what cannot be stored or seen."""
        send = self.client.session_update
        await send(session, update_plan([plan_entry("Look \x00\u202e" * 500) for _ in range(500)]))
        path, diff = "../" * 2_000, tool_diff_content("a\x00b", "x" * 1_000_000, "\u202e" * 100_000)
        title = "T\x00\u202e" * 50_000
        await send(session, start_tool_call("a\x00\u202e", title, kind="edit", content=[diff], raw_input={path: path}))
        for _ in range(300):
            await send(session, update_tool_call("a\x00\u202e", status="in_progress"))
            await send(session, update_tool_call("a\x00\u202e", status="completed"))
        for number in range(100):
            await send(session, update_agent_thought_text("hm \x00" * 10_000))
            await self.say(session, f"{number} \x00")
        await self.say(session, "Still here.")

    async def many(self, session: str) -> None:
        """A diff of a hundred thousand lines, and three hundred steps."""
        old, new = ("\n".join(f"{word} {number}" for number in range(100_000)) for word in ("old", "new"))
        call = start_tool_call("big", "Rewrite", kind="edit", content=[tool_diff_content("big.txt", new, old)])
        await self.client.session_update(session, call)
        for number in range(300):
            step = start_tool_call(f"n-{number}", "Reads", kind="read", content=[tool_content(text_block("x"))])
            await self.client.session_update(session, step)
        await self.say(session, "All read.")


def model_option() -> Any:
    return SessionConfigOptionSelect(
        type="select", id="model", name="Model", category="model", current_value="scripted-1", options=[]
    )


def call_http(url: str, message: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, json.dumps(message).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


async def call_stdio(server: Any, message: dict[str, Any]) -> Any:
    env = {**os.environ, **{variable.name: variable.value for variable in server.env}}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(server.command, *server.args, stdin=pipe, stdout=pipe, env=env)
    said, _ = await process.communicate(json.dumps(message).encode() + b"\n")
    return json.loads(said)


if __name__ == "__main__":
    if "babble" in ABILITIES:
        print("Welcome to the garden!\n[1, 2]\n", flush=True)
        early = {"sessionId": "none", "update": {"sessionUpdate": "agent_message_chunk", "content": {}}}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": early}), flush=True)
    asyncio.run(run_agent(ScriptedAgent()))  # type: ignore[arg-type]
