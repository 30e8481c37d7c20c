/** A stateful simulator of Lambda's cloud: instance types, instances, SSH keys, and what they would cost. */
import { formatInstant } from '../../../../src/base/instant.ts'
import { bootMachine, type BootedMachine } from '../booted.ts'
import { addressTail, Fleet, type FleetOptions, type Machine } from '../fleet.ts'
import { json, routesBelow, SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { lambdaDescription } from './description.ts'
import { SimRulesets } from './firewall.ts'
import { defaultTypes, type LambdaType } from './types.ts'

interface Details {
  readonly keys: readonly string[]
  readonly publicKeys: readonly string[]
  readonly userData: string
  readonly rulesets: readonly string[]
}
type Instance = Machine<LambdaType, Details>

const NANO_PER_CENT = 10_000_000n
const words = {
  booting: 'booting',
  running: 'active',
  failed: 'unhealthy',
  lost: 'preempted',
  ending: 'terminating',
  gone: 'terminated',
} as const

export class LambdaSim extends Fleet<LambdaType, Details> {
  readonly server: SimServer
  readonly apiKey: string
  readonly types = new Map(defaultTypes().map((type) => [type.name, type]))
  readonly rulesets: SimRulesets
  readonly #keys = new Map<string, { id: string; name: string; publicKey: string }>()

  constructor({ apiKey = 'secret_sim_lambda', ...options }: FleetOptions & { readonly apiKey?: string }) {
    const formatId = (number: number): string => number.toString(16).padStart(32, '0')
    super(options, { billedFrom: 'ready', lossRemoves: false, formatId })
    this.apiKey = apiKey
    this.rulesets = new SimRulesets({
      newId: () => this.newId(),
      now: () => formatInstant(this.now()),
      usersOf: (id) => this.alive().flatMap((one) => (one.rulesets.includes(id) ? [one.id] : [])),
      failure,
    })
    this.server = new SimServer({
      clock: options.clock,
      routes: [...this.#routes(), ...this.rulesets.routes()],
      description: lambdaDescription,
      authorize: (request) => this.#authorize(request),
      notFound: failure(404, 'global/not-found'),
      rate: { everyMs: 1_000, operations: { launchInstance: 12_000 } },
    })
  }

  leftovers(): string[] {
    return [
      ...this.rulesets.all().map(({ name }) => `ruleset ${name}`),
      ...this.alive().map(({ name }) => `instance ${name}`),
      ...[...this.#keys.values()].map(({ name }) => `key ${name}`),
    ]
  }

  booted(name: string): BootedMachine | undefined {
    const one = this.alive().find((instance) => instance.name === name)
    if (one === undefined || this.phaseOf(one) === 'booting') return undefined
    return bootMachine('ubuntu', { keys: one.publicKeys, text: one.userData })
  }

  setCapacity(type: string, region: string, count: number): void {
    this.types.get(type)?.capacity.set(region, count)
  }

  /** For new and running instances. */
  setPrice(name: string, cents: number): void {
    const type = this.types.get(name)
    if (type === undefined) return
    type.cents = cents
    this.reprice((one) => one.type === type, BigInt(cents) * NANO_PER_CENT)
  }

  #authorize({ headers }: SimRequest): SimAnswer | undefined {
    if (headers.authorization !== `Bearer ${this.apiKey}`) return failure(401, 'global/invalid-api-key')
    return this.suspended ? failure(403, 'global/account-inactive') : undefined
  }

  #routes(): SimRoute[] {
    const route = routesBelow('/api/v1')
    return [
      route('listInstanceTypes', 'GET', '/instance-types', () => data(this.#showTypes())),
      route('listInstances', 'GET', '/instances', () => data(this.listed().map((one) => this.#show(one)))),
      route('getInstance', 'GET', '/instances/:id', ({ params }) => {
        const one = this.find(params.id)
        return one === undefined ? failure(404, 'global/object-does-not-exist') : data(this.#show(one))
      }),
      route('launchInstance', 'POST', '/instance-operations/launch', ({ body }) => this.#launch(body as LaunchBody)),
      route('terminateInstance', 'POST', '/instance-operations/terminate', ({ body }) =>
        this.#terminate((body as { instance_ids: string[] }).instance_ids),
      ),
      route('listSSHKeys', 'GET', '/ssh-keys', () => data([...this.#keys.values()].map(showKey))),
      route('addSSHKey', 'POST', '/ssh-keys', ({ body }) =>
        this.#addKey(body as { name: string; public_key?: string }),
      ),
      route('deleteSSHKey', 'DELETE', '/ssh-keys/:id', ({ params }) =>
        this.#keys.delete(params.id ?? '') ? data({}) : failure(404, 'global/object-does-not-exist'),
      ),
    ]
  }

  #launch({ region_name: place, name = '', user_data = '', firewall_rulesets = [], ...body }: LaunchBody): SimAnswer {
    const rulesets = firewall_rulesets.map(({ id }) => id)
    const type = this.types.get(body.instance_type_name)
    const keys = [...this.#keys.values()].filter((key) => body.ssh_key_names.includes(key.name))
    const hasKeys = keys.length === body.ssh_key_names.length
    const hasRulesets = rulesets.every((id) => this.rulesets.has(id, place))
    if (type === undefined || !hasKeys || !hasRulesets) return failure(400, 'global/object-does-not-exist')
    if (this.free(type, place) < 1) return failure(400, 'instance-operations/launch/insufficient-capacity')
    const publicKeys = keys.map(({ publicKey }) => publicKey)
    const { id } = this.order(
      { name, type, place, nanoPerHour: BigInt(type.cents) * NANO_PER_CENT },
      { keys: body.ssh_key_names, publicKeys, userData: user_data, rulesets },
    )
    return data({ instance_ids: [id] })
  }

  #terminate(ids: readonly string[]): SimAnswer {
    const instances = ids.flatMap((id) => this.find(id) ?? [])
    if (instances.length < ids.length) return failure(404, 'global/object-does-not-exist')
    if (instances.some((one) => one.endedAt !== undefined)) return failure(500, 'global/unknown')
    if (this.takeRefusal()) return failure(400, 'global/invalid-parameters')
    for (const one of instances) this.end(one)
    return data({ terminated_instances: instances.map((one) => this.#show(one)) })
  }

  #addKey({ name, public_key = 'ssh-ed25519 generated' }: { name: string; public_key?: string }): SimAnswer {
    if ([...this.#keys.values()].some((one) => one.name === name)) return failure(400, 'global/invalid-parameters')
    const key = { id: this.newId(), name, publicKey: public_key }
    this.#keys.set(key.id, key)
    return data(showKey(key))
  }

  #show(one: Instance) {
    const available = { available: true }
    const actions = { migrate: available, rebuild: available, restart: available, cold_reboot: available }
    const tail = addressTail(one.number)
    const status = this.stateOf(one, words)
    return {
      id: one.id,
      name: one.name,
      ...(this.phaseOf(one) === 'running' ? { ip: `198.51.${tail}`, private_ip: `10.19.${tail}` } : {}),
      status,
      ssh_key_names: one.keys,
      file_system_names: [],
      region: showRegion(one.place),
      instance_type: { ...showType(one.type), price_cents_per_hour: Number(one.nanoPerHour / NANO_PER_CENT) },
      actions: { ...actions, terminate: { available: status !== 'terminating' } },
    }
  }

  #showTypes() {
    const entries = [...this.types.values()].map((type) => {
      const regions = [...type.capacity.keys()].filter((region) => this.free(type, region) > 0)
      return [
        type.name,
        { instance_type: showType(type), regions_with_capacity_available: regions.map(showRegion) },
      ] as const
    })
    return Object.fromEntries(entries)
  }
}

interface LaunchBody {
  readonly region_name: string
  readonly instance_type_name: string
  readonly ssh_key_names: readonly string[]
  readonly name?: string
  readonly user_data?: string
  readonly firewall_rulesets?: ReadonlyArray<{ readonly id: string }>
}

function showType({ name, gpu, cents, specs }: LambdaType) {
  const description = `${specs.gpus}x ${gpu}`
  return { name, description, gpu_description: gpu, price_cents_per_hour: cents, specs }
}

function showRegion(name: string) {
  return { name, description: `Region ${name}` }
}

function showKey({ id, name, publicKey }: { id: string; name: string; publicKey: string }) {
  return { id, name, public_key: publicKey }
}

function data(value: unknown): SimAnswer {
  return json({ data: value })
}

function failure(status: number, code: string): SimAnswer {
  return { status, body: { error: { code, message: `Refused: ${code}.` } } }
}
