"""An agent of your own: hears what is meant for it, reads its context, answers with any model. Python alone.
What is said while it does not run it never hears: openvibe-client (client.md) keeps its place in a file.

OPENVIBE_URL=http://127.0.0.1:8000 OPENVIBE_TOKEN=ovk_… python docs/outside_agent.py
"""

import json
import os
import time
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import Request, urlopen

API = os.environ["OPENVIBE_URL"] + "/api/v1/"


def open_call(path, body=None):
    headers = {"Authorization": "Bearer " + os.environ["OPENVIBE_TOKEN"], "Content-Type": "application/json"}
    return urlopen(Request(API + path, data=body and json.dumps(body).encode(), headers=headers), timeout=60)


def call(path, body=None):
    return json.load(open_call(path, body))


def ask_a_model(messages):
    """The place for your own model: `messages` is what every chat model takes. What people disliked stands in it
    too."""
    lessons = sum(message["content"].count("[RECENT FEEDBACK]") for message in messages)
    return f"I read {len(messages)} messages and carry {lessons} lessons."


def answer(message):
    """Takes the message, reads what there is to know, says the answer, or why there is none."""
    try:
        run = call("runs/", {"message": message})
        address, attempt = f"runs/{run['id']}/", {"attempt": run["attempt"]}
        prompt = call(address + "context/", attempt)
        try:
            end = {"body": ask_a_model(prompt["messages"]) or "The model said nothing."}
        except Exception as error:  # whatever your model's library raises
            end = {"error": f"The model did not answer: {str(error) or type(error).__name__}"[:2000]}
        try:
            call(address + "finish/", attempt | end)
        except HTTPError as error:
            if error.code != 400:
                raise
            call(address + "finish/", attempt | {"error": f"Its answer was not taken: {error.read().decode()[:2000]}"})
    except (OSError, HTTPException, ValueError) as error:
        if getattr(error, "code", 0) not in (403, 404, 409):  # not meant for it, gone, or a copy of this script has it
            print(f"Message {message} is not answered: {error}", flush=True)


def events():
    """What is queued for it (Retry, drafts), then what happens; after a lost connection on from where it was."""
    position = ""
    while True:
        try:
            stream = open_call("events/?include=data&kind=mention&kind=message_posted&after=" + position)
            for waiting in call("runs/?state=queued")["results"]:  # asked for while it was away
                yield {"kind": "mention", "message": waiting["trigger"]}
            for line in stream:
                if line.startswith(b"id:"):
                    if not position:  # what is said from here on is heard
                        print(f"@{handle} listens.", flush=True)
                    position = line[3:].decode().strip()
                elif line.startswith(b"data:"):
                    yield json.loads(line[5:])
        except (OSError, HTTPException, ValueError) as error:
            if isinstance(error, HTTPError) and error.code < 500:
                raise  # the token is wrong, say
        time.sleep(1)


handle = call("me/")["participant"]["handle"]
for event in events():
    author = (event.get("data") or {}).get("author") or {}
    if event.get("kind") == "mention" or author.get("kind") == "member":  # its name, Retry, a draft; its dives
        answer(event["message"])
