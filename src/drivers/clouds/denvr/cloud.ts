/**
 * Denvr: virtual machines in clusters in Canada and the United States, from a pool that all customers share or from
 * pools of a contract. A machine is recognized by its name, which is our tag and also its id. It takes any number of
 * public SSH keys and no user data, so it has no companions, and orders with options go elsewhere. Tokens expire within
 * minutes; an API key does not.
 */
import { counted } from '../../../base/counted.ts'
import { SECOND_MS } from '../../../base/instant.ts'
import { zeroUsd, type NanoUsd } from '../../../base/money.ts'
import { fromDecimal } from '../../../base/vendor-price.ts'
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
import { CloudError, isRefused, type CloudHttp, type HttpOptions } from '../http.ts'
import { bearerTokens } from '../token.ts'
import { plainKeys } from '../user-data.ts'
import * as api from './api.ts'
import { diskCostPerHour, LOGIN_USER, offerOf, partsOf, ROOT_DISK_GB, showServer, typeOf } from './machine.ts'

const MAX_POOLS = 10

export const denvr: CloudVendor = {
  id: 'denvr',
  title: 'Denvr',
  baseUrl: 'https://api.cloud.denvrdata.com',
  credentials: [
    { name: 'apiKey', help: 'API key, instead of a user name and a password', optional: true },
    { name: 'username', help: 'User name or e-mail address of a user without a second factor', optional: true },
    { name: 'password', help: 'Password of that user', optional: true },
    { name: 'vpc', help: 'Name of the VPC for new machines, usually that of the tenant' },
    { name: 'pools', help: 'Resource pools to use: on-demand, reserved-acme, …' },
    {
      name: 'rootDiskPrice',
      help: 'Your price of a GB-month of root disk in USD, since the API has none',
      optional: true,
    },
    { name: 'image', help: 'Name of the operating system image (default: the newest Ubuntu)', optional: true },
  ],
  regions: { Hou1: 'us-central-3', Hou2: 'us-southeast-1', Msc1: 'ca-west-1', Msc2: 'ca-west-1' },
  pace: { everyMs: 250 },
  billing: { from: 'running', incrementMs: 60_000, minimumMs: 0 },
  listLagMs: 30_000,
  callTimeoutMs: 90_000,
  loginUser: LOGIN_USER,
  refusalOf,
  open: ({ credentials, clock, http }) => {
    const { apiKey = '', username = '', password = '' } = credentials
    const anonymous = http({ authorize: async () => ({}) })
    const withToken = bearerTokens(clock, async (signal) => {
      const body = { userNameOrEmailAddress: username, password }
      const path = '/api/TokenAuth/Authenticate'
      const answer = await anonymous.write(api.token, { method: 'POST', path, body, signal })
      return { text: answer.accessToken, lifetimeMs: answer.expireInSeconds * SECOND_MS }
    })
    const withKey: HttpOptions['authorize'] = async () => ({ authorization: `ApiKey ${apiKey}` })
    return new DenvrCloud(credentials, http({ authorize: apiKey === '' ? withToken : withKey }))
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
    const hasDiskPrice = this.#diskCost() > 0n
    return [
      { check: 'reachable', result: 'passed', detail: `${clusters.length} clusters` },
      { check: 'rights', result: 'passed', detail: `lists ${counted(running.length, 'machine')}` },
      {
        check: 'limits',
        result: empty.length === 0 ? 'passed' : 'failed',
        detail: empty.length === 0 ? 'all pools have offers' : `no offers in the pools ${empty.join(', ')}`,
      },
      {
        check: 'prices',
        result: hasDiskPrice ? 'passed' : 'not_tried',
        detail: hasDiskPrice
          ? 'the root disk is part of the cost'
          : `rootDiskPrice is not set, so root disks of ${ROOT_DISK_GB} GB are recorded at no cost`,
      },
    ]
  }

  async offers(signal: AbortSignal): Promise<CloudOffer[]> {
    const configurations = await this.#configurations(signal)
    const diskCost = this.#diskCost()
    const offers: CloudOffer[] = []
    for (const cluster of await this.#clusters(signal)) {
      for (const pool of this.#pools()) {
        for (const availability of await this.#availability(cluster, pool, signal)) {
          const configuration = configurations.find(({ name }) => name === availability.configuration)
          if (configuration !== undefined && configuration.gpus > 0)
            offers.push(offerOf(configuration, cluster, pool, availability, diskCost))
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
    if (image === undefined) return refused('no_capacity', 'Denvr has no such operating system image.')
    const { configuration, pool } = partsOf(type)
    const body = {
      name: tag,
      rpool: pool,
      vpc: this.#credentials.vpc ?? '',
      configuration,
      cluster,
      ssh_keys: plainKeys(order.spec),
      operatingSystemImage: image,
      persistStorage: false,
      rootDiskSize: ROOT_DISK_GB,
    }
    const path = '/api/v1/servers/virtual/CreateServer'
    try {
      const request = { method: 'POST', path, body, refusesWith: 503, signal } as const
      const { id } = await this.#http.write(api.created, request)
      return { kind: 'created', id: `${cluster}/${id}` }
    } catch (error) {
      if (!isOutOfResources(error)) throw error
      return refused('no_capacity', 'Denvr has no resources for the order.', error.message)
    }
  }

  /**
   * A machine lives in the namespace of the VPC in which it was created, which may differ from the one for new
   * machines. "Not found" in the wrong namespace would leave it running, so that error counts only if the list does not
   * show the machine either.
   */
  async destroy(id: string, signal: AbortSignal): Promise<void> {
    const [cluster = '', name = ''] = id.split('/')
    const listed = (await this.#serversIn(cluster, signal)).find((server) => server.id === name)
    const query = { Id: name, Namespace: listed?.namespace ?? this.#credentials.vpc ?? '', Cluster: cluster }
    const path = '/api/v1/servers/virtual/DestroyServer'
    await this.#http.write(api.anything, { method: 'DELETE', path, query, signal }).catch((error: unknown) => {
      if (listed !== undefined || !isMissing(error, name)) throw error
    })
  }

  async list(tagPrefix: string, signal: AbortSignal): Promise<CloudMachine[]> {
    const configurations = await this.#configurations(signal)
    const ours = (await this.#servers(signal)).filter(({ id }) => id.startsWith(tagPrefix))
    const prices = await this.#prices(ours, signal)
    return ours.map((server) => {
      const configuration = configurations.find(
        ({ id, name }) => name === server.configuration || String(id) === server.configuration,
      )
      const compute = prices.get(`${server.cluster}/${typeOf(configuration?.name ?? '', server.rpool ?? '')}`)
      return showServer(server, configuration, { compute, disk: this.#diskCost() })
    })
  }

  /** Nothing outlives the machine, so there are no companions. */
  async companions(): Promise<CloudCompanion[]> {
    return []
  }

  async removeCompanion(): Promise<void> {}

  /** Machines of a contract can have other prices than the list, so prices are read per pool. */
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

  /** Returns the hourly price of one machine's root disk. Zero: the operator entered no price. */
  #diskCost(): NanoUsd {
    const price = this.#credentials.rootDiskPrice ?? ''
    return price === '' ? zeroUsd : diskCostPerHour(fromDecimal(price))
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

  async #servers(signal: AbortSignal): Promise<api.Server[]> {
    const servers: api.Server[] = []
    for (const cluster of await this.#clusters(signal)) servers.push(...(await this.#serversIn(cluster, signal)))
    return servers
  }

  async #serversIn(cluster: string, signal: AbortSignal): Promise<api.Server[]> {
    const path = '/api/v1/servers/virtual/GetServers'
    return this.#http.read(api.servers, { path, query: { Cluster: cluster }, signal })
  }

  /** Returns the operator's image, or the newest Ubuntu. undefined: there is no such image. */
  async #image(signal: AbortSignal): Promise<string | undefined> {
    const images = await this.#http.read(api.images, {
      path: '/api/v1/servers/images/GetOperatingSystemImages',
      signal,
    })
    const names = images.map(({ name }) => name)
    const chosen = this.#credentials.image ?? ''
    if (chosen !== '') return names.find((name) => name === chosen)
    return names
      .filter((name) => /^ubuntu/i.test(name))
      .toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true }))
      .at(-1)
  }
}

/** Tells whether the vendor reports this very machine as missing, not for example its namespace. */
function isMissing(error: unknown, name: string): boolean {
  if (!(error instanceof CloudError) || error.status === undefined) return false
  const message = api.messageOf(error.answer)
  return message.includes(name) && /not found|does not exist/i.test(message)
}

/**
 * The vendor documents a 503 only for this operation, for a lack of resources, with the body of its other errors. A 503
 * without that body comes from a proxy in front of it, and leaves the outcome unknown.
 */
function isOutOfResources(error: unknown): error is CloudError {
  return error instanceof CloudError && error.status === 503 && api.messageOf(error.answer) !== ''
}

/** undefined: the outcome is unknown. */
function refusalOf(error: unknown): CloudRefusal | undefined {
  if (!isRefused(error)) return undefined
  const mayTryElsewhere =
    [401, 403, 404].includes(error.status ?? 0) ||
    /capacity|resource|available|quota/i.test(api.messageOf(error.answer))
  return refused(
    mayTryElsewhere ? 'no_capacity' : 'rejected_by_provider',
    `Denvr refused the order: ${String(error.status)}.`,
  )
}
