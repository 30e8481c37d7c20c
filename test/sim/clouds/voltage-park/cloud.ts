/** A stateful simulator of Voltage Park: bare-metal rentals, virtual machines with port forwards, storage, and their cost. */
import { bootMachine, type BootedMachine } from '../booted.ts'
import { Fleet, uuidOf, type FleetOptions, type Machine } from '../fleet.ts'
import { routesBelow, SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { voltageParkDescription } from './description.ts'
import {
  NODE_GPUS,
  nodeSpecs,
  rentalRate,
  resourcesOf,
  showRental,
  showVm,
  vmRate,
  type SimDetails,
  type SimLocation,
  type SimPreset,
  type SimRental,
  type SimType,
  type SimVm,
} from './machines.ts'
import { scriptOf, type MetalOrder, type VmOrder } from './order.ts'
import { SimStorages } from './storage.ts'

const FIRST_PORT = 20_000
const DEFAULT_PAGE = 3
/** Below it are the ids of places. */
const FIRST_ID = 0x100

export class VoltageParkSim extends Fleet<SimType, SimDetails> {
  readonly server: SimServer
  readonly apiToken = 'sim-voltage-park-token'
  readonly locations: SimLocation[] = [
    {
      id: uuidOf(0xa1),
      gpus: { ethernet: 64, infiniband: 64 },
      prices: { ethernet: '1.99', infiniband: '2.49' },
    },
  ]
  readonly presets: SimPreset[] = defaultPresets()
  readonly storages: SimStorages
  /** Ports of the host that can still be forwarded. */
  freePorts = 100

  constructor(options: FleetOptions) {
    const formatId = (number: number): string => uuidOf(FIRST_ID + number)
    super(options, { billedFrom: 'order', lossRemoves: false, formatId })
    this.storages = new SimStorages({
      now: () => this.now(),
      newId: () => this.newId(),
      isListed: (createdAt) => this.isListed(createdAt),
      isRental: (id) => this.#rentals().some((rental) => rental.id === id),
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

  leftovers(): string[] {
    return [
      ...this.#rentals().map(({ name }) => `rental ${name}`),
      ...this.#vms().map(({ name }) => `vm ${name}`),
      ...this.storages.all().map(({ name }) => `storage ${name}`),
    ]
  }

  booted(name: string): BootedMachine | undefined {
    const one = this.alive().find((machine) => machine.name === name)
    if (one === undefined || this.now() < one.readyAt) return undefined
    return bootMachine(one.kind === 'vm' ? 'user' : 'ubuntu', { keys: one.keys, text: one.script })
  }

  /** For new and running machines. */
  setMetalPrice(network: 'ethernet' | 'infiniband', price: string): void {
    for (const location of this.locations) location.prices[network] = price
    for (const rental of this.#rentals().filter((one) => one.network === network))
      this.reprice((one) => one === rental, rentalRate(price, rental.nodes))
  }

  /** For new and running machines. */
  setVmPrice(presetId: string, compute: string): void {
    for (const preset of this.presets.filter(({ id }) => id === presetId)) {
      preset.compute = compute
      this.reprice((one) => one.type === preset, vmRate(preset))
    }
  }

  #rentals(): SimRental[] {
    return this.alive().filter(isRental)
  }

  #vms(): SimVm[] {
    return this.alive().filter(isVm)
  }

  #findVm(id: string | undefined): SimVm | undefined {
    return this.#vms().find((one) => one.id === id)
  }

  #authorize({ headers }: SimRequest): SimAnswer | undefined {
    if (headers.authorization !== `Bearer ${this.apiToken}`) return failure(401, 'Invalid token')
    return this.suspended ? failure(403, 'Organization is not active') : undefined
  }

  #routes(): SimRoute[] {
    const route = routesBelow('/api/v1')
    return [
      route('getOrganization', 'GET', '/organization/', () => ({
        status: 200,
        body: {
          id: uuidOf(0x0a),
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
          this.listed()
            .filter(isRental)
            .map((one) => showRental(one, this.now(), this.storages.of(one.id), this.runningState)),
        ),
      ),
      route('terminateMetal', 'DELETE', '/bare-metal/:id', ({ params }) =>
        this.#terminate(this.#rentals().find(({ id }) => id === params.id)),
      ),
      route('deployVm', 'POST', '/virtual-machines/instant', ({ body }) => this.#deployVm(body as VmOrder)),
      route('listVms', 'GET', '/virtual-machines/', (request) =>
        pageOf(
          request,
          this.listed()
            .filter(isVm)
            .map((one) => showVm(one, this.now(), hostOf(one.type), this.runningState)),
        ),
      ),
      route('terminateVm', 'DELETE', '/virtual-machines/:id', ({ params }) => this.#terminate(this.#findVm(params.id))),
      route('forwardPort', 'POST', '/virtual-machines/:id/port-forward', ({ params, body }) =>
        this.#forward(this.#findVm(params.id), body as SimVm['forwards'][number]),
      ),
      route('getHostNode', 'GET', '/hostnodes/:id', ({ params }) => ({
        status: 200,
        body: { id: params.id, location_id: this.locations[0]?.id, available_ports: this.#availablePorts() },
      })),
    ]
  }

  #deployMetal({ location_id, gpu_count, network_type: network, suborder, ...order }: MetalOrder): SimAnswer {
    const location = this.locations.find(({ id }) => id === location_id)
    if (location === undefined || this.#freeGpus(location, network) < gpu_count)
      return failure(400, 'Not enough GPUs are available at this location')
    const nodes = gpu_count / NODE_GPUS
    const { name, tags = [], ssh_keys: keys = [] } = order
    const rental = this.order(
      { name, type: location, place: network, nanoPerHour: rentalRate(location.prices[network], nodes) },
      { kind: 'metal', tags, keys, script: scriptOf(order.cloudinit_script), network, nodes, suborder },
    )
    return { status: 201, body: { rental_id: rental.id, warning: null } }
  }

  #deployVm({ config_id, name, tags = [], ssh_keys: keys = [], cloud_init }: VmOrder): SimAnswer {
    const preset = this.presets.find(({ id }) => id === config_id)
    if (preset === undefined || this.#freeVms(preset) < 1) return failure(400, 'No host has room for this preset')
    const forwards = [{ internal_port: 22, external_port: this.#availablePorts()[0] ?? 0 }]
    const vm = this.order(
      { name, type: preset, place: preset.location, nanoPerHour: vmRate(preset) },
      { kind: 'vm', tags, keys, script: scriptOf(cloud_init), forwards },
    )
    return { status: 201, body: { vm_id: vm.id } }
  }

  #terminate(one: SimRental | SimVm | undefined): SimAnswer {
    if (one === undefined) return failure(404, 'Not Found')
    if (this.takeRefusal()) return failure(400, 'The rental cannot be terminated now')
    this.end(one)
    this.storages.forget(one.id)
    return { status: 204 }
  }

  #forward(vm: SimVm | undefined, forward: SimVm['forwards'][number]): SimAnswer {
    if (vm === undefined) return failure(404, 'Not Found')
    const isTaken = vm.forwards.some(({ internal_port }) => internal_port === forward.internal_port)
    if (isTaken || !this.#availablePorts().includes(forward.external_port))
      return failure(400, 'The port is not available')
    vm.forwards.push(forward)
    return { status: 201, body: forward }
  }

  #availablePorts(): number[] {
    const used = new Set(this.#vms().flatMap(({ forwards }) => forwards.map((one) => one.external_port)))
    const all = Array.from({ length: this.freePorts }, (_, n) => FIRST_PORT + n)
    return all.filter((port) => !used.has(port))
  }

  #freeGpus(location: SimLocation, network: 'ethernet' | 'infiniband'): number {
    const used = this.#rentals().filter((one) => one.type === location && one.network === network)
    return location.gpus[network] - used.reduce((sum, { nodes }) => sum + nodes * NODE_GPUS, 0)
  }

  #freeVms(preset: SimPreset): number {
    return preset.capacity - this.#vms().filter((one) => one.type.id === preset.id).length
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
}

function defaultPresets(): SimPreset[] {
  const preset = (n: number, gpus: number, compute: string, operatingSystem = 'Ubuntu 22.04 LTS'): SimPreset => ({
    id: `${n}0000000-0000-4000-8000-000000000001`,
    location: uuidOf(0xa1),
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

function isRental(one: Machine<SimType, SimDetails>): one is SimRental {
  return one.kind === 'metal'
}

function isVm(one: Machine<SimType, SimDetails>): one is SimVm {
  return one.kind === 'vm'
}

function hostOf({ gpus }: SimPreset): string {
  return uuidOf(0xb0 + gpus)
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
