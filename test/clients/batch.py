"""Runs 1,000 lines as a batch with OpenAI's client, and writes what came of them as JSON.

Arguments: the address with /v1, a key, and a model.
"""

import json
import sys
import time

from openai import OpenAI

base_url, key, model = sys.argv[1:]
client = OpenAI(base_url=base_url, api_key=key, max_retries=0)
endpoint = "/v1/chat/completions"


def line(number: int) -> dict:
    # A model of texts takes no image: valid, but not answered.
    image = [{"type": "image_url", "image_url": {"url": "https://a"}}]
    content = image if number % 10 == 9 else f"question {number}"
    body = {"model": model, "messages": [{"role": "user", "content": content}]}
    return {"custom_id": f"line-{number}", "method": "POST", "url": endpoint, "body": body}


text = "\n".join(json.dumps(line(number)) for number in range(1000))
file = client.files.create(file=("lines.jsonl", text.encode()), purpose="batch")
batch = client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", metadata={"a": "b"})
while batch.status in ("validating", "in_progress", "finalizing"):
    time.sleep(0.2)
    batch = client.batches.retrieve(batch.id)


def lines_of(file_id: str | None) -> list:
    if file_id is None:
        return []
    return [json.loads(one) for one in client.files.content(file_id).text.splitlines()]


output, errors = lines_of(batch.output_file_id), lines_of(batch.error_file_id)
listed = [one.id for one in client.batches.list(limit=1)]
json.dump({"batch": batch.to_dict(), "output": output, "errors": errors, "listed": listed}, sys.stdout)
