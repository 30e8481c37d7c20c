/**
 * A stateful simulator of Latitude.sh: plans, servers, SSH keys, user data, and what they would cost. What was ordered
 * matters: a server by the month is billed for a month, GPUs need the right operating system, and user data must be readable.
 */
import { addMs, formatInstantWithOffset, type Clock, type Instant } from '../../../../src/base/instant.ts'
import { fromNumber } from '../../../../src/base/vendor-price.ts'
import { SimBill } from '../bill.ts'
import { SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { latitudeDescription } from './description.ts'
import {
  barePlan,
  defaultPlans,
  HOURS_PER_MONTH,
  LOGIN_USER,
  MAX_HOST_NAME_CHARS,
  operatingSystems,
  showKey,
  showPlan,
  showScript,
  type LatitudePlan,
  type SimKey,
} from './things.ts'

interface Server {
  readonly id: string
  readonly hostname: string
  readonly plan: LatitudePlan
  readonly site: string
  readonly operatingSystem: string
  readonly billing: string
  readonly keys: readonly string[]
  /** As the machine reads it. */
  readonly userData: string
  readonly createdAt: Instant
  readonly readyAt: Instant
  readonly bootFails: boolean
  readonly lostAt: Instant | undefined
  goneAt: Instant | undefined
  /** The state that it is in once it is installed. */
  status: string
  isLocked: boolean
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
  /** So many deletions are refused. */
  deleteRefusals = 0
  /** Servers are missing from the list for so long after their creation. */
  listLagMs = 0
  suspended = false
  readonly #options: Required<LatitudeSimOptions>
  readonly #servers = new Map<string, Server>()
  readonly #keys = new Map<string, SimKey>()
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
      ...[...this.#keys.values()].filter(isOfProject).map(({ name }) => `key ${name}`),
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
    return [...this.#servers.values()].map(({ id, hostname, plan, billing, bill }) => ({
      id,
      name: hostname,
      // By the month, a month is paid in advance.
      nanoUsd: billing === 'hourly' ? bill.nanoUsd(now) : fromNumber(plan.usdPerHour) * HOURS_PER_MONTH,
    }))
  }

  /** An SSH session at a public address. undefined: the server does not let the key in. */
  logIn(host: string, user: string, key: string): { gpus: number } | undefined {
    const server = this.#alive().find((one) => this.#show(one).attributes.primary_ipv4 === host)
    if (server === undefined || user !== LOGIN_USER) return undefined
    const isAllowed = server.keys.includes(key) || server.userData.includes(`- "${key}"`)
    return isAllowed
      ? { gpus: operatingSystems.get(server.operatingSystem) === true ? server.plan.gpus : 0 }
      : undefined
  }

  setStatus(hostname: string, status: string): void {
    this.#find(hostname).status = status
  }

  /** As somebody does in the dashboard. */
  setLocked(hostname: string, isLocked: boolean): void {
    this.#find(hostname).isLocked = isLocked
  }

  /** A key of the team or of another project. */
  addForeignKey(publicKey: string): void {
    this.#keys.set(this.#newId('ssh'), { name: 'colleague', public_key: publicKey, isForeign: true })
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

  #find(hostname: string): Server {
    const server = this.#alive().find((one) => one.hostname === hostname)
    if (server === undefined) throw new Error(`there is no server ${hostname}`)
    return server
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
      route('listPlans', 'GET', '/plans', () =>
        ok([barePlan, ...[...this.plans.values()].map((plan) => showPlan(plan, (site) => this.#free(plan, site)))]),
      ),
      route('listServers', 'GET', '/servers', (request) => this.#listServers(request)),
      route('createServer', 'POST', '/servers', ({ body }) => this.#create(attributesOf(body))),
      route('deleteServer', 'DELETE', '/servers/:id', ({ params }) => this.#destroy(params.id ?? '')),
      route('listSshKeys', 'GET', '/ssh_keys', (request) =>
        this.#page(request, [...this.#keys].filter(([, key]) => isOfProject(key)).map(showKey)),
      ),
      route('createSshKey', 'POST', '/ssh_keys', ({ body }) => this.#addKey(attributesOf(body))),
      route('deleteSshKey', 'DELETE', '/ssh_keys/:id', ({ params }) =>
        this.#keys.delete(params.id ?? '') ? { status: 200 } : failure(404, 'Not found'),
      ),
      route('listUserData', 'GET', '/user_data', (request) => this.#page(request, [...this.#scripts].map(showScript))),
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

  #listServers(request: SimRequest): SimAnswer {
    const listed = this.#alive().filter(({ createdAt }) => addMs(createdAt, this.listLagMs) <= this.#now())
    return this.#page(
      request,
      listed.map((one) => this.#show(one)),
    )
  }

  /** A list without page parameters is its first page. */
  #page({ query }: SimRequest, all: readonly unknown[]): SimAnswer {
    if (query.get('filter[project]') !== this.#options.project) return ok([])
    const size = Number(query.get('page[size]') ?? DEFAULT_PAGE)
    const start = (Number(query.get('page[number]') ?? 1) - 1) * size
    return ok(all.slice(start, start + size))
  }

  #create({ project, plan: slug = '', site = '', hostname = '', ...rest }: Attributes): SimAnswer {
    const plan = this.plans.get(slug)
    const { operating_system: operatingSystem = '', billing = 'monthly' } = rest
    const { ssh_keys: keys = [], user_data: script } = rest as { ssh_keys?: string[]; user_data?: string }
    const content = this.#scripts.get(script ?? '')?.content
    if (project !== this.#options.project) return failure(404, 'Specified Record Not Found', 'not_found')
    if (hostname.length > MAX_HOST_NAME_CHARS) return failure(422, 'must have at most 32 characters')
    if (!operatingSystems.has(operatingSystem)) return failure(422, 'must be one of the operating systems')
    const found = keys.flatMap((id) => this.#keys.get(id) ?? []).filter(isOfProject)
    if (found.length < keys.length) return failure(422, 'The following SSH Keys were not found in project')
    if (content === undefined) return failure(422, 'The user data was not found')
    if (plan === undefined || this.#free(plan, site) < 1)
      return failure(422, 'The plan is out of stock at this site', 'OUT_OF_STOCK')
    const now = this.#now()
    const readyAt = addMs(now, this.#options.bootMs)
    const bootFails = this.bootsFail > 0
    if (bootFails) this.bootsFail -= 1
    const server: Server = {
      id: this.#newId('sv'),
      hostname,
      plan,
      site,
      operatingSystem,
      billing,
      keys: found.map((key) => key.public_key),
      userData: Buffer.from(content, 'base64').toString('utf8'),
      createdAt: now,
      readyAt,
      bootFails,
      lostAt: this.loseAfterMs === 0 ? undefined : addMs(readyAt, this.loseAfterMs),
      goneAt: undefined,
      status: 'on',
      isLocked: false,
      bill: new SimBill(),
    }
    if (server.lostAt !== undefined) server.goneAt = server.lostAt
    server.bill.start(now, fromNumber(plan.usdPerHour))
    this.#servers.set(server.id, server)
    return { status: 201, body: { data: this.#show(server), meta: {} } }
  }

  #destroy(id: string): SimAnswer {
    const server = this.#alive().find((one) => one.id === id)
    if (server === undefined) return failure(404, 'Specified Record Not Found', 'not_found')
    if (server.isLocked) return failure(423, 'Server is locked and cannot be updated or deleted', 'SERVER_LOCKED_ERROR')
    if (this.deleteRefusals > 0) {
      this.deleteRefusals -= 1
      return failure(422, 'The server is busy')
    }
    const goneAt = addMs(this.#now(), this.#options.destroyMs)
    if (server.goneAt === undefined || goneAt < server.goneAt) server.goneAt = goneAt
    server.bill.stop(this.#now())
    return { status: 204 }
  }

  #addKey({ name = '', public_key = '' }: Attributes): SimAnswer {
    if ([...this.#keys.values()].some((key) => key.public_key === public_key))
      return failure(422, 'fingerprint has already been taken')
    const [id, key] = [this.#newId('ssh'), { name, public_key, isForeign: false }]
    this.#keys.set(id, key)
    return { status: 201, body: { data: showKey([id, key]), meta: {} } }
  }

  #free(plan: LatitudePlan, site: string): number {
    const used = this.#alive().filter((one) => one.plan === plan && one.site === site)
    return (plan.capacity.get(site) ?? 0) - used.length
  }

  #show(one: Server) {
    const now = this.#now()
    const number = Number.parseInt(one.id.slice(3), 16)
    const installed = one.bootFails ? 'failed_deployment' : one.status
    const isDeleted = one.goneAt !== undefined && one.goneAt !== one.lostAt
    const status = isDeleted ? 'disk_erasing' : now < one.readyAt ? 'deploying' : installed
    return {
      id: one.id,
      type: 'servers',
      attributes: {
        hostname: one.hostname,
        label: one.hostname,
        status,
        role: 'Bare Metal',
        site: one.site,
        locked: one.isLocked,
        primary_ipv4: status === 'on' ? `198.51.${Math.floor(number / 250) % 250}.${1 + (number % 250)}` : null,
        primary_ipv6: null,
        created_at: formatInstantWithOffset(one.createdAt),
        scheduled_deletion_at: null,
        plan: { id: `plan_${one.plan.slug}`, name: one.plan.slug, slug: one.plan.slug, billing: one.billing },
        region: {
          city: one.site,
          country: 'United States',
          site: { id: `loc_${one.site}`, name: one.site, slug: one.site, facility: 'Simulated' },
        },
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

function ok(data: readonly unknown[]): SimAnswer {
  return { status: 200, body: { data, meta: {} } }
}

function isOfProject({ isForeign }: SimKey): boolean {
  return !isForeign
}

function failure(status: number, detail: string, code = 'VALIDATION_ERROR'): SimAnswer {
  return { status, body: { errors: [{ code, status: String(status), title: 'Refused', detail, meta: {} }] } }
}
