/**
 * A stateful simulator of Denvr's cloud: tokens and API keys, VPCs, clusters, shared and contracted pools, virtual servers.
 * What was ordered matters: a server answers for its own VPC only, accepts the keys of its order, has GPUs with the right
 * image only, and leaves storage behind that was to persist.
 */
import { addMs } from '../../../../src/base/instant.ts'
import { usd, usdToNumber, type NanoUsd } from '../../../../src/base/money.ts'
import { addressTail, Fleet, type FleetOptions, type Machine } from '../fleet.ts'
import { json, routesBelow, SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { SimTokens } from '../tokens.ts'
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

interface Details {
  /** The VPC. */
  readonly namespace: string
  readonly keys: readonly string[]
  readonly persistsStorage: boolean
  /** What its disk costs per hour. */
  readonly disk: NanoUsd
  readonly cluster: string
  readonly pool: string
  readonly image: string
}
type Server = Machine<DenvrConfiguration, Details>

const TOKEN_LIFETIME_MS = 600_000
const words = {
  booting: 'PENDING_READINESS',
  running: 'ONLINE',
  failed: 'FAILED',
  lost: 'GONE',
  ending: 'DESTROYING',
  gone: 'GONE',
} as const

export class DenvrSim extends Fleet<DenvrConfiguration, Details> {
  readonly server: SimServer
  readonly credentials = {
    username: 'sim@denvr.example',
    password: 'sim-denvr-password',
    vpc: 'sim-vpc',
    pools: `on-demand, ${CONTRACTED}`,
    rootDiskPrice: DISK_USD_PER_GB_MONTH,
  }
  /** Instead of a user name and a password. */
  readonly apiKey = 'sim-denvr-api-key'
  readonly configurations = new Map(defaultConfigurations().map((one) => [one.name, one]))
  readonly #tokens: SimTokens

  constructor(options: FleetOptions) {
    super(options, { billedFrom: 'ready', lossRemoves: true })
    this.#tokens = new SimTokens(options.clock, 'sim-denvr-token', TOKEN_LIFETIME_MS)
    this.server = new SimServer({
      clock: options.clock,
      routes: this.#routes(),
      description: denvrDescription,
      authorize: (request) => this.#authorize(request),
      notFound: failure(404, 'Not found.'),
    })
  }

  leftovers(): string[] {
    const alive = this.alive()
    const storage = this.machines().filter((one) => one.persistsStorage && !alive.includes(one))
    return [...alive.map(({ name }) => `server ${name}`), ...storage.map(({ name }) => `storage of ${name}`)]
  }

  /** An SSH session at a public address. undefined: the server does not let the key in. */
  logIn(host: string, user: string, key: string): { gpus: number } | undefined {
    const server = this.alive().find((one) => this.#show(one).ip === host)
    if (server === undefined || user !== LOGIN_USER || !server.keys.includes(key)) return undefined
    return { gpus: images.get(server.image) === true ? server.type.gpus : 0 }
  }

  imageOf(name: string): string | undefined {
    return this.machines().find((one) => one.name === name)?.image
  }

  /** `OFFLINE` as if it was stopped in the console, or one that nobody knows. */
  override setState(name: string, state: string): void {
    super.setState(name, state)
    // Without its GPUs, a stopped server costs what its disk costs.
    if (state === 'OFFLINE') this.reprice((one) => one.name === name, this.named(name).disk)
  }

  setCapacity(configuration: string, cluster: string, pool: string, count: number): void {
    this.configurations.get(configuration)?.capacity.set(`${cluster}/${pool}`, count)
  }

  /** For new and running servers. */
  setPrice(name: string, pool: string, usdPerHour: string): void {
    const configuration = this.configurations.get(name)
    configuration?.prices.set(pool, usdPerHour)
    for (const server of this.alive().filter((one) => one.type === configuration && one.pool === pool))
      this.reprice((one) => one === server, usd(usdPerHour) + server.disk)
  }

  /** No token is valid any more. */
  revokeTokens(): void {
    this.#tokens.revokeAll()
  }

  #authorize({ headers, raw }: SimRequest): SimAnswer | undefined {
    if (raw.url === '/api/TokenAuth/Authenticate') return undefined
    if (!this.#tokens.accept(headers.authorization) && headers.authorization !== `ApiKey ${this.apiKey}`)
      return failure(401, 'The token is not valid.')
    return this.suspended ? failure(403, 'The tenant is suspended.') : undefined
  }

  #routes(): SimRoute[] {
    const route = routesBelow('/api')
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
        const shown = this.listed().filter(({ cluster }) => cluster === query.get('Cluster'))
        return json({ items: shown.map((one) => this.#show(one)) })
      }),
      route('createServer', 'POST', `${virtual}/CreateServer`, ({ body }) => this.#create(body as CreateBody)),
      route('destroyServer', 'DELETE', `${virtual}/DestroyServer`, ({ query }) => this.#destroy(query)),
    ]
  }

  #token({ userNameOrEmailAddress, password }: LoginBody): SimAnswer {
    if (userNameOrEmailAddress !== this.credentials.username || password !== this.credentials.password)
      return failure(401, 'Invalid user name or password.')
    const accessToken = this.#tokens.issue()
    const expireInSeconds = TOKEN_LIFETIME_MS / 1_000
    return json({
      success: true,
      result: { accessToken, refreshToken: 'refresh', expireInSeconds, refreshTokenExpireInSeconds: 3_600 },
    })
  }

  #create({ name, rpool: pool = 'on-demand', vpc, configuration, cluster, ...body }: CreateBody): SimAnswer {
    const type = this.configurations.get(configuration)
    const price = type?.prices.get(pool)
    const { operatingSystemImage: image = '' } = body
    const isKnown = CLUSTERS.includes(cluster) && images.has(image) && vpc === this.credentials.vpc
    if (type === undefined || price === undefined || !isKnown) return failure(400, 'The request is not valid.')
    if (this.alive().some((other) => other.name === name && other.cluster === cluster))
      return failure(400, 'The name is taken.')
    const place = `${cluster}/${pool}`
    if (this.free(type, place) < 1) return failure(503, 'Not enough resources in the pool.')
    const disk = diskPrice(body.rootDiskSize ?? 0)
    const server = this.order(
      // A name may be used again when its server is gone.
      { id: `${cluster}/${name}`, name, type, place, nanoPerHour: usd(price) + disk },
      {
        namespace: vpc,
        keys: body.ssh_keys,
        persistsStorage: body.persistStorage === true,
        disk,
        cluster,
        pool,
        image,
      },
    )
    return { status: 202, body: { ...this.#show(server), status: 'na' } }
  }

  #destroy(query: URLSearchParams): SimAnswer {
    const id = query.get('Id') ?? ''
    const server = this.alive().find(
      ({ name, cluster, namespace }) =>
        name === id && cluster === query.get('Cluster') && namespace === query.get('Namespace'),
    )
    if (server === undefined) return failure(404, `"${id}" not found`)
    if (this.takeRefusal()) return failure(400, 'The server is locked.')
    // Storage that was to persist goes on costing.
    this.end(server, server.persistsStorage ? server.disk : undefined)
    const { cluster, name } = server
    return { status: 202, body: { id: name, cluster, status: this.#status(server) } }
  }

  #availability(cluster: string, pool: string) {
    return [...this.configurations.values()].flatMap((one) => {
      const price = one.prices.get(pool)
      const max = one.capacity.get(`${cluster}/${pool}`)
      if (price === undefined || max === undefined) return []
      const count = Math.max(0, this.free(one, `${cluster}/${pool}`))
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

  #status(one: Server): string {
    const isNew = this.phaseOf(one) === 'booting' && addMs(one.createdAt, this.bootMs / 2) > this.now()
    return isNew ? 'PENDING_RESOURCES' : this.stateOf(one, words)
  }

  #show(one: Server) {
    const status = this.#status(one)
    const tail = addressTail(one.number)
    const { id, gpu, gpus, vcpus, ramGb, storageGb } = one.type
    return {
      id: one.name,
      namespace: one.namespace,
      username: this.credentials.username,
      tenancy_name: 'sim-tenant',
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

function failure(status: number, message: string): SimAnswer {
  return { status, body: { success: false, error: { code: 0, message } } }
}
