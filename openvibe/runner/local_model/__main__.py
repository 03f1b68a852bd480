"""`python -m openvibe.runner.local_model`: a small model at http://127.0.0.1:8080/v1, until Ctrl-C."""

import argparse
import os
import signal
import sys
from pathlib import Path

from openvibe.runner.local_model.process import ServedModel, serve_model
from openvibe.runner.local_model.weights import MODELS, LocalModelError, SmallModel, default_cache

PORT = 8080
"""The port at which llama.cpp's server is looked for on this machine (`agents/connect/presets.py`)."""
CONTEXT_TOKENS = 8_192


def main() -> None:
    parser = argparse.ArgumentParser(prog="make local-model", description=__doc__)
    parser.add_argument("--size", choices=MODELS, default="0.5b", help="billions of weights")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--context", type=int, default=CONTEXT_TOKENS, help="tokens of a prompt and its answer")
    parser.add_argument("--threads", type=int, default=max(1, (os.cpu_count() or 2) - 1), help="one less than cores")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="folder for downloads")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as with Ctrl-C
    model = MODELS[options.size]
    print(f"{model.title}: {model.download} to download the first time, kept in {options.cache}.", flush=True)
    try:
        served = serve_model(
            model, cache=options.cache, port=options.port, context=options.context, threads=options.threads
        )
    except LocalModelError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Stopped.")
    with served:
        print(_welcome(model, served, options.context), flush=True)
        try:
            code = served.process.wait()
        except KeyboardInterrupt:
            sys.exit("Stopped.")
    sys.exit(f"The model's server ended by itself ({code}). What it said last:\n{served.last_words()}")


def connect_step(port: int) -> str:
    """The step on the page *Connect a model*: only at its usual port a server is looked for, and may be called."""
    if port == PORT:
        return "choose *Find model servers here*"
    return f"start OpenVibe with OPENVIBE_ALLOWED_ENDPOINT_HOSTS=127.0.0.1:{port}, and type that address"


def _welcome(model: SmallModel, served: ServedModel, context: int) -> str:
    return f"""
It answers at {served.base_url} as {model.name}, to this machine alone, without a key.
This is a small model, to try OpenVibe with: {model.abilities} No work should rest on it.
It reads {context:,} tokens at most, takes {model.memory} of memory, and answers one question at a time, a few words
a second.
To connect it: sign in as the superuser who installed OpenVibe, open Settings, Models, Connect a model, and
{connect_step(served.port)}.
Ctrl-C stops it."""


if __name__ == "__main__":
    main()
