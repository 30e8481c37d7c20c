#!/usr/bin/env python3
"""Starts llama-server with the flags of the recipe, as recipe-flags.ts prints them, and asks it once for each kind of model
and for its health, facts and metrics. Usage: recipe.py LLAMA_SERVER RECIPE_FLAGS"""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

HOST = "http://127.0.0.1:8080"
START_SECONDS = 120
QUESTIONS = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 32}),
    "embedding": ("/v1/embeddings", {"input": ["one", "two"]}),
}


def ask(path: str, body: dict | None, key: str | None) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(HOST + path, data, headers), timeout=60) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (urllib.error.URLError, ConnectionError) as error:
        return 0, str(error)


def try_kind(server: str, kind: str, args: list[str], env: dict[str, str]) -> None:
    began = time.monotonic()
    log = open(f"/tmp/llama-{kind}.log", "w")
    process = subprocess.Popen([server, *args], env=os.environ | env, stdout=log, stderr=log)
    try:
        while ask("/health", None, None)[0] != 200:
            if process.poll() is not None or time.monotonic() - began > START_SECONDS:
                sys.exit(open(log.name).read()[-3000:])
            time.sleep(0.1)
        print(f"{kind}: healthy after {time.monotonic() - began:.1f} s: {' '.join(args)}")
        path, body = QUESTIONS[kind]
        key = env["LLAMA_API_KEY"]
        print(kind, "without the key:", ask(path, body, None)[0])
        status, answer = ask(path, {"model": "lab"} | body, key)
        print(kind, "with it:", status, answer[:400])
        for page in ("/props", "/metrics"):
            status, text = ask(page, None, key)
            facts = [line for line in text.splitlines() if line.startswith("llamacpp:requests")]
            print(kind, page, status, f"total_slots {json.loads(text)['total_slots']}" if page == "/props" else facts)
    finally:
        process.terminate()
        process.wait()


for line in open(sys.argv[2]):
    try_kind(sys.argv[1], **json.loads(line))
