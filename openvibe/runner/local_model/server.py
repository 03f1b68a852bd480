"""Serves one GGUF file with llama.cpp's own server, on the loopback address alone, until its standard input ends: so it
never outlives who started it.

Run by path, with the folder of `prepare_server` as PYTHONPATH. One request at a time: others wait."""

import argparse
import os
import sys

import xllamacpp

MEBIBYTES_OF_OTHER_PROMPTS = 512
"""The memory for prompts read before: who asks in turns with others finds its own again."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("weights")
    parser.add_argument("--name", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--context", type=int, required=True, help="tokens of a prompt and its answer")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--without-tools", action="store_true", help="refuse requests that offer tools")
    options = parser.parse_args()
    server = xllamacpp.Server(_parameters(options))
    print(f"listening at {server.listening_address}", flush=True)
    sys.stdin.buffer.read()
    os._exit(0)  # an answer that is being written would be waited for


def _parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = options.weights
    parameters.model_alias = [options.name]
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = options.port
    parameters.n_ctx = options.context
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = options.threads
    parameters.cpuparams_batch.n_threads = options.threads
    parameters.cache_ram_mib = MEBIBYTES_OF_OTHER_PROMPTS
    parameters.sampling.temp = 0.0  # where a request says nothing: the same question gets the same answer
    parameters.endpoint_metrics = True
    parameters.use_jinja = not options.without_tools  # llama.cpp offers tools through the template's own words
    return parameters


if __name__ == "__main__":
    main()
