/** A stateful simulator of Lambda's cloud: instance types, instances, SSH keys, and what they would cost. */
import { addMs, formatInstant, type Clock, type Instant } from '../../../../src/base/instant.ts'
import { SimBill } from '../bill.ts'
import { bootMachine, type BootedMachine } from '../booted.ts'
import { SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { lambdaDescription } from './description.ts'
import { SimRulesets } from './firewall.ts'
import { defaultTypes, type LambdaType } from './types.ts'

interface Instance {
  readonly id: string
  readonly name: string
  readonly keys: readonly string[]
  readonly publicKeys: readonly string[]
  readonly userData: string
  readonly rulesets: readonly string[]
  readonly type: LambdaType
  readonly region: string
  readonly createdAt: Instant
  readonly activeAt: Instant
  /** Each instance keeps the price of its launch until `setPrice` changes it. */
  cents: number
  bootFails: boolean
  preemptedAt: Instant | undefined
  terminateAskedAt: Instant | undefined
  goneAt: Instant | undefined
  readonly bill: SimBill
}

const NANO_PER_CENT = 10_000_000n

export interface LambdaSimOptions {
  readonly clock: Clock
  readonly apiKey?: string
  readonly bootMs?: number
  readonly destroyMs?: number
  readonly listLagMs?: number
}

export class LambdaSim {
  readonly server: SimServer
  readonly types = new Map<string, LambdaType>()
  readonly rulesets: SimRulesets
  /** Machines of the next launches never become active. */
  bootsFail = 0
  /** Instances of the next launches are taken back so long after they became active. 0: never. */
  preemptAfterMs = 0
  /** So many terminations are refused. */
  terminateRefusals = 0
  /** Instances are missing from the list for so long after their launch. */
  listLagMs: number
  suspended = false
  /** Active instances are shown like this. */
  activeState: 'active' | 'unhealthy' | 'hibernated' = 'active'
  readonly #options: Required<LambdaSimOptions>
  readonly #instances = new Map<string, Instance>()
  readonly #keys = new Map<string, { id: string; name: string; publicKey: string }>()
  #ids = 0

  constructor(options: LambdaSimOptions) {
    this.#options = { apiKey: 'secret_sim_lambda', bootMs: 20_000, destroyMs: 5_000, listLagMs: 0, ...options }
    this.listLagMs = this.#options.listLagMs
    for (const type of defaultTypes()) this.types.set(type.name, type)
    this.rulesets = new SimRulesets({
      newId: () => this.#newId(),
      now: () => formatInstant(this.#now()),
      usersOf: (id) => this.#alive().flatMap((one) => (one.rulesets.includes(id) ? [one.id] : [])),
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

  get apiKey(): string {
    return this.#options.apiKey
  }

  /** Everything that exists or costs money now, by its name. */
  leftovers(): string[] {
    return [
      ...this.rulesets.all().map(({ name }) => `ruleset ${name}`),
      ...this.#alive().map(({ name }) => `instance ${name}`),
      ...[...this.#keys.values()].map(({ name }) => `key ${name}`),
    ]
  }

  /** How many instances were ever launched under a name. */
  launches(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { name } of this.#instances.values()) counts.set(name, (counts.get(name) ?? 0) + 1)
    return counts
  }

  /** The vendor's bill by instance, as of now. */
  bills(): Array<{ id: string; name: string; nanoUsd: bigint }> {
    const now = this.#now()
    for (const one of this.#instances.values()) this.#stateOf(one)
    return [...this.#instances.values()].map(({ id, name, bill }) => ({ id, name, nanoUsd: bill.nanoUsd(now) }))
  }

  booted(name: string): BootedMachine | undefined {
    const one = this.#alive().find((instance) => instance.name === name)
    if (one === undefined || this.#stateOf(one) === 'booting') return undefined
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
    for (const one of this.#instances.values()) {
      if (one.type !== type) continue
      this.#stateOf(one)
      one.cents = cents
      one.bill.setPrice(this.#now(), BigInt(cents) * NANO_PER_CENT)
    }
  }

  preemptAll(): void {
    for (const one of this.#instances.values()) {
      if (this.#stateOf(one) === 'active') one.preemptedAt = this.#now()
    }
  }

  #alive(): Instance[] {
    return [...this.#instances.values()].filter((one) => this.#stateOf(one) !== 'terminated')
  }

  #now(): Instant {
    return this.#options.clock.now()
  }

  #authorize({ headers }: SimRequest): SimAnswer | undefined {
    if (headers.authorization !== `Bearer ${this.#options.apiKey}`) return failure(401, 'global/invalid-api-key')
    return this.suspended ? failure(403, 'global/account-inactive') : undefined
  }

  #routes(): SimRoute[] {
    return [
      {
        operation: 'listInstanceTypes',
        method: 'GET',
        path: '/api/v1/instance-types',
        handle: () => ({ status: 200, body: { data: this.#showTypes() } }),
      },
      {
        operation: 'listInstances',
        method: 'GET',
        path: '/api/v1/instances',
        handle: () => ({ status: 200, body: { data: this.#listed().map((one) => this.#show(one)) } }),
      },
      {
        operation: 'getInstance',
        method: 'GET',
        path: '/api/v1/instances/:id',
        handle: ({ params }) => {
          const one = this.#alive().find(({ id }) => id === params.id)
          if (one === undefined) return failure(404, 'global/object-does-not-exist')
          return { status: 200, body: { data: this.#show(one) } }
        },
      },
      {
        operation: 'launchInstance',
        method: 'POST',
        path: '/api/v1/instance-operations/launch',
        handle: ({ body }) => this.#launch(body as LaunchBody),
      },
      {
        operation: 'terminateInstance',
        method: 'POST',
        path: '/api/v1/instance-operations/terminate',
        handle: ({ body }) => this.#terminate((body as { instance_ids: string[] }).instance_ids),
      },
      {
        operation: 'listSSHKeys',
        method: 'GET',
        path: '/api/v1/ssh-keys',
        handle: () => ({ status: 200, body: { data: [...this.#keys.values()].map(showKey) } }),
      },
      {
        operation: 'addSSHKey',
        method: 'POST',
        path: '/api/v1/ssh-keys',
        handle: ({ body }) => this.#addKey(body as { name: string; public_key?: string }),
      },
      {
        operation: 'deleteSSHKey',
        method: 'DELETE',
        path: '/api/v1/ssh-keys/:id',
        handle: ({ params }) =>
          this.#keys.delete(params.id ?? '')
            ? { status: 200, body: { data: {} } }
            : failure(404, 'global/object-does-not-exist'),
      },
    ]
  }

  #launch({
    region_name,
    instance_type_name,
    ssh_key_names,
    name = '',
    user_data = '',
    firewall_rulesets = [],
  }: LaunchBody): SimAnswer {
    const rulesets = firewall_rulesets.map(({ id }) => id)
    const type = this.types.get(instance_type_name)
    const hasKeys = ssh_key_names.every((key) => [...this.#keys.values()].some((one) => one.name === key))
    const hasRulesets = rulesets.every((id) => this.rulesets.has(id, region_name))
    if (type === undefined || !hasKeys || !hasRulesets) return failure(400, 'global/object-does-not-exist')
    if (this.#free(type, region_name) < 1) return failure(400, 'instance-operations/launch/insufficient-capacity')
    const now = this.#now()
    const bootFails = this.bootsFail > 0
    if (bootFails) this.bootsFail -= 1
    const instance: Instance = {
      id: this.#newId(),
      name,
      keys: ssh_key_names,
      publicKeys: [...this.#keys.values()].flatMap((key) => (ssh_key_names.includes(key.name) ? [key.publicKey] : [])),
      userData: user_data,
      rulesets,
      type,
      region: region_name,
      createdAt: now,
      activeAt: addMs(now, this.#options.bootMs),
      cents: type.cents,
      bootFails,
      preemptedAt: this.preemptAfterMs === 0 ? undefined : addMs(now, this.#options.bootMs + this.preemptAfterMs),
      terminateAskedAt: undefined,
      goneAt: undefined,
      bill: new SimBill(),
    }
    this.#instances.set(instance.id, instance)
    return { status: 200, body: { data: { instance_ids: [instance.id] } } }
  }

  #terminate(ids: readonly string[]): SimAnswer {
    const found = ids
      .flatMap((id) => this.#instances.get(id) ?? [])
      .filter((one) => this.#stateOf(one) !== 'terminated')
    if (found.length < ids.length) return failure(404, 'global/object-does-not-exist')
    if (found.some((one) => one.terminateAskedAt !== undefined)) return failure(500, 'global/unknown')
    if (this.terminateRefusals > 0) {
      this.terminateRefusals -= 1
      return failure(400, 'global/invalid-parameters')
    }
    const now = this.#now()
    for (const one of found) {
      if (one.terminateAskedAt !== undefined) continue
      one.terminateAskedAt = now
      one.goneAt = addMs(now, this.#options.destroyMs)
      one.bill.stop(now)
    }
    return { status: 200, body: { data: { terminated_instances: found.map((one) => this.#show(one)) } } }
  }

  #addKey({ name, public_key = 'ssh-ed25519 generated' }: { name: string; public_key?: string }): SimAnswer {
    if ([...this.#keys.values()].some((one) => one.name === name)) return failure(400, 'global/invalid-parameters')
    const key = { id: this.#newId(), name, publicKey: public_key }
    this.#keys.set(key.id, key)
    return { status: 200, body: { data: showKey(key) } }
  }

  #free(type: LambdaType, region: string): number {
    const used = [...this.#instances.values()].filter(
      (one) => one.type === type && one.region === region && this.#stateOf(one) !== 'terminated',
    )
    return (type.capacity.get(region) ?? 0) - used.length
  }

  #listed(): Instance[] {
    const now = this.#now()
    return [...this.#instances.values()].filter(
      (one) => addMs(one.createdAt, this.listLagMs) <= now && this.#stateOf(one) !== 'terminated',
    )
  }

  /** Also starts the bill when it became active. */
  #stateOf(one: Instance): LambdaState {
    const now = this.#now()
    const isUp =
      !one.bootFails &&
      one.activeAt <= now &&
      !(one.terminateAskedAt !== undefined && one.terminateAskedAt < one.activeAt)
    if (isUp && !one.bill.isStarted) one.bill.start(one.activeAt, BigInt(one.cents) * NANO_PER_CENT)
    if (one.goneAt !== undefined) return one.goneAt <= now ? 'terminated' : 'terminating'
    if (one.preemptedAt !== undefined && one.preemptedAt <= now) {
      one.bill.stop(one.preemptedAt)
      return 'preempted'
    }
    if (one.activeAt > now) return 'booting'
    return one.bootFails ? 'unhealthy' : this.activeState
  }

  #show(one: Instance) {
    const status = this.#stateOf(one)
    const number = Number.parseInt(one.id, 16)
    const address = `${Math.floor(number / 250) % 250}.${1 + (number % 250)}`
    const available = { available: true }
    const actions = { migrate: available, rebuild: available, restart: available, cold_reboot: available }
    return {
      id: one.id,
      name: one.name,
      ...(!one.bootFails && upStates.includes(status)
        ? { ip: `198.51.${address}`, private_ip: `10.19.${address}` }
        : {}),
      status,
      ssh_key_names: one.keys,
      file_system_names: [],
      region: showRegion(one.region),
      instance_type: { ...this.#showType(one.type), price_cents_per_hour: one.cents },
      actions: { ...actions, terminate: { available: status !== 'terminating' } },
    }
  }

  #showType({ name, gpu, cents, specs }: LambdaType) {
    const description = `${specs.gpus}x ${gpu}`
    return { name, description, gpu_description: gpu, price_cents_per_hour: cents, specs }
  }

  #showTypes() {
    const entries = [...this.types.values()].map((type) => {
      const regions = [...type.capacity.keys()].filter((region) => this.#free(type, region) > 0)
      return [
        type.name,
        { instance_type: this.#showType(type), regions_with_capacity_available: regions.map(showRegion) },
      ] as const
    })
    return Object.fromEntries(entries)
  }

  #newId(): string {
    this.#ids += 1
    return this.#ids.toString(16).padStart(32, '0')
  }
}

/** `hibernated`: a word that drivers do not know yet. */
type LambdaState = 'booting' | 'active' | 'unhealthy' | 'hibernated' | 'terminated' | 'terminating' | 'preempted'
const upStates: readonly LambdaState[] = ['active', 'unhealthy', 'hibernated']

interface LaunchBody {
  readonly region_name: string
  readonly instance_type_name: string
  readonly ssh_key_names: readonly string[]
  readonly name?: string
  readonly user_data?: string
  readonly firewall_rulesets?: ReadonlyArray<{ readonly id: string }>
}

function showRegion(name: string) {
  return { name, description: `Region ${name}` }
}

function showKey({ id, name, publicKey }: { id: string; name: string; publicKey: string }) {
  return { id, name, public_key: publicKey }
}

function failure(status: number, code: string): SimAnswer {
  return { status, body: { error: { code, message: `Refused: ${code}.` } } }
}
