/**
 * Denvr: virtual machines in clusters of Canada and the United States, from a pool that all customers share or from pools
 * of a contract. A machine is found again by its name, which is our tag and also its id. It takes any number of public SSH
 * keys and no user data, so nothing is made beside it, and orders with options go elsewhere. Tokens expire within minutes.
 */
import { counted } from '../../../base/counted.ts'
import { SECOND_MS } from '../../../base/instant.ts'
import type { NanoUsd } from '../../../base/money.ts'
import type { ProviderCheck } from '../../../contract/provider.ts'
import {
  refused,
  type Cloud,
  type CloudCompanion,
  type CloudMachine,
  type CloudOffer,
  type CloudOrder,
  type CloudOutcome,
  type CloudRefusal,
  type CloudVendor,
  type Credentials,
} from '../cloud.ts'
import { CloudError, isRefused, type CloudHttp } from '../http.ts'
import { bearerTokens } from '../token.ts'
import { plainKeys } from '../user-data.ts'
import * as api from './api.ts'
import { LOGIN_USER, offerOf, partsOf, showServer, typeOf } from './machine.ts'

const ROOT_DISK_GB = 500
const MAX_POOLS = 10

export const denvr: CloudVendor = {
  id: 'denvr',
  title: 'Denvr',
  baseUrl: 'https://api.cloud.denvrdata.com',
  credentials: [
    { name: 'username', help: 'User name or e-mail address of a user without a second factor' },
    { name: 'password', help: 'Password of that user' },
    { name: 'tenant', help: 'Name of the tenant, which is the namespace of its machines' },
    { name: 'vpc', help: 'Name of the VPC for new machines, usually that of the tenant' },
    { name: 'pools', help: 'Resource pools to use: on-demand, reserved-acme, …' },
  ],
  regions: { Hou1: 'us-central-3', Hou2: 'us-southeast-1', Msc1: 'ca-west-1', Msc2: 'ca-west-1' },
  pace: { everyMs: 250 },
  billing: { from: 'running', incrementMs: 60_000, minimumMs: 0 },
  listLagMs: 30_000,
  callTimeoutMs: 90_000,
  loginUser: LOGIN_USER,
  refusalOf,
  open: ({ credentials, clock, http }) => {
    const anonymous = http({ authorize: async () => ({}) })
    const authorize = bearerTokens(clock, async (signal) => {
      const body = { userNameOrEmailAddress: credentials.username ?? '', password: credentials.password ?? '' }
      const path = '/api/TokenAuth/Authenticate'
      const answer = await anonymous.write(api.token, { method: 'POST', path, body, signal })
      return { text: answer.accessToken, lifetimeMs: answer.expireInSeconds * SECOND_MS }
    })
    return new DenvrCloud(credentials, http({ authorize }))
  },
}

class DenvrCloud implements Cloud {
  readonly #http: CloudHttp
  readonly #credentials: Credentials

  constructor(credentials: Credentials, http: CloudHttp) {
    this.#credentials = credentials
    this.#http = http
  }

  async check(signal: AbortSignal): Promise<ProviderCheck[]> {
    const clusters = await this.#clusters(signal)
    const running = await this.#servers(signal)
    const offers = await this.offers(signal)
    const used = new Set(offers.map(({ type }) => partsOf(type).pool))
    const empty = this.#pools().filter((pool) => !used.has(pool))
    return [
      { check: 'reachable', result: 'passed', detail: `${clusters.length} clusters` },
      { check: 'rights', result: 'passed', detail: `lists ${counted(running.length, 'machine')}` },
      {
        check: 'limits',
        result: empty.length === 0 ? 'passed' : 'failed',
        detail: empty.length === 0 ? 'all pools have offers' : `no offers in the pools ${empty.join(', ')}`,
      },
    ]
  }

  async offers(signal: AbortSignal): Promise<CloudOffer[]> {
    const configurations = await this.#configurations(signal)
    const offers: CloudOffer[] = []
    for (const cluster of await this.#clusters(signal)) {
      for (const pool of this.#pools()) {
        for (const free of await this.#availability(cluster, pool, signal)) {
          const one = configurations.find(({ name }) => name === free.configuration)
          if (one !== undefined && one.gpus > 0) offers.push(offerOf(one, cluster, pool, free))
        }
      }
    }
    return offers
  }

  async create(order: CloudOrder, signal: AbortSignal): Promise<CloudOutcome> {
    const { tag } = order
    const { type, region: cluster } = order.offer
    // Without options of the order, the user data has nothing but SSH keys.
    if (!order.userData.startsWith('#cloud-config')) return refused('no_capacity', 'Denvr takes no user data.')
    const image = await this.#image(signal)
    if (image === undefined) return refused('no_capacity', 'Denvr has no Ubuntu image.')
    const { configuration, pool } = partsOf(type)
    const { id } = await this.#http.write(api.created, {
      method: 'POST',
      path: '/api/v1/servers/virtual/CreateServer',
      body: {
        name: tag,
        rpool: pool,
        vpc: this.#credentials.vpc ?? '',
        configuration,
        cluster,
        ssh_keys: plainKeys(order.spec),
        operatingSystemImage: image,
        persistStorage: false,
        rootDiskSize: ROOT_DISK_GB,
      },
      signal,
    })
    return { kind: 'created', id: `${cluster}/${id}` }
  }

  async destroy(id: string, signal: AbortSignal): Promise<void> {
    const [cluster = '', name = ''] = id.split('/')
    const query = { Id: name, Namespace: this.#credentials.tenant ?? '', Cluster: cluster }
    const path = '/api/v1/servers/virtual/DestroyServer'
    await this.#http.write(api.anything, { method: 'DELETE', path, query, signal }).catch((error: unknown) => {
      if (!isMissing(error)) throw error
    })
  }

  async list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]> {
    const configurations = await this.#configurations(signal)
    const ours = (await this.#servers(signal)).filter(({ id }) => id.startsWith(tagPrefix))
    const prices = await this.#prices(ours, signal)
    return ours.map((server) => {
      const one = configurations.find(
        ({ id, name }) => name === server.configuration || String(id) === server.configuration,
      )
      return showServer(server, one, prices.get(`${server.cluster}/${typeOf(one?.name ?? '', server.rpool ?? '')}`))
    })
  }

  /** Everything ends with the machine. */
  async companions(): Promise<CloudCompanion[]> {
    return []
  }

  async removeCompanion(): Promise<void> {}

  /** Machines of a contract can have other prices than the list, by pool. */
  async #prices(servers: readonly api.Server[], signal: AbortSignal): Promise<Map<string, NanoUsd>> {
    const prices = new Map<string, NanoUsd>()
    for (const place of new Set(servers.map(({ cluster, rpool }) => `${cluster}/${rpool ?? ''}`))) {
      const [cluster = '', pool = ''] = place.split('/')
      for (const { configuration, price } of await this.#availability(cluster, pool, signal))
        if (price !== undefined && price !== null) prices.set(`${cluster}/${typeOf(configuration, pool)}`, price)
    }
    return prices
  }

  #pools(): string[] {
    const names = (this.#credentials.pools ?? '').split(',').map((pool) => pool.trim())
    return [...new Set(names.filter((pool) => pool !== ''))].slice(0, MAX_POOLS)
  }

  async #clusters(signal: AbortSignal): Promise<string[]> {
    return this.#http.read(api.clusters, { path: '/api/v1/clusters/GetAll', signal })
  }

  async #configurations(signal: AbortSignal): Promise<api.Configuration[]> {
    return this.#http.read(api.configurations, { path: '/api/v1/servers/virtual/GetConfigurations', signal })
  }

  async #availability(cluster: string, pool: string, signal: AbortSignal): Promise<api.Availability[]> {
    const query = { cluster, resourcePool: pool, reportNodes: true }
    return this.#http.read(api.availabilities, { path: '/api/v1/servers/virtual/GetAvailability', query, signal })
  }

  /** Of all clusters. */
  async #servers(signal: AbortSignal): Promise<api.Server[]> {
    const found: api.Server[] = []
    for (const cluster of await this.#clusters(signal)) {
      const path = '/api/v1/servers/virtual/GetServers'
      found.push(...(await this.#http.read(api.servers, { path, query: { Cluster: cluster }, signal })))
    }
    return found
  }

  /** The newest Ubuntu. */
  async #image(signal: AbortSignal): Promise<string | undefined> {
    const found = await this.#http.read(api.images, { path: '/api/v1/servers/images/GetOperatingSystemImages', signal })
    const names = found.map(({ name }) => name).filter((name) => /^ubuntu/i.test(name))
    return names.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1)
  }
}

function isMissing(error: unknown): boolean {
  if (!(error instanceof CloudError) || error.status === undefined || error.status === 401) return false
  return error.status === 404 || /not found|does not exist/i.test(api.messageOf(error.answer))
}

/** undefined: the outcome is unknown. */
function refusalOf(error: unknown): CloudRefusal | undefined {
  if (!isRefused(error)) return undefined
  const isElsewhere =
    [401, 403, 404].includes(error.status ?? 0) ||
    /capacity|resource|available|quota/i.test(api.messageOf(error.answer))
  return refused(isElsewhere ? 'no_capacity' : 'refused_by_engine', `Denvr refused the order: ${String(error.status)}.`)
}
