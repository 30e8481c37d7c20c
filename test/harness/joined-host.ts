/** A host in this process that runs whatever is wanted, and whose workloads all have one server behind their ports. */
import { generateKeyPairSync, sign } from 'node:crypto'
import { once } from 'node:events'
import net from 'node:net'
import { systemClock } from '../../src/base/instant.ts'
import type { MuxStream } from '../../src/base/net/mux.ts'
import {
  AGENT_SCHEME,
  downloadStatement,
  streamRequest,
  type HostOffer,
  type Observation,
  type StreamRequest,
  type Workload,
} from '../../src/contract/agent.ts'
import { TestAgent, testOffer } from './host-sockets.ts'
import { succeed } from './journey.ts'
import type { TestServer } from './server.ts'
import { pollDelay, waitFor } from './wait.ts'

export interface JoinedHost {
  readonly id: string
  /** What it should run. */
  workloads(): readonly Workload[]
  /** Reports the end of a workload that should run: its program exited with this code, or what the observation says. */
  end(workloadId: string, how: number | Partial<Observation>): void
  /** Goes on reporting a workload that should end, as an agent does until its output is handed over, or lets it go. */
  holdBack(workloadId: string, isHeldBack: boolean): void
  /** `Authorization` for a download from the server. */
  authorize(path: string): string
  close(): Promise<void>
}

/**
 * `change`: what differs from the usual one. It connects again when it is cut off, to the `url` of that moment. With
 * `answer`, that takes the streams that are not for ports.
 */
export async function joinHost(
  server: Pick<TestServer, 'url' | 'operator' | 'anonymous'>,
  applicationPort: number,
  change: Partial<HostOffer> = {},
  answer?: (request: StreamRequest, stream: MuxStream) => void,
): Promise<JoinedHost> {
  const { token } = await succeed(server.operator, 'POST', '/v2/supply/join-tokens', {})
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { x } = publicKey.export({ format: 'jwk' })
  const offer = { ...testOffer, ...change }
  const joining = { token, publicKey: x, offer }
  const id = (await succeed(server.anonymous, 'POST', '/v2/agent/join', joining)).hostId as string
  const connect = (): TestAgent =>
    new TestAgent(server.url, { id, privateKey }, (asked, stream) => {
      const request = streamRequest.parse(asked)
      if (answer !== undefined && request.kind !== 'port') return answer(request, stream)
      const socket = net.connect({ port: applicationPort, host: '127.0.0.1', allowHalfOpen: true })
      socket.on('error', () => stream.destroy())
      stream.on('close', () => socket.destroy())
      stream.pipe(socket).pipe(stream)
    })
  const ends = new Map<string, Partial<Observation>>()
  const heldBack = new Set<string>()
  let agent = connect()
  let isEnding = false
  const report = (): void => {
    if (agent.socket.readyState !== agent.socket.OPEN) return
    const { generation, workloads } = agent.last('desired') ?? { generation: 0, workloads: [] }
    const running = workloads.filter((workload) => workload.want === 'run' || heldBack.has(workload.id))
    agent.report({
      generation,
      offer,
      workloads: running.map(({ id: workloadId, tag }) => ({
        id: workloadId,
        tag,
        state: 'running',
        sshUser: 'root',
        disks: [],
        ...ends.get(workloadId),
      })),
    })
  }
  const enter = async (): Promise<void> => {
    const { socket } = agent
    await agent.enter()
    report()
    socket.on('message', (_, isBinary) => {
      if (!isBinary) report()
    })
  }
  const stay = async (): Promise<void> => {
    // A server that is down refuses the connection; then it is tried again.
    const untilClosed = (): Promise<unknown> => once(agent.socket, 'close').catch(() => {})
    let closed = untilClosed()
    for (;;) {
      await closed
      if (isEnding) return
      await pollDelay()
      agent = connect()
      closed = untilClosed()
      await Promise.race([enter().catch(() => {}), closed])
    }
  }
  await enter()
  const staying = stay()
  const beat = setInterval(report, 1_000)
  await waitFor('the machine to be on sale', async () => {
    const { body } = await server.anonymous('POST', '/v1/marketplace', {
      filters: { cluster_name: offer.clusterName },
    })
    return body.instances.length > 0
  })
  return {
    id,
    workloads: () => (agent.last('desired')?.workloads ?? []).filter(({ want }) => want === 'run'),
    end: (workloadId, how) => {
      const message = 'The process exited.'
      const end = typeof how === 'number' ? { failure: 'process_exited', message, exitCode: how } : how
      ends.set(workloadId, { state: 'failed', ...end })
      report()
    },
    holdBack: (workloadId, isHeldBack) => {
      if (isHeldBack) heldBack.add(workloadId)
      else heldBack.delete(workloadId)
      report()
    },
    authorize: (path) => {
      const timeMs = systemClock.now()
      const { installation = '' } = agent.last('challenge') ?? {}
      const statement = Buffer.from(downloadStatement(installation, path, timeMs))
      return `${AGENT_SCHEME} ${id}:${timeMs}:${sign(null, statement, privateKey).toString('base64url')}`
    },
    close: async () => {
      isEnding = true
      clearInterval(beat)
      await agent.end()
      await staying
    },
  }
}
