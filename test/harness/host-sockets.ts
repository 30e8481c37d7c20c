/**
 * The server's side of the agent connection on a real port, behind the fast path as in a full server, with agents whose
 * messages the test writes.
 */
import { generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import http from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { pino, type Logger } from 'pino'
import type { Insertable } from 'kysely'
import { WebSocket } from 'ws'
import type { App } from '../../src/app/app.ts'
import { makeMetricRecorder, type MetricRecorder } from '../../src/app/rental/metric-recorder.ts'
import { randomName } from '../../src/base/id.ts'
import type { RentalStatus } from '../../src/contract/rental-state.ts'
import { sampleSpec } from '../../src/drivers/conformance-bench.ts'
import { hostDriver } from '../../src/drivers/host/driver.ts'
import { mockDriver } from '../../src/drivers/mock/driver.ts'
import { memoryWorld } from '../../src/drivers/mock/world.ts'
import { postgresHostWorld } from '../../src/store/host/host-world.ts'
import type { Tables } from '../../src/store/platform/tables.ts'
import { BodyBudget } from '../../src/domain/body-budget.ts'
import { emptyWorkload, type WorkloadPort } from '../../src/domain/workload.ts'
import { toDate } from '../../src/base/instant.ts'
import { Metrics } from '../../src/base/metrics.ts'
import { makeMux, type Mux, type MuxOptions } from '../../src/base/net/mux.ts'
import {
  AGENT_PATH,
  agentStatement,
  type FromAgent,
  type FromServer,
  type HostOffer,
  type HostReport,
} from '../../src/contract/agent.ts'
import { makeFastPath } from '../../src/gateway/fast-path/fast-path.ts'
import { openAgentSockets } from '../../src/server/hosts/agent-sockets.ts'
import { makeAuthenticator } from '../../src/server/http/authenticate.ts'
import { acceptOf } from '../../src/server/http/connections.ts'
import { makeHostLinks, type HostLinks } from '../../src/server/hosts/host-links.ts'
import { openPeers } from '../../src/server/hosts/peers.ts'
import { localPortDomain } from '../../src/server/ports/port-domain.ts'
import {
  installPortProxy,
  openPortProxy,
  type PortProxy,
  type PortProxyOptions,
} from '../../src/server/ports/port-proxy.ts'
import { makePortShares } from '../../src/server/ports/port-share.ts'
import { makeRateLimiter } from '../../src/server/http/rate-limit.ts'
import { takeRateSlice } from '../../src/store/request/rate-window.ts'
import { openSessionSockets } from '../../src/server/hosts/session-sockets.ts'
import { openUpgrades } from '../../src/server/http/upgrade.ts'
import { startIdentityTest, type IdentityTest } from './identity.ts'
import { waitFor } from './wait.ts'

export interface HostSockets extends IdentityTest {
  readonly httpUrl: string
  readonly links: HostLinks
  readonly ports: PortProxy
  readonly metrics: Metrics
  readonly recorder: MetricRecorder
  addHost(id: string): Promise<TestHost>
}

export interface TestHost {
  readonly id: string
  readonly privateKey: KeyObject
}

export const testOffer: HostOffer = {
  clusterName: 'lab',
  region: 'us-east',
  offering: 'marketplace',
  gpuType: null,
  gpuModel: 'NVIDIA-GeForce-RTX-4090',
  gpuRamMib: 24_564,
  gpuFormFactor: 'pcie',
  networkType: 'ethernet',
  ethernetVariant: 'normal',
  gpusTotal: 2,
  gpusSick: [],
  priceUsdPerGpuHour: '0.40',
  hasPersistentStorage: false,
  simulated: true,
  hardware: {
    cpuModel: 'Any',
    cpuCores: 2,
    virtualCores: 2,
    ramGb: 8,
    storageGb: 50,
    gpuClockMhz: 2_520,
    gpuComputePower: 165,
    gpuInterface: 'PCIe 4.0 x16',
  },
}

export interface HostSocketsOptions {
  readonly heartbeatMs?: number
  readonly checkMs?: number
  readonly log?: Logger
  /** Time limits of the proxy for HTTP ports. */
  readonly ports?: Pick<PortProxyOptions, 'checkMs' | 'firstByteMs' | 'idleMs'>
  /** Time limit of the server for whole requests. */
  readonly requestTimeoutMs?: number
  /** Whether other servers reach its hosts. */
  readonly hasPeers?: boolean
}

export async function startHostSockets(options: HostSocketsOptions = {}): Promise<HostSockets> {
  const test = await startIdentityTest()
  const { clock, database } = test
  const world = postgresHostWorld(database, { from: 20_000, to: 20_999 })
  const drivers = [
    hostDriver({ world, clock, relayHost: 'relay.test' }),
    mockDriver({ world: memoryWorld(), clock }),
  ].map((driver) => [driver.id, driver] as const)
  const app: App = { ...test.app, drivers: new Map(drivers) }
  const log = options.log ?? pino({ level: 'silent' })
  const links = makeHostLinks()
  const metrics = new Metrics()
  const recorder = makeMetricRecorder({ database, clock })
  const authenticator = makeAuthenticator({ database, clock, log })
  const rates = makeRateLimiter({ takeSlice: (request) => takeRateSlice(database.db, request), clock })
  const listen = { host: '127.0.0.1', port: 0, publicHost: '127.0.0.1' }
  const peers = options.hasPeers === true && (await openPeers({ app, links, log, listen }))
  const agents = openAgentSockets({
    app,
    log,
    links,
    metrics,
    heartbeatMs: options.heartbeatMs ?? 2_000,
    trustedProxy: undefined,
    recorder,
    serverId: peers === false ? null : peers.serverId,
  })
  const checkMs = options.checkMs ?? 15_000
  const sessions = openSessionSockets({ app, links, authenticator, rates, log, trustedProxy: undefined, checkMs })
  const requestTimeout = options.requestTimeoutMs ?? 300_000
  const timeouts = { requestTimeout, headersTimeout: requestTimeout, connectionsCheckingInterval: requestTimeout / 2 }
  const server = http.createServer(timeouts, (request, response) => {
    text(request).then(
      (body) => response.end(`${request.method} ${request.url} ${body}`),
      () => response.destroy(),
    )
  })
  const ports = openPortProxy({
    app,
    links,
    domain: localPortDomain,
    authenticator,
    rates,
    shares: makePortShares(),
    trustedProxy: undefined,
    log,
    ...options.ports,
  })
  installPortProxy(server, ports)
  openUpgrades(server, [ports.take, agents.take, sessions.take], acceptOf(server))
  const fastPath = makeTestFastPath(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    ...test,
    app,
    httpUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    links,
    ports,
    metrics,
    recorder,
    addHost: (id) => insertHost({ database, clock }, id),
    close: async () => {
      ports.close()
      await agents.close()
      await sessions.close()
      if (peers !== false) await peers.close()
      server.close()
      fastPath.destroy()
      server.closeAllConnections()
      await authenticator.close()
      await test.close()
    },
  }
}

export interface RentalChange {
  readonly hostId?: string
  readonly status?: RentalStatus
  readonly driver?: 'host' | 'mock'
  readonly name?: string
  readonly ports?: readonly WorkloadPort[]
}

/** Inserts a row for a simulated host's rental; nothing has run it. */
export async function insertHostRental(
  { database, clock }: Pick<App, 'database' | 'clock'>,
  owner: { readonly accountId: string; readonly personId: string; readonly keyId: string },
  change: RentalChange = {},
): Promise<number> {
  const now = toDate(clock.now())
  const workload = { ...emptyWorkload, ports: [...(change.ports ?? [])] }
  const spec = sampleSpec({
    kind: 'container',
    workload,
    nodes: [{ machineId: change.hostId ?? 'host-1', gpuIndexes: [0] }],
  })
  const values: Partial<Insertable<Tables['rental']>> = {
    account_id: owner.accountId,
    person_id: owner.personId,
    api_key_id: owner.keyId,
    kind: 'container',
    name: change.name ?? randomName(),
    region: 'us-east',
    cluster_name: 'lab',
    gpu_count: 1,
    network_type: 'ethernet',
    driver: change.driver ?? 'host',
    spec: JSON.stringify(spec),
    status: change.status ?? 'Running',
    external_id: 'w1',
    started_at: now,
    seen_at: now,
    status_since: now,
    created_at: now,
    due_at: now,
  }
  const row = await database.db
    .insertInto('rental')
    .values(values as Insertable<Tables['rental']>)
    .returning('id')
    .executeTakeFirstOrThrow()
  return row.id
}

export async function insertHost({ database, clock }: Pick<App, 'database' | 'clock'>, id: string): Promise<TestHost> {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const { x = '' } = publicKey.export({ format: 'jwk' })
  const row = { id, driver: 'host' as const, public_key: x, offer: JSON.stringify(testOffer) }
  await database.db
    .insertInto('host')
    .values({ ...row, created_at: toDate(clock.now()) })
    .execute()
  return { id, privateKey }
}

/** As in server/http/connections.ts; without a model it answers nothing. */
function makeTestFastPath(server: http.Server) {
  const accept = acceptOf(server)
  const fastPath = makeFastPath({
    gateway: { tryChat: () => false, isOpenFor: () => false },
    bodies: new BodyBudget({ totalBytes: 0, accountBytes: 0 }),
    identifier: () => () => undefined,
    introduce: () => Promise.resolve(undefined),
    handOver: (socket, bytes) => {
      if (socket.isPaused()) socket.resume()
      socket.unshift(bytes)
      accept(socket)
    },
    page: () => ({ status: 500, body: '' }),
    now: () => 0,
  })
  server.removeAllListeners('connection')
  server.on('connection', (socket) => fastPath.take(socket))
  return fastPath
}

export class TestAgent {
  readonly socket: WebSocket
  readonly messages: FromServer[] = []
  /** Set once the server has closed the connection. */
  closed: { readonly code: number; readonly reason: string } | undefined
  readonly mux: Mux
  readonly #host: TestHost

  constructor(url: string, host: TestHost, accept: MuxOptions['accept'] = () => {}) {
    this.#host = host
    this.socket = new WebSocket(`${url.replace('http', 'ws')}${AGENT_PATH}`)
    this.mux = makeMux({
      side: 'client',
      send: (frame) => this.socket.send(frame, () => this.mux.flush()),
      backlog: () => this.socket.bufferedAmount,
      accept,
    })
    this.socket.on('message', (data, isBinary) => {
      if (isBinary) this.mux.receive(data as Buffer)
      else this.messages.push(JSON.parse((data as Buffer).toString()) as FromServer)
    })
    this.socket.on('error', () => {})
    this.socket.on('close', (code, reason) => {
      this.mux.close()
      this.closed = { code, reason: reason.toString() }
    })
  }

  last<Type extends FromServer['type']>(type: Type): Extract<FromServer, { type: Type }> | undefined {
    return this.messages.findLast((one): one is Extract<FromServer, { type: Type }> => one.type === type)
  }

  async hear<Type extends FromServer['type']>(
    type: Type,
    fits: (message: Extract<FromServer, { type: Type }>) => boolean = () => true,
  ): Promise<Extract<FromServer, { type: Type }>> {
    return waitFor(
      () => `${type} (heard ${JSON.stringify(this.messages)}, ${JSON.stringify(this.closed)})`,
      () => {
        const message = this.last(type)
        return message !== undefined && fits(message) ? message : undefined
      },
    )
  }

  async hello(change: { signature?: string; hostId?: string; key?: KeyObject } = {}): Promise<void> {
    const { installation, nonce } = await this.hear('challenge')
    const statement = Buffer.from(agentStatement(installation, nonce))
    const signature = sign(null, statement, change.key ?? this.#host.privateKey).toString('base64url')
    this.say({ type: 'hello', hostId: this.#host.id, signature, version: '0.0.0', ...omitKey(change) })
  }

  /** Waits until it is accepted and has the desired state. */
  async enter(): Promise<this> {
    await this.hello()
    await this.hear('desired')
    return this
  }

  say(message: FromAgent): void {
    this.socket.send(JSON.stringify(message))
  }

  report(change: Partial<HostReport> = {}): void {
    this.say({ type: 'report', generation: 1, offer: testOffer, notes: [], workloads: [], volumes: [], ...change })
  }

  async end(): Promise<void> {
    if (this.socket.readyState === WebSocket.CLOSED) return
    const closed = once(this.socket, 'close')
    this.socket.terminate()
    await closed
  }
}

function omitKey({ signature, hostId }: { signature?: string; hostId?: string; key?: KeyObject }) {
  return { ...(signature === undefined ? {} : { signature }), ...(hostId === undefined ? {} : { hostId }) }
}
