/** A stateful simulator of Voltage Park: bare-metal rentals, virtual machines with port forwards, storage, and their cost. */
import { addMs, type Clock, type Instant } from '../../../../src/base/instant.ts'
import { SimBill } from '../bill.ts'
import { bootMachine, type BootedMachine } from '../booted.ts'
import { SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { voltageParkDescription } from './description.ts'
import {
  isLost,
  NODE_GPUS,
  nodeSpecs,
  rentalRate,
  resourcesOf,
  showRental,
  showVm,
  vmRate,
  type SimLocation,
  type SimPreset,
  type SimRental,
  type SimVm,
} from './machines.ts'
import { scriptOf, type CloudInit, type MachineOrder, type MetalOrder, type VmOrder } from './order.ts'
import { SimStorages } from './storage.ts'

const NANO_PER_MICRO = 1_000n
const FIRST_PORT = 20_000
const DEFAULT_PAGE = 3

export interface VoltageParkSimOptions {
  readonly clock: Clock
  readonly apiToken?: string
  readonly bootMs?: number
  readonly destroyMs?: number
}

export class VoltageParkSim {
  readonly server: SimServer
  readonly locations: SimLocation[] = [
    {
      id: uuid(0xa1),
      gpus: { ethernet: 64, infiniband: 64 },
      prices: { ethernet: '1.99', infiniband: '2.49' },
    },
  ]
  readonly presets: SimPreset[] = defaultPresets()
  readonly storages: SimStorages
  /** Machines of the next orders never run. */
  bootsFail = 0
  /** Machines of the next orders are lost so long after they ran. 0: never. */
  loseAfterMs = 0
  /** So many terminations are refused. */
  terminateRefusals = 0
  /** Machines and volumes are missing from lists for so long after their creation. */
  listLagMs = 0
  suspended = false
  /** Running machines are shown in this state, which drivers do not know. */
  strangeState: 'Migrating' | undefined
  /** Ports of the host that can still be forwarded. */
  freePorts = 100
  readonly #options: Required<VoltageParkSimOptions>
  readonly #rentals = new Map<string, SimRental>()
  readonly #vms = new Map<string, SimVm>()
  #ids = 0

  constructor(options: VoltageParkSimOptions) {
    this.#options = { apiToken: 'sim-voltage-park-token', bootMs: 20_000, destroyMs: 5_000, ...options }
    this.storages = new SimStorages({
      now: () => this.#now(),
      newId: () => this.#newId(),
      isListed: (createdAt) => addMs(createdAt, this.listLagMs) <= this.#now(),
      isRental: (id) => this.#aliveRentals().some((rental) => rental.id === id),
    })
    this.server = new SimServer({
      clock: options.clock,
      routes: [...this.#routes(), ...this.storages.routes(pageOf)],
      description: voltageParkDescription,
      authorize: (request) => this.#authorize(request),
      notFound: failure(404, 'Not Found'),
      rate: { everyMs: 500 },
    })
  }

  get apiToken(): string {
    return this.#options.apiToken
  }

  /** Everything that exists or costs money now, by its name. */
  leftovers(): string[] {
    return [
      ...this.#aliveRentals().map(({ name }) => `rental ${name}`),
      ...this.#aliveVms().map(({ name }) => `vm ${name}`),
      ...this.storages.all().map(({ name }) => `storage ${name}`),
    ]
  }

  /** How many machines were ever created under a name. */
  launches(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { name } of this.#machines()) counts.set(name, (counts.get(name) ?? 0) + 1)
    return counts
  }

  /** The vendor's bill by machine, as of now. */
  bills(): Array<{ id: string; name: string; nanoUsd: bigint }> {
    const now = this.#now()
    return this.#machines().map(({ id, name, bill }) => ({ id, name, nanoUsd: bill.nanoUsd(now) }))
  }

  booted(name: string): BootedMachine | undefined {
    const [metal] = this.#aliveRentals().filter((one) => one.name === name)
    const one = metal ?? this.#aliveVms().find((vm) => vm.name === name)
    if (one === undefined || this.#now() < one.readyAt) return undefined
    return bootMachine(metal === undefined ? 'user' : 'ubuntu', { keys: one.keys, text: one.script })
  }

  /** For new and running machines. */
  setMetalPrice(network: 'ethernet' | 'infiniband', price: string): void {
    for (const location of this.locations) location.prices[network] = price
    for (const rental of this.#rentals.values()) {
      if (rental.network !== network) continue
      rental.price = price
      rental.bill.setPrice(this.#now(), rentalRate(rental) * NANO_PER_MICRO)
    }
  }

  /** For new and running machines. */
  setVmPrice(presetId: string, compute: string): void {
    for (const preset of this.presets) if (preset.id === presetId) preset.compute = compute
    for (const vm of this.#vms.values()) {
      if (vm.preset.id !== presetId) continue
      vm.compute = compute
      vm.bill.setPrice(this.#now(), vmRate(vm) * NANO_PER_MICRO)
    }
  }

  #now(): Instant {
    return this.#options.clock.now()
  }

  #machines(): Array<SimRental | SimVm> {
    return [...this.#rentals.values(), ...this.#vms.values()]
  }

  #aliveRentals(): SimRental[] {
    return [...this.#rentals.values()].filter((one) => this.#isAlive(one))
  }

  #aliveVms(): SimVm[] {
    return [...this.#vms.values()].filter((one) => this.#isAlive(one))
  }

  #isAlive(one: SimRental | SimVm): boolean {
    // A lost or failed machine is not billed any more, and is listed until it is terminated.
    if (isLost(one, this.#now()) && one.lostAt !== undefined) one.bill.stop(one.lostAt)
    return one.goneAt === undefined || this.#now() < one.goneAt
  }

  #isListed = ({ createdAt }: SimRental | SimVm): boolean => addMs(createdAt, this.listLagMs) <= this.#now()

  #authorize({ headers }: SimRequest): SimAnswer | undefined {
    if (headers.authorization !== `Bearer ${this.#options.apiToken}`) return failure(401, 'Invalid token')
    return this.suspended ? failure(403, 'Organization is not active') : undefined
  }

  #routes(): SimRoute[] {
    const route = (
      operation: string,
      method: SimRoute['method'],
      path: string,
      handle: SimRoute['handle'],
    ): SimRoute => ({ operation, method, path: `/api/v1${path}`, handle })
    const now = (): Instant => this.#now()
    return [
      route('getOrganization', 'GET', '/organization/', () => ({
        status: 200,
        body: {
          id: uuid(0x0a),
          name: 'Simulated organization',
          billing_notification_target_emails: [],
          low_balance_emails_enabled: true,
        },
      })),
      route('listMetalLocations', 'GET', '/bare-metal/locations', (request) =>
        pageOf(request, this.#showMetalLocations()),
      ),
      route('listVmLocations', 'GET', '/virtual-machines/instant/locations', (request) =>
        pageOf(request, this.#showVmLocations()),
      ),
      route('deployMetal', 'POST', '/bare-metal/', ({ body }) => this.#deployMetal(body as MetalOrder)),
      route('listMetal', 'GET', '/bare-metal/', (request) =>
        pageOf(
          request,
          this.#aliveRentals()
            .filter(this.#isListed)
            .map((one) => showRental(one, now(), this.storages.of(one.id), this.strangeState)),
        ),
      ),
      route('terminateMetal', 'DELETE', '/bare-metal/:id', ({ params }) =>
        this.#terminate(this.#rentals.get(params.id ?? '')),
      ),
      route('deployVm', 'POST', '/virtual-machines/instant', ({ body }) => this.#deployVm(body as VmOrder)),
      route('listVms', 'GET', '/virtual-machines/', (request) =>
        pageOf(
          request,
          this.#aliveVms()
            .filter(this.#isListed)
            .map((one) => showVm(one, now(), hostOf(one.preset), this.strangeState)),
        ),
      ),
      route('terminateVm', 'DELETE', '/virtual-machines/:id', ({ params }) =>
        this.#terminate(this.#vms.get(params.id ?? '')),
      ),
      route('forwardPort', 'POST', '/virtual-machines/:id/port-forward', ({ params, body }) =>
        this.#forward(this.#vms.get(params.id ?? ''), body as SimVm['forwards'][number]),
      ),
      route('getHostNode', 'GET', '/hostnodes/:id', ({ params }) => ({
        status: 200,
        body: { id: params.id, location_id: this.locations[0]?.id, available_ports: this.#availablePorts() },
      })),
    ]
  }

  #deployMetal({ location_id, gpu_count, network_type, suborder, ...order }: MetalOrder): SimAnswer {
    const location = this.locations.find(({ id }) => id === location_id)
    if (location === undefined || this.#freeGpus(location, network_type) < gpu_count)
      return failure(400, 'Not enough GPUs are available at this location')
    const price = location.prices[network_type]
    const nodes = gpu_count / NODE_GPUS
    const rental = {
      ...this.#newMachine(order, order.cloudinit_script),
      location,
      network: network_type,
      nodes,
      suborder,
      price,
    }
    rental.bill.start(rental.createdAt, rentalRate(rental) * NANO_PER_MICRO)
    this.#rentals.set(rental.id, rental)
    return { status: 201, body: { rental_id: rental.id, warning: null } }
  }

  #deployVm({ config_id, ...order }: VmOrder): SimAnswer {
    const preset = this.presets.find(({ id }) => id === config_id)
    if (preset === undefined || this.#freeVms(preset) < 1) return failure(400, 'No host has room for this preset')
    const forwards = [{ internal_port: 22, external_port: this.#availablePorts()[0] ?? 0 }]
    const vm = { ...this.#newMachine(order, order.cloud_init), preset, forwards, compute: preset.compute }
    vm.bill.start(vm.createdAt, vmRate(vm) * NANO_PER_MICRO)
    this.#vms.set(vm.id, vm)
    return { status: 201, body: { vm_id: vm.id } }
  }

  #newMachine({ name, tags = [], ssh_keys = [] }: MachineOrder, cloudInit: CloudInit | undefined) {
    const now = this.#now()
    const readyAt = addMs(now, this.#options.bootMs)
    const bootFails = this.bootsFail > 0
    if (bootFails) this.bootsFail -= 1
    return {
      id: this.#newId(),
      name,
      tags,
      keys: ssh_keys,
      script: scriptOf(cloudInit),
      createdAt: now,
      readyAt,
      bootFails,
      lostAt: this.loseAfterMs === 0 ? undefined : addMs(readyAt, this.loseAfterMs),
      goneAt: undefined,
      bill: new SimBill(),
    }
  }

  #terminate(one: SimRental | SimVm | undefined): SimAnswer {
    if (one === undefined || !this.#isAlive(one)) return failure(404, 'Not Found')
    if (this.terminateRefusals > 0) {
      this.terminateRefusals -= 1
      return failure(400, 'The rental cannot be terminated now')
    }
    if (one.goneAt === undefined) one.goneAt = addMs(this.#now(), this.#options.destroyMs)
    one.bill.stop(this.#now())
    this.storages.forget(one.id)
    return { status: 204 }
  }

  #forward(vm: SimVm | undefined, forward: SimVm['forwards'][number]): SimAnswer {
    if (vm === undefined || !this.#isAlive(vm)) return failure(404, 'Not Found')
    const isTaken = vm.forwards.some(({ internal_port }) => internal_port === forward.internal_port)
    if (isTaken || !this.#availablePorts().includes(forward.external_port))
      return failure(400, 'The port is not available')
    vm.forwards.push(forward)
    return { status: 201, body: forward }
  }

  #availablePorts(): number[] {
    const used = new Set(this.#aliveVms().flatMap(({ forwards }) => forwards.map((one) => one.external_port)))
    const all = Array.from({ length: this.freePorts }, (_, n) => FIRST_PORT + n)
    return all.filter((port) => !used.has(port))
  }

  #freeGpus(location: SimLocation, network: 'ethernet' | 'infiniband'): number {
    const used = this.#aliveRentals().filter((one) => one.location === location && one.network === network)
    return location.gpus[network] - used.reduce((sum, { nodes }) => sum + nodes * NODE_GPUS, 0)
  }

  #freeVms(preset: SimPreset): number {
    return preset.capacity - this.#aliveVms().filter((one) => one.preset.id === preset.id).length
  }

  #showMetalLocations() {
    return this.locations.map((location) => ({
      id: location.id,
      gpu_count_ethernet: Math.max(0, this.#freeGpus(location, 'ethernet')),
      gpu_price_ethernet: location.prices.ethernet,
      gpu_count_infiniband: Math.max(0, this.#freeGpus(location, 'infiniband')),
      gpu_price_infiniband: location.prices.infiniband,
      reserved_gpu_count_infiniband_cluster_one: null,
      reserved_gpu_count_infiniband_cluster_two: null,
      specs_per_node: nodeSpecs,
    }))
  }

  #showVmLocations() {
    const ids = [...new Set(this.presets.map(({ location }) => location))]
    return ids.map((id) => ({
      id,
      available_presets: this.presets
        .filter(({ location }) => location === id)
        .map((preset) => ({
          id: preset.id,
          resources: resourcesOf(preset),
          operating_system: preset.operatingSystem,
          compute_rate_hourly: preset.compute,
          storage_rate_hourly: preset.storage,
          available_vms: Math.max(0, this.#freeVms(preset)),
        })),
    }))
  }

  #newId(): string {
    this.#ids += 1
    return uuid(0x100 + this.#ids)
  }
}

function defaultPresets(): SimPreset[] {
  const preset = (n: number, gpus: number, compute: string, operatingSystem = 'Ubuntu 22.04 LTS'): SimPreset => ({
    id: `${n}0000000-0000-4000-8000-000000000001`,
    location: uuid(0xa1),
    gpus,
    gpu: 'h100-sxm5-80gb',
    operatingSystem,
    compute,
    storage: decimal(gpus),
    capacity: 8,
  })
  return [
    preset(1, 1, '1.890000'),
    preset(2, 2, '3.780000'),
    preset(4, 4, '7.560000'),
    preset(8, 8, '15.120000'),
    preset(9, 1, '1.990000', 'Windows 10'),
  ]
}

function decimal(gpus: number): string {
  return `0.0${gpus}0000`
}

function hostOf({ gpus }: SimPreset): string {
  return uuid(0xb0 + gpus)
}

function uuid(n: number): string {
  return `00000000-0000-4000-8000-${n.toString(16).padStart(12, '0')}`
}

function pageOf({ query }: SimRequest, all: readonly unknown[]): SimAnswer {
  const limit = Number(query.get('limit') ?? DEFAULT_PAGE)
  const offset = Number(query.get('offset') ?? 0)
  const results = all.slice(offset, offset + limit)
  const has_next = offset + limit < all.length
  return { status: 200, body: { results, total_result_count: all.length, has_previous: offset > 0, has_next } }
}

function failure(status: number, detail: string): SimAnswer {
  return { status, body: { detail } }
}
