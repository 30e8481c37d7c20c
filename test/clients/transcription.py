"""Transcribes files with OpenAI's client in every format, and writes the answers as JSON.

Arguments: the address with /v1, a key, a model, and the files.
"""

import json
import sys

from openai import OpenAI

base_url, key, model, *files = sys.argv[1:]
client = OpenAI(base_url=base_url, api_key=key, max_retries=0)
answers = {}
for path in files:
    formats = {}
    for response_format in ("json", "text", "srt", "vtt", "verbose_json"):
        with open(path, "rb") as file:
            answer = client.audio.transcriptions.create(file=file, model=model, response_format=response_format)
        formats[response_format] = answer if isinstance(answer, str) else answer.to_dict()
    with open(path, "rb") as file:
        events = [event.to_dict() for event in client.audio.transcriptions.create(file=file, model=model, stream=True)]
    formats["stream"] = events
    answers[path] = formats
json.dump(answers, sys.stdout)
