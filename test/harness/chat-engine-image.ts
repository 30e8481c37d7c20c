/** An engine for containers that speaks the chat protocol, made of busybox only. */
import type { LabImage, RegistryLab } from './registry-lab.ts'

/**
 * Rejects requests without its API key. Answers with its version; `hold` in a prompt makes the answer take half a second,
 * `long` makes a stream of twenty tokens in two seconds, and `crash` ends the engine.
 */
const program = String.raw`#!/bin/sh
length=0; auth=
while IFS= read -r line; do
  line=$(printf %s "$line" | tr -d '\r')
  [ -z "$line" ] && break
  case "$line" in
    [Cc]ontent-[Ll]ength:*) length=$(printf %s "$line" | cut -d' ' -f2);;
    [Aa]uthorization:*) auth=$(printf %s "$line" | cut -d' ' -f3);;
  esac
done
body=$(head -c "$length")
answer() {
  printf 'HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %s\r\nConnection: close\r\n\r\n%s' "$1" "$(printf %s "$2" | wc -c)" "$2"
  exit
}
[ "$auth" = "$API_KEY" ] || answer '401 Unauthorized' '{"error":{"message":"wrong key"}}'
usage='{"prompt_tokens":1,"completion_tokens":20,"total_tokens":21}'
case "$body" in *crash*) kill -9 1; kill -9 -1;; esac
case "$body" in *'"stream":true'*)
  printf 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n'
  n=0
  while [ $n -lt 20 ]; do
    printf 'data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"%s "},"finish_reason":null}]}\n\n' "$VERSION"
    case "$body" in *long*) sleep 0.1;; esac
    n=$((n+1))
  done
  printf 'data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":%s}\n\n' "$usage"
  printf 'data: [DONE]\n\n'
  exit;;
esac
case "$body" in *hold*) sleep 0.5;; esac
answer '200 OK' '{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"'"$VERSION"'"},"finish_reason":"stop"}],"usage":'"$usage"'}'
`

export const CHAT_ENGINE_PORT = 8_000

export async function pushChatEngine(registry: RegistryLab): Promise<LabImage> {
  const layer = await registry.layer({ 'engine.sh': program })
  const start = `echo "engine $VERSION"; [ "$VERSION" = broken ] && { echo 'cannot load the model'; exit 3; }; exec nc -ll -p ${CHAT_ENGINE_PORT} -e /engine.sh`
  return registry.push('lab/chat-engine', '1', [registry.busyboxLayer, layer], ['/bin/sh', '-c', start])
}
