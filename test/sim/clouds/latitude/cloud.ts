/**
 * A stateful simulator of Latitude.sh: plans, servers, SSH keys, user data, and what they would cost. What was ordered
 * matters: a server by the month is billed for a month, GPUs need the right operating system, and user data must be readable.
 */
import { formatInstantWithOffset } from '../../../../src/base/instant.ts'
import { fromNumber } from '../../../../src/base/vendor-price.ts'
import { addressTail, Fleet, type FleetOptions, type Machine } from '../fleet.ts'
import { routesBelow, SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
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

interface Details {
  readonly operatingSystem: string
  readonly billing: string
  readonly keys: readonly string[]
  /** As the machine reads it. */
  readonly userData: string
  isLocked: boolean
}
type Server = Machine<LatitudePlan, Details>

const DEFAULT_PAGE = 20
const words = {
  booting: 'deploying',
  running: 'on',
  failed: 'failed_deployment',
  lost: 'off',
  ending: 'disk_erasing',
  gone: 'off',
} as const

export class LatitudeSim extends Fleet<LatitudePlan, Details> {
  readonly server: SimServer
  readonly credentials = { apiKey: 'sim-latitude-key', project: 'berth-gpus' }
  readonly plans = new Map(defaultPlans().map((plan) => [plan.slug, plan]))
  readonly #keys = new Map<string, SimKey>()
  readonly #scripts = new Map<string, { description: string; content: string }>()

  constructor(options: FleetOptions) {
    const formatId = (number: number, kind: string): string => `${kind}_${number.toString(16).padStart(6, '0')}`
    super(options, { billedFrom: 'order', lossRemoves: true, formatId })
    this.server = new SimServer({
      clock: options.clock,
      routes: this.#routes(),
      description: latitudeDescription,
      authorize: (request) => this.#authorize(request),
      notFound: failure(404, 'Not found'),
    })
  }

  leftovers(): string[] {
    return [
      ...this.alive().map(({ name }) => `server ${name}`),
      ...[...this.#keys.values()].filter(isOfProject).map(({ name }) => `key ${name}`),
      ...[...this.#scripts.values()].map(({ description }) => `user data ${description}`),
    ]
  }

  /** An SSH session at a public address. undefined: the server does not let the key in. */
  logIn(host: string, user: string, key: string): { gpus: number } | undefined {
    const server = this.alive().find((one) => this.#show(one).attributes.primary_ipv4 === host)
    if (server === undefined || user !== LOGIN_USER) return undefined
    const isAllowed = server.keys.includes(key) || server.userData.includes(`- "${key}"`)
    return isAllowed
      ? { gpus: operatingSystems.get(server.operatingSystem) === true ? server.type.gpus : 0 }
      : undefined
  }

  /** As somebody does in the dashboard. */
  setLocked(hostname: string, isLocked: boolean): void {
    this.named(hostname).isLocked = isLocked
  }

  /** A key of the team or of another project. */
  addForeignKey(publicKey: string): void {
    this.#keys.set(this.newId('ssh'), { name: 'colleague', public_key: publicKey, isForeign: true })
  }

  /** For new and running servers. */
  setPrice(slug: string, usdPerHour: number): void {
    const plan = this.plans.get(slug)
    if (plan === undefined) return
    plan.usdPerHour = usdPerHour
    this.reprice((one) => one.type === plan, fromNumber(usdPerHour))
  }

  #authorize({ headers }: SimRequest): SimAnswer | undefined {
    if (headers.authorization !== `Bearer ${this.credentials.apiKey}`) return failure(401, 'Unauthorized')
    return this.suspended ? failure(403, 'The team is suspended') : undefined
  }

  #routes(): SimRoute[] {
    const route = routesBelow('')
    return [
      route('listPlans', 'GET', '/plans', () =>
        ok([barePlan, ...[...this.plans.values()].map((plan) => showPlan(plan, (site) => this.free(plan, site)))]),
      ),
      route('listServers', 'GET', '/servers', (request) =>
        this.#page(
          request,
          this.listed().map((one) => this.#show(one)),
        ),
      ),
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
        const id = this.newId('ud')
        this.#scripts.set(id, { description, content })
        return { status: 201, body: { data: showScript([id, { description, content }]), meta: {} } }
      }),
      route('deleteUserData', 'DELETE', '/user_data/:id', ({ params }) =>
        this.#scripts.delete(params.id ?? '') ? { status: 204 } : failure(404, 'Not found'),
      ),
    ]
  }

  /** A list without page parameters is its first page. */
  #page({ query }: SimRequest, all: readonly unknown[]): SimAnswer {
    if (query.get('filter[project]') !== this.credentials.project) return ok([])
    const size = Number(query.get('page[size]') ?? DEFAULT_PAGE)
    const start = (Number(query.get('page[number]') ?? 1) - 1) * size
    return ok(all.slice(start, start + size))
  }

  #create({ project, plan: slug = '', site = '', hostname = '', ...rest }: Attributes): SimAnswer {
    const plan = this.plans.get(slug)
    const { operating_system: operatingSystem = '', billing = 'monthly' } = rest
    const { ssh_keys: keyIds = [], user_data: script } = rest as { ssh_keys?: string[]; user_data?: string }
    const content = this.#scripts.get(script ?? '')?.content
    if (project !== this.credentials.project) return failure(404, 'Specified Record Not Found', 'not_found')
    if (hostname.length > MAX_HOST_NAME_CHARS) return failure(422, 'must have at most 32 characters')
    if (!operatingSystems.has(operatingSystem)) return failure(422, 'must be one of the operating systems')
    const keys = keyIds.flatMap((id) => this.#keys.get(id) ?? []).filter(isOfProject)
    if (keys.length < keyIds.length) return failure(422, 'The following SSH Keys were not found in project')
    if (content === undefined) return failure(422, 'The user data was not found')
    if (plan === undefined || this.free(plan, site) < 1)
      return failure(422, 'The plan is out of stock at this site', 'OUT_OF_STOCK')
    const nanoPerHour = fromNumber(plan.usdPerHour)
    // By the month, a month is paid in advance.
    const advance = billing === 'hourly' ? {} : { prepaidNano: nanoPerHour * HOURS_PER_MONTH }
    const server = this.order(
      { id: this.newId('sv'), name: hostname, type: plan, place: site, nanoPerHour, ...advance },
      {
        operatingSystem,
        billing,
        keys: keys.map((key) => key.public_key),
        userData: Buffer.from(content, 'base64').toString('utf8'),
        isLocked: false,
      },
    )
    return { status: 201, body: { data: this.#show(server), meta: {} } }
  }

  #destroy(id: string): SimAnswer {
    const server = this.find(id)
    if (server === undefined) return failure(404, 'Specified Record Not Found', 'not_found')
    if (server.isLocked) return failure(423, 'Server is locked and cannot be updated or deleted', 'SERVER_LOCKED_ERROR')
    if (this.takeRefusal()) return failure(422, 'The server is busy')
    this.end(server)
    return { status: 204 }
  }

  #addKey({ name = '', public_key = '' }: Attributes): SimAnswer {
    if ([...this.#keys.values()].some((key) => key.public_key === public_key))
      return failure(422, 'fingerprint has already been taken')
    const [id, key] = [this.newId('ssh'), { name, public_key, isForeign: false }]
    this.#keys.set(id, key)
    return { status: 201, body: { data: showKey([id, key]), meta: {} } }
  }

  #show(one: Server) {
    const status = this.stateOf(one, words)
    const { name: hostname, place: site, type: plan } = one
    return {
      id: one.id,
      type: 'servers',
      attributes: {
        hostname,
        label: hostname,
        status,
        role: 'Bare Metal',
        site,
        locked: one.isLocked,
        primary_ipv4: status === 'on' ? `198.51.${addressTail(one.number)}` : null,
        primary_ipv6: null,
        created_at: formatInstantWithOffset(one.createdAt),
        scheduled_deletion_at: null,
        plan: { id: `plan_${plan.slug}`, name: plan.slug, slug: plan.slug, billing: one.billing },
        region: {
          city: site,
          country: 'United States',
          site: { id: `loc_${site}`, name: site, slug: site, facility: 'Simulated' },
        },
      },
    }
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
