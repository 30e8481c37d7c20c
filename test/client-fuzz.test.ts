/**
 * Nothing that a container engine, a cluster, QEMU, a host, a cloud, a mail server, a webhook's receiver, a registry or a
 * server sends can end the server or the agent that asked it.
 */
import { EventEmitter, once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { Duplex } from 'node:stream'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { WebSocketServer } from 'ws'
import { z } from 'zod'
import { openConnection } from '../src/agent/connection.ts'
import { serveControl } from '../src/agent/control.ts'
import { openAgentFolder } from '../src/agent/folder.ts'
import { instantOf } from '../src/base/instant.ts'
import { outboundAgent } from '../src/base/net/outbound.ts'
import { makeSshKeyPair } from '../src/base/ssh-key-pair.ts'
import { AGENT_PATH, AGENT_PROTOCOL } from '../src/contract/agent.ts'
import { Breaker } from '../src/drivers/clouds/breaker.ts'
import { CloudHttp } from '../src/drivers/clouds/http.ts'
import { Pacer } from '../src/drivers/clouds/pacer.ts'
import { DockerClient } from '../src/runtimes/docker/client.ts'
import { ContainerSsh } from '../src/runtimes/docker/container-ssh.ts'
import { EventWatch } from '../src/runtimes/docker/event-watch.ts'
import { readOutput, startExecution, executionStream } from '../src/runtimes/docker/execution.ts'
import { KubernetesApi } from '../src/drivers/kubernetes/api.ts'
import { openPort } from '../src/drivers/kubernetes/streams.ts'
import { logStream } from '../src/runtimes/log-stream.ts'
import type { MetalAccess } from '../src/runtimes/ssh/access.ts'
import { SshHost } from '../src/runtimes/ssh/ssh.ts'
import { connectTo, hasBanner } from '../src/runtimes/qemu/forwarded-port.ts'
import { Monitor } from '../src/runtimes/qemu/monitor.ts'
import { pingNfs } from '../src/runtimes/storage/nfs-ping.ts'
import { makeGetter } from '../src/artifacts/download/http-get.ts'
import { readTarFile } from '../src/artifacts/model/tar-entry.ts'
import { sendWebhook } from '../src/reconcile/webhook-request.ts'
import { openMailer } from '../src/server/mail/mailer.ts'
import { openChannel, type Line } from '../src/server/workers/channel.ts'
import { manualClock } from './sim/clock.ts'
import { memoryTurns } from './harness/cloud-world.ts'
import { atMost, fuzzingServer, fuzzOf } from './harness/listener-fuzz.ts'

const FUZZ = { timeout: 1_800_000 }
const soon = (): AbortSignal => AbortSignal.timeout(600)

const json = (value: unknown): string => {
  const text = JSON.stringify(value)
  return `HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`
}
const chunked = (text: string): string =>
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`
const switched = 'HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-fuzz-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Reads a stream for a moment, or leaves it unread. */
async function use(stream: Duplex, isRead: boolean): Promise<void> {
  stream.on('error', () => {})
  if (isRead) stream.resume()
  await atMost(200, once(stream, 'close'))
  stream.destroy()
}

describe('an agent outlasts', () => {
  test('every answer of the container engine (issue 31, 1)', FUZZ, async () => {
    const frame = Buffer.concat([Buffer.from([1, 0, 0, 0, 0, 0, 0, 5]), Buffer.from('hello')]).toString('latin1')
    const fuzzed = fuzzOf('a container engine', [
      json({ MinAPIVersion: '1.24', ApiVersion: '1.41' }),
      json({ Id: 'a'.repeat(64) }),
      json({ Running: false, ExitCode: 0 }),
      json({ SystemTime: '2024-01-01T00:00:00Z' }),
      chunked('{"status":"start"}\n{"status":"die"}\n'),
      `${switched}${frame}`,
      'HTTP/1.1 404 Not Found\r\nContent-Length: 17\r\n\r\n{"message":"none"}',
    ])
    const socketPath = path.join(folder, 'docker.sock')
    const engine = await fuzzingServer(fuzzed, { path: socketPath })
    expect(
      await fuzzed.run(async () => {
        const client = new DockerClient(socketPath)
        const watch = new EventWatch(client, () => {})
        const kind = fuzzed.random()
        const work = async (): Promise<void> => {
          if (kind < 0.3) return use(logStream(await client.stream('GET', '/x/logs', { signal: soon() })), kind < 0.15)
          const terminal = kind < 0.6 ? { terminal: { columns: 1, rows: 1 } } : {}
          const execution = await startExecution(client, 'x', { command: ['a'], ...terminal })
          if (execution.tty)
            return use(
              executionStream(execution, () => {}),
              true,
            )
          for await (const piece of readOutput(execution)) void piece
        }
        await atMost(400, work())
        watch.close()
        await client.close()
      }),
    ).toEqual([])
    await engine.close()
  })

  test('every line of QEMU (issue 31, 1)', FUZZ, async () => {
    const fuzzed = fuzzOf('QEMU', [
      '{"QMP":{"version":{}}}\n{"return":{}}\n{"return":{"status":"running"}}\n',
      '{"QMP":{}}\r\n{"error":{"class":"x","desc":"y"}}\r\n',
      '{"QMP":{}}\n{"return":{}}\n{"event":"SHUTDOWN","data":{"guest":true}}\n5\nnull\n[]\n',
    ])
    const qemu = await fuzzingServer(fuzzed, { path: path.join(folder, 'qmp.sock'), greets: true })
    expect(
      await fuzzed.run(async () => {
        const work = async (): Promise<void> => {
          const monitor = await Monitor.connect(folder, 'qmp.sock')
          monitor.onEvent(({ data }) => String(data['reason']))
          await monitor.execute('query-status').catch(() => {})
          monitor.close()
        }
        await atMost(300, work())
      }),
    ).toEqual([])
    await qemu.close()
  })

  test('every byte of an SSH client, and of an application that it forwards to (issue 31, 1)', FUZZ, async () => {
    const kexinit = Buffer.concat([Buffer.from([0, 0, 0, 60, 4, 20]), Buffer.alloc(58, 1)]).toString('latin1')
    const fuzzed = fuzzOf('an SSH client', ['SSH-2.0-x\r\n', `SSH-2.0-OpenSSH_9.2\r\n${kexinit}`, 'SSH-1.5-old\r\n'])
    const client = new DockerClient(path.join(folder, 'none.sock'))
    const ssh = new ContainerSsh({ client, onError: () => {} })
    const file = { hostKey: makeSshKeyPair('x').privateKey, sshKeys: [] } as never
    expect(
      await fuzzed.run(async () => {
        const stream = ssh.connect({ id: String(fuzzed.random()), container: 'c', address: undefined, file })
        stream.on('error', () => {}).resume()
        await fuzzed.feed(stream)
        stream.destroy()
      }),
    ).toEqual([])
    ssh.close()
    await client.close()
  })

  test('every message of its server (issue 31, 1)', FUZZ, async () => {
    const challenge = { type: 'challenge', protocol: AGENT_PROTOCOL, installation: 'test', nonce: 'x' }
    const desired = { type: 'desired', generation: 1, state: 'ready', workloads: [], volumes: [] }
    const frames = [
      '\x01\0\0\0\x02{"kind":"port"}',
      '\x02\0\0\0\x02abc',
      '\x06\0\0\0\x02{"columns":1}',
      '\x05\0\0\0\x02x',
    ]
    const fuzzed = fuzzOf('a server', [
      ...[challenge, { type: 'welcome', heartbeatMs: 1_000 }, desired].map((one) => JSON.stringify(one)),
      ...frames.map((text) => Buffer.from(text, 'latin1')),
    ])
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1', path: AGENT_PATH })
    await once(server, 'listening')
    server.on('connection', (socket) => {
      socket.on('error', () => {})
      socket.send(JSON.stringify(challenge))
      socket.send(JSON.stringify({ type: 'welcome', heartbeatMs: 1_000 }))
      for (let n = 0; n < 4; n += 1) {
        const bytes = fuzzed.next()
        socket.send(fuzzed.random() < 0.5 ? bytes.toString() : bytes)
      }
      setTimeout(() => socket.terminate(), 50)
    })
    const { port } = server.address() as net.AddressInfo
    expect(
      await fuzzed.run(async () => {
        const lost = new Promise<void>((resolve) => {
          const connection = openConnection({
            server: `http://127.0.0.1:${port}`,
            hostId: 'h',
            installation: 'test',
            key: { publicKey: 'x', answer: () => 'x' },
            version: '1',
            report: () => undefined,
            desired: () => {},
            accept: (_, stream) => void stream.pipe(stream),
            state: ({ kind }) => {
              if (kind === 'connected') return
              connection.close()
              resolve()
            },
          })
        })
        await atMost(500, lost)
      }),
    ).toEqual([])
    server.close()
  })

  test('every line at its control socket (issue 31, 1)', FUZZ, async () => {
    const dir = await mkdtemp(path.join(folder, 'agent-'))
    const control = await serveControl(openAgentFolder(dir), async () => ({ ok: 1 }))
    const fuzzed = fuzzOf('a control socket', ['{"command":"status"}\n', '{"command":"move","to":"left"}\n'])
    expect(
      await fuzzed.run(async () => {
        const socket = net.connect(path.join(dir, 'control.sock'))
        socket.on('error', () => {}).resume()
        await fuzzed.feed(socket)
        socket.destroy()
      }),
    ).toEqual([])
    control.close()
  })
})

describe('a server outlasts', () => {
  test('every answer of a cluster (issue 31, 1)', FUZZ, async () => {
    const accepted = `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`
    const fuzzed = fuzzOf('a cluster', [
      json({ metadata: { resourceVersion: '1' }, items: [{}] }),
      chunked('{"type":"ADDED","object":{}}\n{"type":"ERROR","object":{"code":410}}\n'),
      chunked('2024-01-01T00:00:00Z a line\n'.repeat(20)),
      `${accepted}Sec-WebSocket-Accept: x\r\n\r\n`,
      'HTTP/1.1 403 Forbidden\r\nContent-Length: 18\r\n\r\n{"message":"never"}',
    ])
    const cluster = await fuzzingServer(fuzzed)
    const api = new KubernetesApi({ server: `http://127.0.0.1:${cluster.port}`, tls: {}, token: async () => 'x' })
    const pod = { cluster: 'c', namespace: 'n', name: 'p' }
    const calls = [
      () => api.list('/x', z.unknown(), { signal: soon() }),
      async () => {
        for await (const event of api.watch('/x', '1', soon())) void event
      },
      async () => use(logStream(await api.stream('/x', {}, soon())), true),
      async () => use(logStream(await api.stream('/x', {}, new AbortController().signal)), false),
      async () => use(await openPort(api, pod, 80, soon()), true),
    ]
    expect(await fuzzed.run(() => calls[Math.floor(fuzzed.random() * calls.length)]?.() ?? Promise.resolve())).toEqual(
      [],
    )
    await api.close()
    await cluster.close()
  })

  test('every answer of a cloud, a receiver of webhooks and a registry (issue 31, 1)', FUZZ, async () => {
    const fuzzed = fuzzOf('a vendor', [
      json({ n: 1 }),
      chunked('{"n":2}'),
      'HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n',
      'HTTP/1.1 429 Later\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n',
    ])
    const vendor = await fuzzingServer(fuzzed)
    const baseUrl = `http://127.0.0.1:${vendor.port}`
    const agent = outboundAgent({ allowPrivate: true, timeoutMs: 500 })
    const clock = manualClock()
    const cloud = new CloudHttp({
      baseUrl,
      agent,
      clock,
      pacer: new Pacer({ everyMs: 0 }, clock, memoryTurns(clock)),
      breaker: new Breaker(clock),
      timeoutMs: 500,
      secrets: [],
      warn: () => {},
      authorize: async () => ({}),
    })
    const getter = makeGetter({ allowPrivate: true })
    const event = { id: '1', type: 'rental.created', at: '2024-01-01T00:00:00Z', subject: 'x', data: {} } as never
    const webhook = { url: baseUrl, secrets: [`whsec_${Buffer.alloc(24).toString('base64')}`], event, at: instantOf(0) }
    const get = async (): Promise<void> => {
      const options = { headers: {}, authorization: null, trustedOrigin: null, signal: soon() }
      const answer = await getter.get(baseUrl, options)
      if (!answer.ok) return
      const { body } = answer.value
      if (fuzzed.random() < 0.5) for await (const piece of readTarFile(body, () => true)) void piece
      else await atMost(100, once(body, 'close'))
      body.destroy()
    }
    const calls = [
      () => cloud.read(z.object({ n: z.number() }), { path: '/x', signal: soon() }),
      () => sendWebhook(webhook, { agent, timeoutMs: 500, signal: soon() }),
      get,
    ]
    expect(await fuzzed.run(() => calls[Math.floor(fuzzed.random() * calls.length)]?.() ?? Promise.resolve())).toEqual(
      [],
    )
    await agent.destroy()
    await getter.close()
    await vendor.close()
  })

  test('every reply of a mail server (issue 31, 1)', FUZZ, async () => {
    const fuzzed = fuzzOf('a mail server', [
      '220 hello\r\n',
      '250-a\r\n250 SIZE 1\r\n',
      '250 ok\r\n',
      '354 go\r\n',
      '421 bye\r\n',
    ])
    const mail = await fuzzingServer(fuzzed, { greets: true })
    expect(
      await fuzzed.run(async () => {
        const settings = { url: `smtp://127.0.0.1:${mail.port}`, from: 'Berth <berth@example.com>' }
        const mailer = openMailer(settings, () => 'https://cloud.example')
        await atMost(400, mailer.sendTest('a@example.com'))
        mailer.close()
      }),
    ).toEqual([])
    await mail.close()
  })

  test('every byte of a host: SSH, NFS, a banner (issue 31, 1)', FUZZ, async () => {
    const reply = Buffer.alloc(28)
    reply.writeUInt32BE(0x8000_0018)
    reply.writeUInt32BE(1, 8)
    const fuzzed = fuzzOf('a host', [
      'SSH-2.0-OpenSSH_9.2\r\n',
      reply,
      `SSH-2.0-x\r\n${'\0\0\0\x1c\x04\x14'.padEnd(40, 'a')}`,
    ])
    const host = await fuzzingServer(fuzzed, { greets: true })
    const access = { address: '127.0.0.1', port: host.port, user: 'root', privateKey: makeSshKeyPair('x').privateKey }
    const script = { name: 'x', reads: [], text: 'true' }
    const run = async (): Promise<void> => {
      const ssh = new SshHost({ access: access as unknown as MetalAccess, onLearnedHostKey: () => {} })
      await ssh.run(script, {}, soon()).catch(() => {})
      ssh.disconnect()
    }
    const calls = [
      run,
      () => pingNfs('127.0.0.1', host.port, 300),
      () => hasBanner(host.port, 0),
      async () => use(await connectTo(host.port, soon()), true),
    ]
    expect(await fuzzed.run(() => calls[Math.floor(fuzzed.random() * calls.length)]?.() ?? Promise.resolve())).toEqual(
      [],
    )
    await host.close()
  })

  test('every value that its worker passes on (issue 31, 1)', FUZZ, async () => {
    const fuzzed = fuzzOf('a worker', ['rental', '{"model":"x"}', '17'])
    const line = Object.assign(new EventEmitter(), { connected: true, send: () => true })
    openChannel({ line: line as unknown as Line, ours: { a: (text: string) => text.length }, onSocket: () => {} })
    expect(
      await fuzzed.run(async () => {
        const text = fuzzed.next().toString()
        const messages = [
          { call: 1, name: 'a', args: [text] },
          { call: 1, name: text, args: [] },
          { answer: text, value: 1 },
        ]
        for (const message of [...messages, { name: 'a', args: [text] }]) line.emit('message', message, undefined)
      }),
    ).toEqual([])
    line.emit('disconnect')
  })
})
