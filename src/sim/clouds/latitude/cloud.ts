/** A stateful simulator of Latitude.sh: plans, servers, SSH keys, user data, and what they would cost. */
import { addMs, formatInstantWithOffset, type Clock, type Instant } from '../../../base/instant.ts'
import { fromNumber } from '../../../base/vendor-price.ts'
import { SimBill } from '../bill.ts'
import { SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { latitudeDescription } from './description.ts'

export interface LatitudePlan {
  readonly slug: string
  readonly gpus: number
  readonly interconnect: 'NVLink' | 'PCIe'
  usdPerHour: number
  /** By site: how many servers there can be. */
  readonly capacity: Map<string, number>
}

interface Server {
  readonly id: string
  readonly hostname: string
  readonly plan: LatitudePlan
  readonly site: string
  readonly createdAt: Instant
  readonly readyAt: Instant
  readonly bootFails: boolean
  readonly lostAt: Instant | undefined
  goneAt: Instant | undefined
  readonly bill: SimBill
}

export interface LatitudeSimOptions {
  readonly clock: Clock
  readonly apiKey?: string
  readonly project?: string
  readonly bootMs?: number
  readonly destroyMs?: number
}

const DEFAULT_PAGE = 20

export class LatitudeSim {
  readonly server: SimServer
  readonly plans = new Map(defaultPlans().map((plan) => [plan.slug, plan]))
  /** Servers of the next orders are never installed. */
  bootsFail = 0
  /** Servers of the next orders are lost so long after they ran. 0: never. */
  loseAfterMs = 0
  /** So many deletions are refused, as for a server that is locked. */
  deleteRefusals = 0
  /** Servers are missing from the list for so long after their creation. */
  listLagMs = 0
  suspended = false
  readonly #options: Required<LatitudeSimOptions>
  readonly #servers = new Map<string, Server>()
  readonly #keys = new Map<string, { name: string; public_key: string }>()
  readonly #scripts = new Map<string, { description: string; content: string }>()
  #ids = 0

  constructor(options: LatitudeSimOptions) {
    const defaults = { apiKey: 'sim-latitude-key', project: 'berth-gpus', bootMs: 20_000, destroyMs: 5_000 }
    this.#options = { ...defaults, ...options }
    this.server = new SimServer({
      clock: options.clock,
      routes: this.#routes(),
      description: latitudeDescription,
      authorize: (request) => this.#authorize(request),
      notFound: failure(404, 'Not found'),
    })
  }

  get credentials(): Readonly<Record<string, string>> {
    return { apiKey: this.#options.apiKey, project: this.#options.project }
  }

  /** Everything that exists or costs money now, by its name. */
  leftovers(): string[] {
    return [
      ...this.#alive().map(({ hostname }) => `server ${hostname}`),
      ...[...this.#keys.values()].map(({ name }) => `key ${name}`),
      ...[...this.#scripts.values()].map(({ description }) => `user data ${description}`),
    ]
  }

  /** How many servers were ever created under a name. */
  launches(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { hostname } of this.#servers.values()) counts.set(hostname, (counts.get(hostname) ?? 0) + 1)
    return counts
  }

  /** The vendor's bill by server, as of now. */
  bills(): Array<{ id: string; name: string; nanoUsd: bigint }> {
    const now = this.#now()
    return [...this.#servers.values()].map(({ id, hostname, bill }) => ({
      id,
      name: hostname,
      nanoUsd: bill.nanoUsd(now),
    }))
  }

  /** For new and running servers. */
  setPrice(slug: string, usdPerHour: number): void {
    const plan = this.plans.get(slug)
    if (plan === undefined) return
    plan.usdPerHour = usdPerHour
    for (const one of this.#servers.values())
      if (one.plan === plan) one.bill.setPrice(this.#now(), fromNumber(usdPerHour))
  }

  #now(): Instant {
    return this.#options.clock.now()
  }

  #alive(): Server[] {
    return [...this.#servers.values()].filter(({ goneAt }) => goneAt === undefined || this.#now() < goneAt)
  }

  #authorize({ headers }: SimRequest): SimAnswer | undefined {
    if (headers.authorization !== `Bearer ${this.#options.apiKey}`) return failure(401, 'Unauthorized')
    return this.suspended ? failure(403, 'The team is suspended') : undefined
  }

  #routes(): SimRoute[] {
    const route = (
      operation: string,
      method: SimRoute['method'],
      path: string,
      handle: SimRoute['handle'],
    ): SimRoute => ({ operation, method, path, handle })
    return [
      route('listPlans', 'GET', '/plans', () => ok([...this.plans.values()].map((plan) => this.#showPlan(plan)))),
      route('listServers', 'GET', '/servers', (request) => this.#listServers(request)),
      route('createServer', 'POST', '/servers', ({ body }) => this.#create(attributesOf(body))),
      route('deleteServer', 'DELETE', '/servers/:id', ({ params }) => this.#destroy(params.id ?? '')),
      route('listSshKeys', 'GET', '/ssh_keys', () => ok([...this.#keys].map(showKey))),
      route('createSshKey', 'POST', '/ssh_keys', ({ body }) => this.#addKey(attributesOf(body))),
      route('deleteSshKey', 'DELETE', '/ssh_keys/:id', ({ params }) =>
        this.#keys.delete(params.id ?? '') ? { status: 200 } : failure(404, 'Not found'),
      ),
      route('listUserData', 'GET', '/user_data', () => ok([...this.#scripts].map(showScript))),
      route('createUserData', 'POST', '/user_data', ({ body }) => {
        const { description = '', content = '' } = attributesOf(body)
        const id = this.#newId('ud')
        this.#scripts.set(id, { description, content })
        return { status: 201, body: { data: showScript([id, { description, content }]), meta: {} } }
      }),
      route('deleteUserData', 'DELETE', '/user_data/:id', ({ params }) =>
        this.#scripts.delete(params.id ?? '') ? { status: 204 } : failure(404, 'Not found'),
      ),
    ]
  }

  #listServers({ query }: SimRequest): SimAnswer {
    if (query.get('filter[project]') !== this.#options.project) return ok([])
    const size = Number(query.get('page[size]') ?? DEFAULT_PAGE)
    const start = (Number(query.get('page[number]') ?? 1) - 1) * size
    const listed = this.#alive().filter(({ createdAt }) => addMs(createdAt, this.listLagMs) <= this.#now())
    return ok(listed.slice(start, start + size).map((one) => this.#show(one)))
  }

  #create({ project, plan: slug = '', site = '', hostname = '', ...rest }: Attributes): SimAnswer {
    const plan = this.plans.get(slug)
    const { ssh_keys: keys, user_data: script } = rest as { ssh_keys?: string[]; user_data?: string }
    if (project !== this.#options.project) return failure(404, 'The project does not exist')
    if (keys?.every((key) => this.#keys.has(key)) !== true || !this.#scripts.has(script ?? ''))
      return failure(422, 'An SSH key or user data does not exist')
    if (plan === undefined || this.#free(plan, site) < 1) return failure(422, 'The plan is out of stock at this site')
    const now = this.#now()
    const readyAt = addMs(now, this.#options.bootMs)
    const bootFails = this.bootsFail > 0
    if (bootFails) this.bootsFail -= 1
    const server: Server = {
      id: this.#newId('sv'),
      hostname,
      plan,
      site,
      createdAt: now,
      readyAt,
      bootFails,
      lostAt: this.loseAfterMs === 0 ? undefined : addMs(readyAt, this.loseAfterMs),
      goneAt: undefined,
      bill: new SimBill(),
    }
    if (server.lostAt !== undefined) server.goneAt = server.lostAt
    server.bill.start(now, fromNumber(plan.usdPerHour))
    this.#servers.set(server.id, server)
    return { status: 201, body: { data: this.#show(server), meta: {} } }
  }

  #destroy(id: string): SimAnswer {
    const server = this.#alive().find((one) => one.id === id)
    if (server === undefined) return failure(404, 'Not found')
    if (this.deleteRefusals > 0) {
      this.deleteRefusals -= 1
      return failure(422, 'The server is locked')
    }
    const goneAt = addMs(this.#now(), this.#options.destroyMs)
    if (server.goneAt === undefined || goneAt < server.goneAt) server.goneAt = goneAt
    server.bill.stop(this.#now())
    return { status: 204 }
  }

  #addKey({ name = '', public_key = '' }: Attributes): SimAnswer {
    if ([...this.#keys.values()].some((key) => key.public_key === public_key))
      return failure(422, 'The fingerprint is taken')
    const id = this.#newId('ssh')
    this.#keys.set(id, { name, public_key })
    return { status: 201, body: { data: showKey([id, { name, public_key }]), meta: {} } }
  }

  #free(plan: LatitudePlan, site: string): number {
    const used = this.#alive().filter((one) => one.plan === plan && one.site === site)
    return (plan.capacity.get(site) ?? 0) - used.length
  }

  #show(one: Server) {
    const now = this.#now()
    const number = Number.parseInt(one.id.slice(3), 16)
    const status = now < one.readyAt ? 'deploying' : one.bootFails ? 'failed_deployment' : 'on'
    return {
      id: one.id,
      type: 'servers',
      attributes: {
        hostname: one.hostname,
        label: one.hostname,
        status,
        role: 'Bare Metal',
        site: one.site,
        locked: false,
        primary_ipv4: status === 'on' ? `198.51.${Math.floor(number / 250) % 250}.${1 + (number % 250)}` : null,
        primary_ipv6: null,
        created_at: formatInstantWithOffset(one.createdAt),
        scheduled_deletion_at: null,
        plan: { id: `plan_${one.plan.slug}`, name: one.plan.slug, slug: one.plan.slug, billing: 'hourly' },
        region: {
          city: one.site,
          country: 'United States',
          site: { id: `loc_${one.site}`, name: one.site, slug: one.site, facility: 'Simulated' },
        },
      },
    }
  }

  #showPlan(plan: LatitudePlan) {
    const sites = [...plan.capacity.keys()]
    const inStock = sites.filter((site) => this.#free(plan, site) > 0)
    const price = { hour: plan.usdPerHour, month: plan.usdPerHour * 730, year: plan.usdPerHour * 8760 }
    return {
      id: `plan_${plan.slug}`,
      type: 'plans',
      attributes: {
        slug: plan.slug,
        name: plan.slug.replaceAll('-', '.'),
        features: ['ssh', 'raid', 'user_data'],
        specs: {
          cpu: { type: 'AMD EPYC 9354', clock: 3.25, cores: 32, count: 2 },
          memory: { total: plan.gpus * 192 },
          drives: [
            { count: 2, size: '480 GB', type: 'SSD' },
            { count: 4, size: '3.8 TB', type: 'NVME' },
          ],
          nics: [{ count: 2, type: '100 Gbps' }],
          gpu: { count: plan.gpus, type: 'NVIDIA H100', vram_per_gpu: 80, interconnect: plan.interconnect },
        },
        regions: [
          {
            name: 'United States',
            deploys_instantly: inStock,
            locations: { available: sites, in_stock: inStock },
            stock_level: inStock.length > 0 ? 'high' : 'unavailable',
            pricing: { USD: price, BRL: price },
          },
        ],
      },
    }
  }

  #newId(kind: string): string {
    this.#ids += 1
    return `${kind}_${this.#ids.toString(16).padStart(6, '0')}`
  }
}

type Attributes = Readonly<Partial<Record<string, string>>>

function attributesOf(body: unknown): Attributes {
  return (body as { data: { attributes: Attributes } }).data.attributes
}

function defaultPlans(): LatitudePlan[] {
  const capacity = (): Map<string, number> =>
    new Map([
      ['DAL', 8],
      ['SAO', 8],
    ])
  return [
    { slug: 'g3-large-x86', gpus: 8, interconnect: 'NVLink', usdPerHour: 16.64, capacity: capacity() },
    { slug: 'g3-small-x86', gpus: 1, interconnect: 'PCIe', usdPerHour: 2.08, capacity: capacity() },
  ]
}

function showKey([id, key]: readonly [string, { name: string; public_key: string }]) {
  return { id, type: 'ssh_keys', attributes: { ...key, fingerprint: id } }
}

function showScript([id, attributes]: readonly [string, { description: string; content: string }]) {
  return { id, type: 'user_data', attributes }
}

function ok(data: readonly unknown[]): SimAnswer {
  return { status: 200, body: { data, meta: {} } }
}

function failure(status: number, detail: string): SimAnswer {
  return { status, body: { errors: [{ code: 'REFUSED', status: String(status), title: detail, detail }] } }
}
