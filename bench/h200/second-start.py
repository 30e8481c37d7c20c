"""How long vLLM takes to its first answer with an empty compile cache, and with the one that the start before it filled, as
a managed deployment gets it (docs/serving.md, compile caches). Needs a GPU, vLLM and a model:

    python3 bench/h200/second-start.py MODEL [FLAG...]

ROUNDS sets the pairs of starts (default: 3). Prints each pair and the medians."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PORT = 8123
LONGEST_START_SECONDS = 600
FOLDERS = ["VLLM_CACHE_ROOT", "FLASHINFER_WORKSPACE_BASE", "TRITON_CACHE_DIR"]


def answers() -> bool:
    body = json.dumps({"model": "model", "prompt": "hello", "max_tokens": 1}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/v1/completions", body, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def start(cache: str, model: str, flags: list[str]) -> float:
    """Seconds until the first answer."""
    env = os.environ | {name: os.path.join(cache, name.lower()) for name in FOLDERS}
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model]
    command += ["--served-model-name", "model", "--port", str(PORT), *flags]
    log = open(os.path.join(cache, "log"), "w")
    began = time.monotonic()
    server = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
    try:
        while not answers():
            if server.poll() is not None or time.monotonic() - began > LONGEST_START_SECONDS:
                sys.exit(open(log.name).read()[-4000:])
            time.sleep(0.2)
        return time.monotonic() - began
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()
        log.close()


def main() -> None:
    model, *flags = sys.argv[1:]
    pairs = []
    for number in range(int(os.environ.get("ROUNDS", "3"))):
        cache = tempfile.mkdtemp(prefix="compile-cache-")
        pairs.append((start(cache, model, flags), start(cache, model, flags)))
        first, second = pairs[-1]
        print(f"round {number + 1}: {first:.1f} s, then {second:.1f} s", flush=True)
        shutil.rmtree(cache)
    first, second = (statistics.median(times) for times in zip(*pairs))
    print(f"medians: {first:.1f} s, then {second:.1f} s: {1 - second / first:.0%} less")


main()
