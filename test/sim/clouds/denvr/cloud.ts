/**
 * A stateful simulator of Denvr's cloud: tokens and API keys, VPCs, clusters, shared and contracted pools, virtual servers.
 * What was ordered matters: a server answers for its own VPC only, accepts the keys of its order, has GPUs with the right
 * image only, and leaves storage behind that was to persist.
 */
import { addMs, type Clock, type Instant } from '../../../../src/base/instant.ts'
import { nanoUsdOf, usd, usdToNumber, type NanoUsd } from '../../../../src/base/money.ts'
import { SimBill } from '../bill.ts'
import { SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { denvrDescription } from './description.ts'
import {
  CLUSTERS,
  CONTRACTED,
  defaultConfigurations,
  DISK_USD_PER_GB_MONTH,
  diskPrice,
  images,
  LOGIN_USER,
  showConfiguration,
  type DenvrConfiguration,
} from './things.ts'

interface Server {
  readonly name: string
  /** The VPC. */
  readonly namespace: string
  readonly keys: readonly string[]
  readonly persistsStorage: boolean
  readonly disk: NanoUsd
  readonly configuration: DenvrConfiguration
  readonly cluster: string
  readonly pool: string
  readonly image: string
  readonly createdAt: Instant
  readonly readyAt: Instant
  readonly bootFails: boolean
  readonly lostAt: Instant | undefined
  goneAt: Instant | undefined
  /** The state that it is in whatever its age: stopped, or one that nobody knows. */
  fixedState: string | undefined
  readonly bill: SimBill
}

export interface DenvrSimOptions {
  readonly clock: Clock
  readonly username?: string
  readonly password?: string
  readonly apiKey?: string
  readonly tenant?: string
  readonly vpc?: string
  readonly bootMs?: number
  readonly destroyMs?: number
  readonly tokenLifetimeMs?: number
  readonly listLagMs?: number
}

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
      apiKey: 'sim-denvr-api-key',
      tenant: 'sim-tenant',
      vpc: 'sim-vpc',
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

  get credentials(): Record<'username' | 'password' | 'vpc' | 'pools' | 'rootDiskPrice', string> {
    const { username, password, vpc } = this.#options
    return { username, password, vpc, pools: `on-demand, ${CONTRACTED}`, rootDiskPrice: DISK_USD_PER_GB_MONTH }
  }

  /** Instead of a user name and a password. */
  get apiKey(): string {
    return this.#options.apiKey
  }

  /** Everything that exists or costs money now, by its name. */
  leftovers(): string[] {
    const living = this.#living()
    const kept = this.#servers.filter((one) => one.persistsStorage && !living.includes(one))
    return [...living.map(({ name }) => `server ${name}`), ...kept.map(({ name }) => `storage of ${name}`)]
  }

  /** An SSH session at a public address. undefined: the server does not let the key in. */
  logIn(host: string, user: string, key: string): { gpus: number } | undefined {
    const server = this.#living().find((one) => this.#show(one).ip === host)
    if (server === undefined || user !== LOGIN_USER || !server.keys.includes(key)) return undefined
    return { gpus: images.get(server.image) === true ? server.configuration.gpus : 0 }
  }

  imageOf(name: string): string | undefined {
    return this.#servers.find((one) => one.name === name)?.image
  }

  /** From now on it is in that state: `OFFLINE` as if it was stopped in the console, or one that nobody knows. */
  setState(name: string, state: string): void {
    const server = this.#living().find((one) => one.name === name)
    if (server === undefined) throw new Error(`there is no server ${name}`)
    server.fixedState = state
    // Without its GPUs, a stopped server costs what its disk costs.
    if (state === 'OFFLINE') server.bill.setPrice(this.#now(), server.disk)
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
      if (server.configuration === one && server.pool === pool)
        server.bill.setPrice(this.#now(), nanoUsdOf(usd(usdPerHour) + server.disk))
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
    const hasToken = until !== undefined && this.#now() < until
    if (!hasToken && headers.authorization !== `ApiKey ${this.#options.apiKey}`)
      return failure(401, 'The token is not valid.')
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
        json({
          items: [...images.keys()].map((name, id) => ({
            id,
            name,
            distribution: name.split(' ')[0] ?? '',
            version: '',
          })),
        }),
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

  #create({ name, rpool = 'on-demand', vpc, configuration, cluster, ...body }: CreateBody): SimAnswer {
    const one = this.configurations.get(configuration)
    const price = one?.prices.get(rpool)
    const { operatingSystemImage: image = '' } = body
    const isKnown = CLUSTERS.includes(cluster) && images.has(image) && vpc === this.#options.vpc
    if (one === undefined || price === undefined || !isKnown) return failure(400, 'The request is not valid.')
    if (this.#living().some((other) => other.name === name && other.cluster === cluster))
      return failure(400, 'The name is taken.')
    if (this.#free(one, cluster, rpool) < 1) return failure(503, 'Not enough resources in the pool.')
    const now = this.#now()
    const readyAt = addMs(now, this.#options.bootMs)
    const bootFails = this.bootsFail > 0
    if (bootFails) this.bootsFail -= 1
    const server: Server = {
      name,
      namespace: vpc,
      keys: body.ssh_keys,
      persistsStorage: body.persistStorage === true,
      disk: diskPrice(body.rootDiskSize ?? 0),
      configuration: one,
      cluster,
      pool: rpool,
      image,
      createdAt: now,
      readyAt,
      bootFails,
      lostAt: this.loseAfterMs === 0 ? undefined : addMs(readyAt, this.loseAfterMs),
      goneAt: undefined,
      fixedState: undefined,
      bill: new SimBill(),
    }
    this.#servers.push(server)
    return { status: 202, body: { ...this.#show(server), status: 'na' } }
  }

  #destroy(query: URLSearchParams): SimAnswer {
    const id = query.get('Id') ?? ''
    const server = this.#living().find(
      ({ name, cluster, namespace }) =>
        name === id && cluster === query.get('Cluster') && namespace === query.get('Namespace'),
    )
    if (server === undefined) return failure(404, `"${id}" not found`)
    if (this.destroyRefusals > 0) {
      this.destroyRefusals -= 1
      return failure(400, 'The server is locked.')
    }
    const now = this.#now()
    if (server.goneAt === undefined) {
      this.#stateOf(server)
      server.goneAt = addMs(now, this.#options.destroyMs)
      // Storage that was to persist goes on costing.
      if (server.persistsStorage) server.bill.setPrice(now, server.disk)
      else server.bill.stop(now)
    }
    const { cluster, name } = server
    return { status: 202, body: { id: name, cluster, status: this.#stateOf(server) } }
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
  #stateOf(one: Server): string {
    const now = this.#now()
    const isUp = !one.bootFails && one.readyAt <= now && one.goneAt === undefined
    const price = usd(one.configuration.prices.get(one.pool) ?? '0')
    if (isUp && !one.bill.isStarted) one.bill.start(one.readyAt, nanoUsdOf(price + one.disk))
    if (one.goneAt === undefined && one.lostAt !== undefined && one.lostAt <= now) {
      one.goneAt = one.lostAt
      one.bill.stop(one.lostAt)
    }
    if (one.goneAt !== undefined) return one.goneAt <= now ? 'GONE' : 'DESTROYING'
    if (one.fixedState !== undefined) return one.fixedState
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
      namespace: one.namespace,
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
  readonly vpc: string
  readonly configuration: string
  readonly cluster: string
  readonly ssh_keys: readonly string[]
  readonly operatingSystemImage?: string
  readonly persistStorage?: boolean
  readonly rootDiskSize?: number
}

function json(body: unknown): SimAnswer {
  return { status: 200, body }
}

function failure(status: number, message: string): SimAnswer {
  return { status, body: { success: false, error: { code: 0, message } } }
}
