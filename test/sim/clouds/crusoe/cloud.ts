/**
 * A stateful simulator of Crusoe's cloud: signed requests, operations that end later, lists in pages, machines with a boot
 * disk and an address of their own, quotas, InfiniBand partitions. What was ordered matters: the wrong image has no GPUs, a
 * key lets in who was named, and a machine without a say uses up a reservation.
 */
import { createHmac } from 'node:crypto'
import { addMs } from '../../../../src/base/instant.ts'
import { usd } from '../../../../src/base/money.ts'
import { Fleet, type FleetOptions } from '../fleet.ts'
import { json, routesBelow, SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { crusoeDescription } from './description.ts'
import { Fabric } from './fabric.ts'
import { showOperation, showVm, type Operation, type Vm, type VmDetails } from './show.ts'
import {
  defaultTypes,
  familyOf,
  hasDriver,
  LOGIN_USER,
  RESERVATION_DISCOUNT,
  showDisk,
  showType,
  type CrusoeDisk,
  type CrusoeType,
} from './things.ts'

const MAX_AGE_MS = 5 * 60_000
const PAGE_SIZE = 2
const words = {
  booting: 'STATE_INITIALIZING',
  running: 'STATE_RUNNING',
  failed: 'STATE_FAILED',
  lost: 'STATE_DELETED',
  ending: 'STATE_DELETING',
  gone: 'STATE_DELETED',
} as const

export class CrusoeSim extends Fleet<CrusoeType, VmDetails> {
  readonly server: SimServer
  readonly credentials = {
    accessKey: 'sim-crusoe-access-key',
    secretKey: Buffer.from('sim-crusoe-secret-key').toString('base64url'),
    projectId: '0e0e0e0e-0000-4000-8000-000000000001',
    prices: 'h100-80gb-sxm-ib=3.90, l40s-48gb=1.00',
  }
  readonly types = new Map(defaultTypes().map((type) => [type.name, type]))
  /** Nobody sees new machines for so long, though their operation goes on. */
  hiddenMs = 0
  /** Operations of creates without stock fail so late. */
  lateFailureMs = 0
  /** By family: how many machines the project may have. */
  readonly quotas = new Map([
    ['h100-80gb-sxm-ib', 64],
    ['l40s-48gb', 64],
  ])
  /** So many creates without stock leave a boot disk behind. */
  halfMade = 0
  readonly #bootDisks = new Map<string, CrusoeDisk>()
  readonly #operations = new Map<string, Operation>()
  readonly #fabric = new Fabric(() => this.newId())

  constructor(options: FleetOptions) {
    super(options, { billedFrom: 'ready', lossRemoves: true })
    this.server = new SimServer({
      clock: options.clock,
      routes: this.#routes(),
      description: crusoeDescription,
      authorize: (request) => this.#authorize(request),
      notFound: failure(404, 'not_found'),
    })
  }

  leftovers(): string[] {
    return [
      ...this.alive().flatMap(({ name, addressId }) => [`machine ${name}`, `address ${addressId} of ${name}`]),
      ...this.#disks().map(({ name }) => `disk ${name}`),
      ...this.#fabric.names.map((name) => `partition ${name}`),
    ]
  }

  /** An SSH session at a public address. undefined: the machine does not let the key in. */
  logIn(host: string, user: string, key: string): { gpus: number } | undefined {
    const vm = this.alive().find((one) => this.#show(one).network_interfaces[0]?.ips[0]?.public_ipv4.address === host)
    if (vm === undefined || user !== LOGIN_USER) return undefined
    const isAllowed =
      vm.sshKey === key || (vm.script.includes(`'${key}'`) && vm.script.includes(`/home/${LOGIN_USER}/`))
    return isAllowed ? { gpus: hasDriver(vm.type, vm.image) ? vm.type.gpus : 0 } : undefined
  }

  /** The state is not billed. */
  override setState(name: string, state: string): void {
    super.setState(name, state)
    this.reprice((one) => one.name === name, 0n)
  }

  setCapacity(type: string, location: string, count: number): void {
    this.types.get(type)?.capacity.set(location, count)
  }

  #authorize({ headers, raw }: SimRequest): SimAnswer | undefined {
    const { accessKey, secretKey } = this.credentials
    const time = String(headers['x-crusoe-timestamp'] ?? '')
    const [path = '', query = ''] = raw.url.split('?')
    const text = `${path}\n${query.split('&').toSorted().join('&')}\n${raw.method}\n${time}\n`
    const signature = createHmac('sha256', Buffer.from(secretKey, 'base64url')).update(text).digest('base64url')
    const isFresh = Math.abs(Date.parse(time) - this.now()) < MAX_AGE_MS
    if (headers.authorization !== `Bearer 1.0:${accessKey}:${signature}` || !isFresh)
      return failure(401, 'unauthorized')
    return this.suspended ? failure(403, 'forbidden') : undefined
  }

  #routes(): SimRoute[] {
    const project = `/v1/projects/${this.credentials.projectId}`
    const vms = `${project}/compute/vms`
    const route = routesBelow('')
    return [
      route('listTypes', 'GET', `/v1/projects/:project/compute/vms/types`, () =>
        json({ items: [...this.types.values()].map(showType) }),
      ),
      route('listCapacities', 'GET', '/v1/capacities', () => json({ items: this.#capacities() })),
      route('listQuotas', 'GET', `${project}/quotas`, () =>
        json({ quotas: [...this.quotas.keys()].map((family) => this.#quota(family)) }),
      ),
      route('listNetworks', 'GET', `${project}/networking/ib-networks`, () => this.#fabric.listNetworks(this.#rooms())),
      route('listPartitions', 'GET', `${project}/networking/ib-partitions`, () => this.#fabric.list()),
      route('createPartition', 'POST', `${project}/networking/ib-partitions`, ({ body }) =>
        this.#fabric.create(body as Parameters<Fabric['create']>[0]),
      ),
      route('deletePartition', 'DELETE', `${project}/networking/ib-partitions/:id`, ({ params }) =>
        this.#fabric.remove(
          params.id ?? '',
          this.alive().flatMap(({ partitionId }) => partitionId ?? []),
        ),
      ),
      route('listInstances', 'GET', `/v1/projects/:project/compute/vms/instances`, ({ query }) => this.#list(query)),
      route('createInstance', 'POST', `${vms}/instances`, ({ body }) => this.#create(body as CreateBody)),
      route('listOperations', 'GET', `${vms}/instances/operations`, ({ query }) => {
        const shown = [...this.#operations.values()].map((one) => showOperation(one, this.now()))
        const [id, state] = [query.get('resource_id'), query.get('state')]
        return json({ items: shown.filter((one) => one.metadata.id === id && one.state === state) })
      }),
      route('getOperation', 'GET', `${vms}/instances/operations/:id`, ({ params }) => {
        const operation = this.#operations.get(params.id ?? '')
        return operation === undefined ? failure(404, 'not_found') : json(showOperation(operation, this.now()))
      }),
      route('getInstance', 'GET', `${vms}/instances/:id`, ({ params }) => {
        const vm = this.find(params.id)
        return vm === undefined || this.#isHidden(vm) ? failure(404, 'not_found') : json(this.#show(vm))
      }),
      route('deleteInstance', 'DELETE', `${vms}/instances/:id`, ({ params }) => this.#delete(params.id ?? '')),
      route('listDisks', 'GET', `${project}/storage/disks`, () => json({ items: this.#disks().map(showDisk) })),
      route('deleteDisk', 'DELETE', `${project}/storage/disks/:id`, ({ params }) => {
        const disk = this.#disks().find(({ id }) => id === params.id)
        if (disk === undefined) return failure(404, 'not_found')
        if (disk.vmId !== undefined) return failure(400, 'bad_request')
        this.#bootDisks.delete(disk.id)
        return this.#start(disk.id, 0, undefined)
      }),
    ]
  }

  #create({ name, type: typeName, location, ...body }: CreateBody): SimAnswer {
    const type = this.types.get(typeName)
    if (type === undefined) return failure(400, 'bad_request')
    const partitionId = body.host_channel_adapters?.[0]?.ib_partition_id
    if (familyOf(typeName).endsWith('-ib') !== this.#fabric.reaches(partitionId, location))
      return failure(400, '400', 'The type and the InfiniBand partition do not fit.')
    if (this.#quota(familyOf(typeName)).available < 1)
      return failure(403, '403', 'The quota of the project is used up.')
    const id = this.newId()
    if (this.free(type, location) < 1) {
      if (this.halfMade > 0) {
        this.halfMade -= 1
        this.#addDisk(`${name}-os`, location, undefined)
      }
      return this.#start(id, this.lateFailureMs, 'out_of_stock')
    }
    const price = usd(type.usdPerHour)
    const usesReservation = body.reservation_specification?.selection_strategy !== 'on_demand'
    const nanoPerHour = usesReservation ? (price * (100n - RESERVATION_DISCOUNT)) / 100n : price
    this.order(
      { id, name, type, place: location, nanoPerHour },
      {
        image: body.image,
        sshKey: body.ssh_public_key,
        script: body.startup_script ?? '',
        partitionId,
        diskId: this.#addDisk(`${name}-os`, location, id),
        addressId: this.newId(),
      },
    )
    return this.#start(id, this.bootMs / 2, undefined)
  }

  #delete(id: string): SimAnswer {
    const vm = this.find(id)
    if (vm === undefined || this.#isHidden(vm)) return failure(404, 'not_found')
    const isBusy = [...this.#operations.values()].some((one) => one.resourceId === id && one.endsAt > this.now())
    if (isBusy) return failure(400, 'bad_request')
    if (this.takeRefusal()) return this.#start(id, 0, 'internal_error')
    this.end(vm)
    return this.#start(id, this.destroyMs, undefined)
  }

  #start(resourceId: string, takesMs: number, failed: string | undefined): SimAnswer {
    const now = this.now()
    const operation = { id: this.newId(), resourceId, startedAt: now, endsAt: addMs(now, takesMs), failure: failed }
    this.#operations.set(operation.id, operation)
    // The answer never says that it has ended already.
    return json({
      operation: { ...showOperation(operation, this.now()), state: 'IN_PROGRESS', result: null, completed_at: '' },
    })
  }

  #addDisk(name: string, location: string, vmId: string | undefined): string {
    const id = this.newId()
    this.#bootDisks.set(id, { id, name, location, createdAt: this.now(), vmId })
    return id
  }

  /** The disk of a machine ends with it. */
  #disks(): CrusoeDisk[] {
    return [...this.#bootDisks.values()].filter(({ vmId }) => vmId === undefined || this.find(vmId) !== undefined)
  }

  /** In pages; the token is where the next one begins. */
  #list(query: URLSearchParams): SimAnswer {
    const shown = this.listed().filter((vm) => !this.#isHidden(vm))
    const from = Number.parseInt(Buffer.from(query.get('next_token') ?? '', 'base64').toString() || '0', 10)
    const until = from + Math.min(PAGE_SIZE, Number.parseInt(query.get('limit') ?? '100', 10))
    const next = until < shown.length ? Buffer.from(String(until)).toString('base64') : ''
    const items = shown.slice(from, until).map((vm) => this.#show(vm))
    return json({ items, next_page_token: next, prev_page_token: '' })
  }

  #isHidden({ createdAt }: Vm): boolean {
    return this.now() < addMs(createdAt, this.hiddenMs)
  }

  /** A place has an entry for each way to buy there: here none by a contract, and those on demand. */
  #capacities() {
    return this.#rooms(() => true).flatMap(({ type, location, gpus, machines }) =>
      [
        { quantity: 0, quota_type: 'QUOTA_TYPE_CONTRACT' },
        { quantity: machines, quota_type: 'QUOTA_TYPE_ON_DEMAND' },
      ].map((entry) => ({ ...entry, type, location, num_slices: machines === 0 ? 0 : gpus / machines })),
    )
  }

  /** The free GPUs of types, those with InfiniBand unless told otherwise. */
  #rooms(isIncluded = (family: string): boolean => family.endsWith('-ib')) {
    return [...this.types.values()]
      .filter(({ name }) => isIncluded(familyOf(name)))
      .flatMap((type) =>
        [...type.capacity.keys()].map((location) => {
          const machines = Math.max(0, this.free(type, location))
          return { type: type.name, location, machines, gpus: machines * type.gpus }
        }),
      )
  }

  #quota(family: string) {
    const max = this.quotas.get(family) ?? 0
    const used = this.alive().filter(({ type }) => familyOf(type.name) === family).length
    return { programmatic_name: family, category: 'Instances', available: Math.max(0, max - used), used, max }
  }

  #show(vm: Vm) {
    return showVm(vm, this.stateOf(vm, words), this.credentials.projectId)
  }
}

interface CreateBody {
  readonly name: string
  readonly type: string
  readonly location: string
  readonly image: string
  readonly ssh_public_key: string
  readonly startup_script?: string
  readonly host_channel_adapters?: ReadonlyArray<{ readonly ib_partition_id: string }>
  readonly reservation_specification?: { readonly selection_strategy: string }
}

function failure(status: number, code: string, message = `Refused: ${code}.`): SimAnswer {
  return { status, body: { code, message } }
}
