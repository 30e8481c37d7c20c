/** A stateful simulator of Denvr's cloud: tokens, clusters, shared and contracted pools, virtual servers. */
import { addMs, type Clock, type Instant } from '../../../base/instant.ts'
import { usd, usdToNumber } from '../../../base/money.ts'
import { SimBill } from '../bill.ts'
import { SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { denvrDescription } from './description.ts'

export interface DenvrConfiguration {
  readonly id: number
  readonly name: string
  readonly gpu: string
  readonly gpus: number
  readonly vcpus: number
  readonly ramGb: number
  readonly storageGb: number
  /** By pool: per hour. */
  readonly prices: Map<string, string>
  /** By cluster and pool: how many servers there can be. */
  readonly capacity: Map<string, number>
}

interface Server {
  readonly name: string
  readonly configuration: DenvrConfiguration
  readonly cluster: string
  readonly pool: string
  readonly image: string
  readonly createdAt: Instant
  readonly readyAt: Instant
  readonly bootFails: boolean
  readonly lostAt: Instant | undefined
  goneAt: Instant | undefined
  readonly bill: SimBill
}

export interface DenvrSimOptions {
  readonly clock: Clock
  readonly username?: string
  readonly password?: string
  readonly tenant?: string
  readonly bootMs?: number
  readonly destroyMs?: number
  readonly tokenLifetimeMs?: number
  readonly listLagMs?: number
}

const CLUSTERS = ['Hou1', 'Msc1']
export const CONTRACTED = 'reserved-sim'
const IMAGES = ['Ubuntu 20.04.6 LTS', 'Ubuntu 22.04.4 LTS', 'Rocky 9']

export class DenvrSim {
  readonly server: SimServer
  readonly configurations = new Map<string, DenvrConfiguration>()
  /** Servers of the next creates never run. */
  bootsFail = 0
  /** Servers of the next creates are gone so long after they were ready. 0: never. */
  loseAfterMs = 0
  /** So many deletions are refused. */
  destroyRefusals = 0
  /** Servers are missing from the list for so long after their create. */
  listLagMs: number
  suspended = false
  readonly #options: Required<DenvrSimOptions>
  readonly #servers: Server[] = []
  readonly #tokens = new Map<string, Instant>()
  #tokenCount = 0

  constructor(options: DenvrSimOptions) {
    this.#options = {
      username: 'sim@denvr.example',
      password: 'sim-denvr-password',
      tenant: 'sim-tenant',
      bootMs: 20_000,
      destroyMs: 5_000,
      tokenLifetimeMs: 600_000,
      listLagMs: 0,
      ...options,
    }
    this.listLagMs = this.#options.listLagMs
    for (const one of defaultConfigurations()) this.configurations.set(one.name, one)
    this.server = new SimServer({
      clock: options.clock,
      routes: this.#routes(),
      description: denvrDescription,
      authorize: (request) => this.#authorize(request),
      notFound: failure(404, 'Not found.'),
    })
  }

  get credentials(): Record<'username' | 'password' | 'tenant' | 'vpc' | 'pools', string> {
    const { username, password, tenant } = this.#options
    return { username, password, tenant, vpc: tenant, pools: `on-demand, ${CONTRACTED}` }
  }

  /** Everything that exists or costs money now, by its name. */
  leftovers(): string[] {
    return this.#living().map(({ name }) => `server ${name}`)
  }

  /** How many servers were ever created under a name. */
  launches(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { name } of this.#servers) counts.set(name, (counts.get(name) ?? 0) + 1)
    return counts
  }

  /** The vendor's bill by server, as of now. */
  bills(): Array<{ id: string; name: string; nanoUsd: bigint }> {
    const now = this.#now()
    for (const one of this.#servers) this.#stateOf(one)
    return this.#servers.map(({ name, cluster, bill }) => ({
      id: `${cluster}/${name}`,
      name,
      nanoUsd: bill.nanoUsd(now),
    }))
  }

  setCapacity(configuration: string, cluster: string, pool: string, count: number): void {
    this.configurations.get(configuration)?.capacity.set(`${cluster}/${pool}`, count)
  }

  /** For new and running servers. */
  setPrice(configuration: string, pool: string, usdPerHour: string): void {
    const one = this.configurations.get(configuration)
    if (one === undefined) return
    one.prices.set(pool, usdPerHour)
    for (const server of this.#living())
      if (server.configuration === one && server.pool === pool) server.bill.setPrice(this.#now(), usd(usdPerHour))
  }

  /** No token is valid any more. */
  revokeTokens(): void {
    this.#tokens.clear()
  }

  #now(): Instant {
    return this.#options.clock.now()
  }

  #authorize({ headers, raw }: SimRequest): SimAnswer | undefined {
    if (raw.url === '/api/TokenAuth/Authenticate') return undefined
    const until = this.#tokens.get((headers.authorization ?? '').replace(/^Bearer /, ''))
    if (until === undefined || until <= this.#now()) return failure(401, 'The token is not valid.')
    return this.suspended ? failure(403, 'The tenant is suspended.') : undefined
  }

  #routes(): SimRoute[] {
    const route = (operation: string, method: SimRoute['method'], path: string, handle: SimRoute['handle']) => ({
      operation,
      method,
      path: `/api${path}`,
      handle,
    })
    const virtual = '/v1/servers/virtual'
    return [
      route('authenticate', 'POST', '/TokenAuth/Authenticate', ({ body }) => this.#token(body as LoginBody)),
      route('listClusters', 'GET', '/v1/clusters/GetAll', () => json(CLUSTERS)),
      route('listConfigurations', 'GET', `${virtual}/GetConfigurations`, () =>
        json({ items: [...this.configurations.values()].map(showConfiguration) }),
      ),
      route('listAvailability', 'GET', `${virtual}/GetAvailability`, ({ query }) =>
        json({ items: this.#availability(query.get('cluster') ?? '', query.get('resourcePool') ?? '') }),
      ),
      route('listImages', 'GET', '/v1/servers/images/GetOperatingSystemImages', () =>
        json({ items: IMAGES.map((name, id) => ({ id, name, distribution: name.split(' ')[0] ?? '', version: '' })) }),
      ),
      route('listServers', 'GET', `${virtual}/GetServers`, ({ query }) => {
        const now = this.#now()
        const shown = this.#living().filter(
          (one) => one.cluster === query.get('Cluster') && addMs(one.createdAt, this.listLagMs) <= now,
        )
        return json({ items: shown.map((one) => this.#show(one)) })
      }),
      route('createServer', 'POST', `${virtual}/CreateServer`, ({ body }) => this.#create(body as CreateBody)),
      route('destroyServer', 'DELETE', `${virtual}/DestroyServer`, ({ query }) => this.#destroy(query)),
    ]
  }

  #token({ userNameOrEmailAddress, password: given }: LoginBody): SimAnswer {
    const { username, password, tokenLifetimeMs } = this.#options
    if (userNameOrEmailAddress !== username || given !== password) return failure(401, 'Invalid user name or password.')
    this.#tokenCount += 1
    const accessToken = `sim-denvr-token-${this.#tokenCount}`
    this.#tokens.set(accessToken, addMs(this.#now(), tokenLifetimeMs))
    const expireInSeconds = tokenLifetimeMs / 1_000
    return json({
      success: true,
      result: { accessToken, refreshToken: 'refresh', expireInSeconds, refreshTokenExpireInSeconds: 3_600 },
    })
  }

  #create({ name, rpool = 'on-demand', configuration, cluster, operatingSystemImage = '' }: CreateBody): SimAnswer {
    const one = this.configurations.get(configuration)
    const price = one?.prices.get(rpool)
    if (
      one === undefined ||
      price === undefined ||
      !CLUSTERS.includes(cluster) ||
      !IMAGES.includes(operatingSystemImage)
    )
      return failure(400, 'The request is not valid.')
    if (this.#living().some((other) => other.name === name && other.cluster === cluster))
      return failure(400, 'The name is taken.')
    if (this.#free(one, cluster, rpool) < 1) return failure(400, 'Not enough resources in the pool.')
    const now = this.#now()
    const readyAt = addMs(now, this.#options.bootMs)
    const bootFails = this.bootsFail > 0
    if (bootFails) this.bootsFail -= 1
    const server: Server = {
      name,
      configuration: one,
      cluster,
      pool: rpool,
      image: operatingSystemImage,
      createdAt: now,
      readyAt,
      bootFails,
      lostAt: this.loseAfterMs === 0 ? undefined : addMs(readyAt, this.loseAfterMs),
      goneAt: undefined,
      bill: new SimBill(),
    }
    this.#servers.push(server)
    return { status: 202, body: this.#show(server) }
  }

  #destroy(query: URLSearchParams): SimAnswer {
    const server = this.#living().find(
      ({ name, cluster }) => name === query.get('Id') && cluster === query.get('Cluster'),
    )
    if (server === undefined || query.get('Namespace') !== this.#options.tenant)
      return failure(404, 'The server was not found.')
    if (this.destroyRefusals > 0) {
      this.destroyRefusals -= 1
      return failure(400, 'The server is locked.')
    }
    const now = this.#now()
    if (server.goneAt === undefined) {
      this.#stateOf(server)
      server.goneAt = addMs(now, this.#options.destroyMs)
      server.bill.stop(now)
    }
    return { status: 202, body: this.#show(server) }
  }

  #living(): Server[] {
    return this.#servers.filter((one) => this.#stateOf(one) !== 'GONE')
  }

  #free(one: DenvrConfiguration, cluster: string, pool: string): number {
    const used = this.#living().filter(
      (server) => server.configuration === one && server.cluster === cluster && server.pool === pool,
    )
    return (one.capacity.get(`${cluster}/${pool}`) ?? 0) - used.length
  }

  #availability(cluster: string, pool: string) {
    return [...this.configurations.values()].flatMap((one) => {
      const price = one.prices.get(pool)
      const max = one.capacity.get(`${cluster}/${pool}`)
      if (price === undefined || max === undefined) return []
      const count = Math.max(0, this.#free(one, cluster, pool))
      return [
        {
          configuration: one.name,
          cluster,
          rpool: pool,
          type: one.gpu,
          price: usdToNumber(usd(price)),
          available: count > 0,
          count,
          maxCount: pool === 'on-demand' ? 0 : max,
        },
      ]
    })
  }

  /** Also starts the bill when it is online. */
  #stateOf(one: Server): 'PENDING_RESOURCES' | 'PENDING_READINESS' | 'ONLINE' | 'FAILED' | 'DESTROYING' | 'GONE' {
    const now = this.#now()
    const isUp = !one.bootFails && one.readyAt <= now && one.goneAt === undefined
    if (isUp && !one.bill.isStarted) one.bill.start(one.readyAt, usd(one.configuration.prices.get(one.pool) ?? '0'))
    if (one.goneAt === undefined && one.lostAt !== undefined && one.lostAt <= now) {
      one.goneAt = one.lostAt
      one.bill.stop(one.lostAt)
    }
    if (one.goneAt !== undefined) return one.goneAt <= now ? 'GONE' : 'DESTROYING'
    if (addMs(one.createdAt, this.#options.bootMs / 2) > now) return 'PENDING_RESOURCES'
    if (one.readyAt > now) return 'PENDING_READINESS'
    return one.bootFails ? 'FAILED' : 'ONLINE'
  }

  #show(one: Server) {
    const status = this.#stateOf(one)
    const number = this.#servers.indexOf(one)
    const tail = `${Math.floor(number / 250) % 250}.${1 + (number % 250)}`
    const { tenant, username } = this.#options
    const { id, gpu, gpus, vcpus, ramGb, storageGb } = one.configuration
    return {
      id: one.name,
      namespace: tenant,
      username,
      tenancy_name: tenant,
      rpool: one.pool,
      cluster: one.cluster,
      configuration: String(id),
      gpu_type: `nvidia.com/${gpu.replaceAll(' ', '')}`,
      gpus,
      vcpus,
      memory: ramGb,
      storage: storageGb,
      ip: status === 'ONLINE' ? `203.10.${tail}` : '',
      privateIp: status === 'ONLINE' ? `172.16.${tail}` : '',
      image: one.image.replaceAll(' ', '_'),
      status,
      directAttachedStoragePersisted: false,
    }
  }
}

interface LoginBody {
  readonly userNameOrEmailAddress: string
  readonly password: string
}

interface CreateBody {
  readonly name: string
  readonly rpool?: string
  readonly configuration: string
  readonly cluster: string
  readonly operatingSystemImage?: string
}

function showConfiguration({ id, name, gpu, gpus, vcpus, ramGb, storageGb, prices }: DenvrConfiguration) {
  return {
    id,
    name,
    user_friendly_name: name,
    gpu_type: `nvidia.com/${gpu.replaceAll(' ', '')}`,
    gpu_name: gpu,
    gpus,
    vcpus,
    memory: ramGb,
    storage: storageGb,
    price: usdToNumber(usd(prices.get('on-demand') ?? '0')),
    compute_network: null,
    is_gpu_platform: true,
    clusters: CLUSTERS,
  }
}

function defaultConfigurations(): DenvrConfiguration[] {
  const places = () =>
    new Map([
      ['Hou1/on-demand', 8],
      ['Msc1/on-demand', 8],
      [`Msc1/${CONTRACTED}`, 4],
    ])
  const prices = (onDemand: string, contracted: string) =>
    new Map([
      ['on-demand', onDemand],
      [CONTRACTED, contracted],
    ])
  const h100 = { gpu: 'H100 80GB SXM', ramGb: 940, storageGb: 13_600 }
  return [
    {
      id: 15,
      name: 'H100_80GB_SXM_8x',
      ...h100,
      gpus: 8,
      vcpus: 200,
      prices: prices('23.2', '18.4'),
      capacity: places(),
    },
    {
      id: 5,
      name: 'A100_40GB_PCIe_1x',
      gpu: 'A100 40GB PCIe',
      gpus: 1,
      vcpus: 14,
      ramGb: 112,
      storageGb: 1_700,
      prices: prices('2.05', '1.5'),
      capacity: places(),
    },
  ]
}

function json(body: unknown): SimAnswer {
  return { status: 200, body }
}

function failure(status: number, message: string): SimAnswer {
  return { status, body: { success: false, error: { code: 0, message } } }
}
