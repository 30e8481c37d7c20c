/** A small web application for containers, made of busybox only, and requests to it through the server. */
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { WebSocket } from 'ws'
import type { LabImage, RegistryLab } from '../lab/registry-lab.ts'

/**
 * Answers a request with the head that it received. A WebSocket gets `hello`, and `seen` for a message of five letters.
 */
const program = String.raw`#!/bin/sh
head=; key=
while IFS= read -r line; do
  line=$(printf %s "$line" | tr -d '\r')
  [ -z "$line" ] && break
  head="$head$line
"
  case "$line" in [Ss]ec-[Ww]eb[Ss]ocket-[Kk]ey:*) key=$(printf %s "$line" | cut -d' ' -f2);; esac
done
if [ -z "$key" ]; then
  printf 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n%s' "$head"
  exit
fi
accept=$(printf %s "$key"258EAFA5-E914-47DA-95CA-C5AB0DC85B11 | sha1sum | cut -c1-40 | xxd -r -p | base64)
printf 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
printf 'Sec-WebSocket-Accept: %s\r\n\r\n\201\005hello' "$accept"
head -c 11 >/dev/null
printf '\201\004seen'
cat >/dev/null
`

/** Listens on `port` as soon as the file /tmp/start exists. */
export async function pushWebApp(registry: RegistryLab, port: number): Promise<LabImage> {
  const layer = await registry.layer({ 'app.sh': program })
  const start = `until [ -e /tmp/start ]; do sleep 0.1; done; exec nc -ll -p ${port} -e /app.sh`
  return registry.push('lab/web-app', '1', [registry.busyboxLayer, layer], ['/bin/sh', '-c', start])
}

export interface WebAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** Sends a request for the host of `url` to a server, wherever that name leads. */
export async function askWebApp(
  server: string,
  url: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<WebAnswer> {
  const { hostname, port } = new URL(server)
  const { host, pathname, search } = new URL(url)
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const options = { hostname, port, path: pathname + search, setHost: false, headers: { Host: host, ...headers } }
    http.get({ ...options, agent: false }, resolve).once('error', reject)
  })
  return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) }
}

/** The messages of a WebSocket to the application: its greeting, and its answer to a message. */
export async function talkToWebApp(
  server: string,
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<string[]> {
  const { host, pathname } = new URL(url)
  const socket = new WebSocket(`${server.replace('http', 'ws')}${pathname}`, { headers: { Host: host, ...headers } })
  const heard: string[] = []
  return new Promise((resolve, reject) => {
    socket.once('error', reject)
    socket.on('message', (data) => {
      heard.push((data as Buffer).toString())
      if (heard.length === 1) return socket.send('abcde')
      socket.terminate()
      return resolve(heard)
    })
  })
}
