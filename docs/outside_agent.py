"""An agent of your own: hears that it is mentioned, assembles its context, answers with any model. Python alone.

OPENVIBE_URL=http://127.0.0.1:8000 OPENVIBE_TOKEN=ovk_… python docs/outside_agent.py
"""

import json
import os
from urllib.request import Request, urlopen

API = os.environ["OPENVIBE_URL"] + "/api/v1/"


def open_call(path, body=None):
    headers = {"Authorization": "Bearer " + os.environ["OPENVIBE_TOKEN"], "Content-Type": "application/json"}
    return urlopen(Request(API + path, data=body and json.dumps(body).encode(), headers=headers))


def call(path, body=None):
    return json.load(open_call(path, body))


def ask_a_model(messages):
    """Put your model here: `messages` is what every chat model takes. What people disliked stands in it too."""
    lessons = sum(message["content"].count("[RECENT FEEDBACK]") for message in messages)
    return f"I read {len(messages)} messages and carry {lessons} lessons."


me, events = call("me/")["participant"], open_call("events/")
print(f"@{me['handle']} listens.", flush=True)
for line in events:
    event = json.loads(line[5:]) if line.startswith(b"data:") else {}
    if event.get("kind") != "message_posted":
        continue
    said = call(f"messages/{event['message']}/")
    if said["author"]["kind"] == "member" and me["handle"] in [m["handle"] for m in said["mentions"]]:
        prompt = call("context/assemble/", {"thread": said["thread"], "task": "mention"})
        answer = {"body": ask_a_model(prompt["messages"]), "client_id": f"answer-to-{said['id']}"}
        call(f"threads/{said['thread']}/messages/", answer)
