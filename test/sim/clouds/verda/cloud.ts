/** A stateful simulator of Verda's cloud: tokens, instances, disks with a trash that costs, SSH keys, scripts. */
import { addMs, toDate, type Instant } from '../../../../src/base/instant.ts'
import { nanoUsdOf, usd, usdToNumber } from '../../../../src/base/money.ts'
import { bootMachine, type BootedMachine } from '../booted.ts'
import { addressTail, Fleet, type FleetOptions, type Machine } from '../fleet.ts'
import { json, routesBelow, SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { SimTokens } from '../tokens.ts'
import { verdaDescription } from './description.ts'
import {
  defaultTypes,
  DISK_PER_GB_MONTH,
  HOURS_PER_MONTH,
  showDisk,
  showHardware,
  VerdaDisks,
  type VerdaType,
} from './things.ts'

interface Details {
  readonly image: string
  readonly keys: readonly string[]
  readonly script: string | null
  readonly diskId: string
  /** The vendor took the order and finds no room for it. It costs nothing then. */
  readonly lacksRoom: boolean
  readonly contract: 'PAY_AS_YOU_GO' | 'LONG_TERM' | 'SPOT'
  readonly pricing: 'FIXED_PRICE' | 'DYNAMIC_PRICE'
}
type Instance = Machine<VerdaType, Details>

interface Named {
  readonly id: string
  readonly name: string
  readonly content: string
}

const IMAGES = ['ubuntu-22.04-cuda-12.4-docker', 'ubuntu-24.04-cuda-12.8-open-docker', 'ubuntu-24.04', 'debian-12']
const TOKEN_LIFETIME_MS = 3_600_000
const ORDERED_MS = 2_000
const words = {
  booting: 'provisioning',
  running: 'running',
  failed: 'error',
  lost: 'discontinued',
  ending: 'deleting',
  gone: 'discontinued',
} as const

export class VerdaSim extends Fleet<VerdaType, Details> {
  readonly server: SimServer
  readonly credentials = { clientId: 'sim-verda-client', clientSecret: 'sim-verda-secret' }
  readonly types = new Map(defaultTypes().map((type) => [type.name, type]))
  /** For machines of the next creates, the vendor finds no room after it has accepted the order. */
  roomless = 0
  readonly #disks = new VerdaDisks(() => this.now())
  readonly #keys = new Map<string, Named>()
  readonly #scripts = new Map<string, Named>()
  readonly #tokens: SimTokens

  constructor(options: FleetOptions) {
    super(options, { billedFrom: 'order', lossRemoves: true })
    this.#tokens = new SimTokens(options.clock, 'sim-verda-token', TOKEN_LIFETIME_MS)
    this.server = new SimServer({
      clock: options.clock,
      routes: this.#routes(),
      description: verdaDescription,
      authorize: (request) => this.#authorize(request),
      notFound: failure(404, 'not_found', 'Not found'),
      rate: { everyMs: 200 },
    })
  }

  leftovers(): string[] {
    return [
      ...this.alive().map(({ name }) => `instance ${name}`),
      ...this.#allDisks().map(({ name, trashedAt }) => `${trashedAt === undefined ? 'disk' : 'trashed disk'} ${name}`),
      ...[...this.#keys.values()].map(({ name }) => `key ${name}`),
      ...[...this.#scripts.values()].map(({ name }) => `script ${name}`),
    ]
  }

  /** Each with its disk. */
  override bills(): Array<{ id: string; name: string; nanoUsd: bigint }> {
    const disks = new Map(this.machines().map(({ id, diskId }) => [id, this.#disks.nanoUsd(diskId)]))
    return super.bills().map((bill) => ({ ...bill, nanoUsd: bill.nanoUsd + (disks.get(bill.id) ?? 0n) }))
  }

  booted(tag: string): BootedMachine | undefined {
    const one = this.alive().find((instance) => instance.name === tag)
    if (one === undefined || this.stateOf(one, words) !== 'running') return undefined
    const keys = one.keys.flatMap((id) => this.#keys.get(id)?.content ?? [])
    return bootMachine('root', { keys, text: this.#scripts.get(one.script ?? '')?.content ?? '' })
  }

  /** Turns all machines off, as in the vendor's console. They are billed as before. */
  turnOff(): void {
    for (const one of this.alive()) one.state = 'offline'
  }

  setCapacity(type: string, location: string, count: number): void {
    this.types.get(type)?.capacity.set(location, count)
  }

  /** For new and running instances. */
  setPrice(name: string, usdPerHour: string): void {
    const type = this.types.get(name)
    if (type === undefined) return
    type.usdPerHour = usdPerHour
    this.reprice((one) => one.type === type, usd(usdPerHour))
  }

  /** No token is valid any more. */
  revokeTokens(): void {
    this.#tokens.revokeAll()
  }

  /** The vendor keeps the disk in the trash. */
  protected override onLoss(one: Instance, at: Instant): void {
    this.#disks.detach(one.diskId)
    this.#disks.trash(one.diskId, at)
  }

  #allDisks(): ReturnType<VerdaDisks['all']> {
    this.machines()
    return this.#disks.all()
  }

  #authorize({ headers, raw }: SimRequest): SimAnswer | undefined {
    if (raw.url === '/v1/oauth2/token') return undefined
    if (!this.#tokens.accept(headers.authorization)) return failure(401, 'unauthorized_request', 'Invalid token')
    return this.suspended ? failure(403, 'forbidden_action', 'The project is suspended') : undefined
  }

  #routes(): SimRoute[] {
    const route = routesBelow('/v1')
    const things = (noun: string, path: string, field: string, map: Map<string, Named>): SimRoute[] => [
      route(`list${noun}s`, 'GET', path, () =>
        json([...map.values()].map(({ id, name, content }) => ({ id, name, [field]: content }))),
      ),
      route(`add${noun}`, 'POST', path, ({ body }) => {
        const { name = '', [field]: content = '' } = body as Record<string, string>
        const id = this.newId()
        map.set(id, { id, name, content })
        return bareId(201, id)
      }),
      route(`delete${noun}`, 'DELETE', `${path}/:id`, ({ params }) =>
        map.delete(params.id ?? '') ? { status: 200 } : failure(404, 'not_found', 'Not found'),
      ),
    ]
    const showDisks = (isTrashed: boolean): SimAnswer =>
      json(
        this.#allDisks()
          .filter((disk) => (disk.trashedAt !== undefined) === isTrashed)
          .map(showDisk),
      )
    return [
      route('createToken', 'POST', '/oauth2/token', ({ body }) => this.#token(body as TokenBody)),
      route('getBalance', 'GET', '/balance', () => json({ amount: 250.5, currency: 'usd' })),
      route('listInstanceTypes', 'GET', '/instance-types', () => json(this.#types())),
      route('listAvailability', 'GET', '/instance-availability', () => json(this.#availability())),
      route('listVolumeTypes', 'GET', '/volume-types', () => {
        const price = { price_per_month_per_gb: usdToNumber(DISK_PER_GB_MONTH), currency: 'usd' }
        return json([{ type: 'NVMe', price, is_shared_fs: false }])
      }),
      route('listImages', 'GET', '/images', () => json(IMAGES.map((name) => showImage(this.newId(), name)))),
      route('listInstances', 'GET', '/instances', () => json(this.listed().map((one) => this.#show(one)))),
      route('getInstance', 'GET', '/instances/:id', ({ params }) => {
        const one = this.machines().find(({ id }) => id === params.id)
        return one === undefined ? failure(400, 'invalid_request', 'Invalid instance id') : json(this.#show(one))
      }),
      route('createInstance', 'POST', '/instances', ({ body }) => this.#create(body as CreateBody)),
      route('actOnInstances', 'PUT', '/instances', ({ body }) => this.#act(body as ActionBody)),
      route('listVolumes', 'GET', '/volumes', () => showDisks(false)),
      route('listTrash', 'GET', '/volumes/trash', () => showDisks(true)),
      route('actOnVolume', 'PUT', '/volumes', ({ body }) => {
        const { id, is_permanent: isPermanent = false } = body as { id: string; is_permanent?: boolean }
        const disk = this.#allDisks().find((one) => one.id === id)
        if (disk === undefined) return failure(404, 'not_found', 'Not found')
        if (disk.instanceId !== null) return failure(400, 'invalid_request', 'The volume is attached')
        if (isPermanent) this.#disks.purge(id, this.now())
        else this.#disks.trash(id, this.now())
        return { status: 202 }
      }),
      ...things('Key', '/ssh-keys', 'key', this.#keys),
      ...things('Script', '/scripts', 'script', this.#scripts),
    ]
  }

  #token({ client_id, client_secret }: TokenBody): SimAnswer {
    if (client_id !== this.credentials.clientId || client_secret !== this.credentials.clientSecret)
      return failure(401, 'unauthorized_request', 'Invalid client id or client secret')
    const token = this.#tokens.issue()
    return json({
      access_token: token,
      refresh_token: `${token}-refresh`,
      token_type: 'Bearer',
      expires_in: TOKEN_LIFETIME_MS / 1_000,
      scope: 'cloud-api-v1',
    })
  }

  #create(body: CreateBody): SimAnswer {
    const { image, description: name, location_code: place, startup_script_id: script = null } = body
    const { contract = 'LONG_TERM', pricing = 'DYNAMIC_PRICE' } = body
    const type = this.types.get(body.instance_type)
    const hasCompanions =
      body.ssh_key_ids.every((id) => this.#keys.has(id)) && (script === null || this.#scripts.has(script))
    if (type === undefined || !hasCompanions || !IMAGES.includes(image))
      return failure(400, 'invalid_request', 'Invalid input')
    if (this.free(type, place) < 1) return failure(400, 'invalid_request', 'Not enough resources for the instance type')
    const lacksRoom = this.roomless > 0
    if (lacksRoom) this.roomless -= 1
    const [id, diskId] = [this.newId(), this.newId()]
    // A long contract is paid for a month in advance, and a dynamic price is what others bid.
    const nanoPerHour = usd(pricing === 'DYNAMIC_PRICE' ? `${type.usdPerHour}9` : type.usdPerHour)
    const prepaidNano = contract === 'LONG_TERM' ? nanoPerHour * HOURS_PER_MONTH : lacksRoom ? 0n : undefined
    this.#disks.add({ id: diskId, name, sizeGb: body.os_volume.size, location: place, instanceId: id })
    this.order(
      {
        id,
        name,
        type,
        place,
        nanoPerHour,
        ...(prepaidNano === undefined ? {} : { prepaidNano }),
        // An image without GPU driver boots, and never passes the checks of the vendor.
        bootFails: !image.includes('cuda'),
      },
      { image, keys: body.ssh_key_ids, script, diskId, lacksRoom, contract, pricing },
    )
    return bareId(202, id)
  }

  #act({ id: [id = ''], action, volume_ids: volumes, delete_permanently: isPermanent = false }: ActionBody): SimAnswer {
    const one = this.machines().find((machine) => machine.id === id)
    if (one === undefined || action !== 'delete') return failure(400, 'invalid_request', 'Invalid instance id')
    const phase = this.phaseOf(one)
    if (phase === 'ending' || phase === 'gone')
      return failure(403, 'forbidden_action', "Can't discontinue a discontinued instance")
    if (phase === 'booting') return failure(403, 'forbidden_action', "Can't discontinue a provisioning instance")
    if (this.takeRefusal()) {
      const error = 'The action failed'
      return { status: 207, body: [{ action, instanceId: id, status: 'error', error, statusCode: 500 }] }
    }
    this.end(one)
    this.#disks.detach(one.diskId)
    // Without a list, the boot disk goes to the trash; disks that are not in the list stay.
    const isListed = volumes?.includes(one.diskId) ?? true
    if (isListed && volumes !== undefined && isPermanent) this.#disks.purge(one.diskId, this.now())
    else if (isListed) this.#disks.trash(one.diskId, this.now())
    return { status: 202, body: [{ action, instanceId: id, status: 'success', statusCode: 202 }] }
  }

  #show(one: Instance) {
    const phase = this.phaseOf(one)
    const isOrdered = phase === 'booting' && addMs(one.createdAt, ORDERED_MS) > this.now()
    const hasNoRoom = one.lacksRoom && (phase === 'running' || phase === 'failed')
    return {
      id: one.id,
      ip: phase === 'running' && !hasNoRoom ? `203.0.${addressTail(one.number)}` : null,
      status: isOrdered ? 'ordered' : hasNoRoom ? 'no_capacity' : this.stateOf(one, words),
      created_at: toDate(one.createdAt).toISOString(),
      ...showHardware(one.type),
      hostname: one.name,
      description: one.name,
      location: one.place,
      price_per_hour: usdToNumber(nanoUsdOf(one.nanoPerHour)),
      is_spot: false,
      instance_type: one.type.name,
      image: one.image,
      os_name: 'Ubuntu 24.04',
      startup_script_id: one.script,
      ssh_key_ids: one.keys,
      os_volume_id: isOrdered ? null : one.diskId,
      contract: one.contract,
      pricing: one.pricing,
      volume_ids: [one.diskId],
    }
  }

  #types() {
    return [...this.types.values()].map((type) => ({
      id: this.newId(),
      instance_type: type.name,
      model: type.gpu,
      name: type.gpu,
      ...showHardware(type),
      price_per_hour: type.usdPerHour,
      spot_price: type.usdPerHour,
      currency: 'usd',
      description: 'Dedicated hardware instance',
    }))
  }

  #availability() {
    const types = [...this.types.values()]
    return ['FIN-01', 'FIN-02', 'FIN-03', 'ICE-01'].map((location) => ({
      location_code: location,
      availabilities: types.filter((type) => this.free(type, location) > 0).map(({ name }) => name),
    }))
  }
}

interface TokenBody {
  readonly client_id: string
  readonly client_secret: string
}

interface CreateBody {
  readonly instance_type: string
  readonly image: string
  readonly description: string
  readonly location_code: string
  readonly ssh_key_ids: readonly string[]
  readonly startup_script_id?: string
  readonly os_volume: { readonly size: number }
  readonly contract?: Details['contract']
  readonly pricing?: Details['pricing']
}

interface ActionBody {
  readonly id: readonly string[]
  readonly action: string
  readonly volume_ids?: readonly string[]
  readonly delete_permanently?: boolean
}

function bareId(status: number, id: string): SimAnswer {
  return { status, body: id, headers: { 'content-type': 'text/plain' } }
}

function showImage(id: string, name: string) {
  return { id, image_type: name, name, is_default: false, is_cluster: false, details: [], category: 'ubuntu' }
}

function failure(status: number, code: string, message: string): SimAnswer {
  return { status, body: { code, message } }
}
