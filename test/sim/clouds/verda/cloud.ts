/** A stateful simulator of Verda's cloud: tokens, instances, disks with a trash that costs, SSH keys, scripts. */
import { addMs, type Clock, type Instant } from '../../../../src/base/instant.ts'
import { usd, usdToNumber } from '../../../../src/base/money.ts'
import { bootMachine, type BootedMachine } from '../booted.ts'
import { SimServer, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { verdaDescription } from './description.ts'
import { DISK_PER_GB_MONTH, showHardware, VerdaWorld, type VerdaInstance } from './world.ts'

export interface VerdaSimOptions {
  readonly clock: Clock
  readonly clientId?: string
  readonly clientSecret?: string
  readonly bootMs?: number
  readonly destroyMs?: number
  readonly tokenLifetimeMs?: number
  readonly listLagMs?: number
}

interface Named {
  readonly id: string
  readonly name: string
  readonly content: string
}

const IMAGES = ['ubuntu-22.04-cuda-12.4-docker', 'ubuntu-24.04-cuda-12.8-open-docker', 'ubuntu-24.04', 'debian-12']

export class VerdaSim {
  readonly server: SimServer
  readonly world: VerdaWorld
  /** Machines of the next creates never run. */
  bootsFail = 0
  /** For machines of the next creates, the vendor finds no room after it has accepted the order. */
  roomless = 0
  /** The vendor ends machines of the next creates so long after they were ready, and keeps their disks in the trash. */
  discontinueAfterMs = 0
  /** So many deletions are refused. */
  deleteRefusals = 0
  /** Instances are missing from the list for so long after their create. */
  listLagMs: number
  suspended = false
  readonly #options: Required<VerdaSimOptions>
  readonly #keys = new Map<string, Named>()
  readonly #scripts = new Map<string, Named>()
  readonly #tokens = new Map<string, Instant>()
  #tokenCount = 0

  constructor(options: VerdaSimOptions) {
    this.#options = {
      clientId: 'sim-verda-client',
      clientSecret: 'sim-verda-secret',
      bootMs: 20_000,
      destroyMs: 5_000,
      tokenLifetimeMs: 3_600_000,
      listLagMs: 0,
      ...options,
    }
    this.listLagMs = this.#options.listLagMs
    this.world = new VerdaWorld(options.clock)
    this.server = new SimServer({
      clock: options.clock,
      routes: this.#routes(),
      description: verdaDescription,
      authorize: (request) => this.#authorize(request),
      notFound: failure(404, 'not_found', 'Not found'),
      rate: { everyMs: 200 },
    })
  }

  get credentials(): { clientId: string; clientSecret: string } {
    const { clientId, clientSecret } = this.#options
    return { clientId, clientSecret }
  }

  /** Everything that exists or costs money now, by its name. */
  leftovers(): string[] {
    const disks = [...this.world.disks.values()].filter(({ isGone }) => !isGone)
    return [
      ...this.world.living().map(({ tag }) => `instance ${tag}`),
      ...disks.map(({ name, trashedAt }) => `${trashedAt === undefined ? 'disk' : 'trashed disk'} ${name}`),
      ...[...this.#keys.values()].map(({ name }) => `key ${name}`),
      ...[...this.#scripts.values()].map(({ name }) => `script ${name}`),
    ]
  }

  /** How many instances were ever created under a name. */
  launches(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { tag } of this.world.instances.values()) counts.set(tag, (counts.get(tag) ?? 0) + 1)
    return counts
  }

  /** The vendor's bill by instance with its disk, as of now. */
  bills(): Array<{ id: string; name: string; nanoUsd: bigint }> {
    this.world.settle()
    const now = this.world.now()
    return [...this.world.instances.values()].map(({ id, tag, bill, diskId }) => {
      const disk = this.world.disks.get(diskId)?.bill.nanoUsd(now) ?? 0n
      return { id, name: tag, nanoUsd: bill.nanoUsd(now) + disk }
    })
  }

  booted(tag: string): BootedMachine | undefined {
    const one = this.world.living().find((instance) => instance.tag === tag)
    if (one === undefined || this.world.stateOf(one) !== 'running') return undefined
    const keys = one.keys.flatMap((id) => this.#keys.get(id)?.content ?? [])
    return bootMachine('root', { keys, text: this.#scripts.get(one.script ?? '')?.content ?? '' })
  }

  /** Turns all machines off, as in the vendor's console. */
  turnOff(): void {
    for (const one of this.world.living()) one.isOff = true
  }

  setCapacity(type: string, location: string, count: number): void {
    this.world.types.get(type)?.capacity.set(location, count)
  }

  /** For new and running instances. */
  setPrice(name: string, usdPerHour: string): void {
    const type = this.world.types.get(name)
    if (type === undefined) return
    type.usdPerHour = usdPerHour
    for (const one of this.world.living().filter((instance) => instance.type === type)) {
      one.usdPerHour = usdPerHour
      one.bill.setPrice(this.world.now(), usd(usdPerHour))
    }
  }

  /** No token is valid any more. */
  revokeTokens(): void {
    this.#tokens.clear()
  }

  #authorize({ headers, raw }: SimRequest): SimAnswer | undefined {
    if (raw.url === '/v1/oauth2/token') return undefined
    const until = this.#tokens.get((headers.authorization ?? '').replace(/^Bearer /, ''))
    if (until === undefined || until <= this.world.now()) return failure(401, 'unauthorized_request', 'Invalid token')
    return this.suspended ? failure(403, 'forbidden_action', 'The project is suspended') : undefined
  }

  #routes(): SimRoute[] {
    const { world } = this
    const route = (operation: string, method: SimRoute['method'], path: string, handle: SimRoute['handle']) => ({
      operation,
      method,
      path: `/v1${path}`,
      handle,
    })
    const things = (noun: string, path: string, field: string, map: Map<string, Named>): SimRoute[] => [
      route(`list${noun}s`, 'GET', path, () =>
        json([...map.values()].map(({ id, name, content }) => ({ id, name, [field]: content }))),
      ),
      route(`add${noun}`, 'POST', path, ({ body }) => {
        const { name = '', [field]: content = '' } = body as Record<string, string>
        const id = world.newId()
        map.set(id, { id, name, content })
        return bareId(201, id)
      }),
      route(`delete${noun}`, 'DELETE', `${path}/:id`, ({ params }) =>
        map.delete(params.id ?? '') ? { status: 200 } : failure(404, 'not_found', 'Not found'),
      ),
    ]
    const disks = () => [...world.disks.values()].filter(({ isGone }) => !isGone)
    return [
      route('createToken', 'POST', '/oauth2/token', ({ body }) => this.#token(body as TokenBody)),
      route('getBalance', 'GET', '/balance', () => json({ amount: 250.5, currency: 'usd' })),
      route('listInstanceTypes', 'GET', '/instance-types', () => json(this.#types())),
      route('listAvailability', 'GET', '/instance-availability', () => json(this.#availability())),
      route('listVolumeTypes', 'GET', '/volume-types', () => {
        const price = { price_per_month_per_gb: usdToNumber(DISK_PER_GB_MONTH), currency: 'usd' }
        return json([{ type: 'NVMe', price, is_shared_fs: false }])
      }),
      route('listImages', 'GET', '/images', () => json(IMAGES.map((name) => showImage(world.newId(), name)))),
      route('listInstances', 'GET', '/instances', () =>
        json(
          world
            .living()
            .filter((one) => addMs(one.createdAt, this.listLagMs) <= world.now())
            .map((one) => world.showInstance(one)),
        ),
      ),
      route('getInstance', 'GET', '/instances/:id', ({ params }) => {
        const one = world.instances.get(params.id ?? '')
        return one === undefined
          ? failure(400, 'invalid_request', 'Invalid instance id')
          : json(world.showInstance(one))
      }),
      route('createInstance', 'POST', '/instances', ({ body }) => this.#create(body as CreateBody)),
      route('actOnInstances', 'PUT', '/instances', ({ body }) => this.#act(body as ActionBody)),
      route('listVolumes', 'GET', '/volumes', () => {
        world.settle()
        return json(
          disks()
            .filter((disk) => disk.trashedAt === undefined)
            .map((disk) => world.showDisk(disk)),
        )
      }),
      route('listTrash', 'GET', '/volumes/trash', () => {
        world.settle()
        return json(
          disks()
            .filter((disk) => disk.trashedAt !== undefined)
            .map((disk) => world.showDisk(disk)),
        )
      }),
      route('actOnVolume', 'PUT', '/volumes', ({ body }) => {
        const { id, is_permanent: isPermanent = false } = body as { id: string; is_permanent?: boolean }
        const disk = disks().find((one) => one.id === id)
        if (disk === undefined) return failure(404, 'not_found', 'Not found')
        if (disk.instanceId !== null) return failure(400, 'invalid_request', 'The volume is attached')
        if (isPermanent) world.purge(id, world.now())
        else world.trash(id, world.now())
        return { status: 202 }
      }),
      ...things('Key', '/ssh-keys', 'key', this.#keys),
      ...things('Script', '/scripts', 'script', this.#scripts),
    ]
  }

  #token({ client_id, client_secret }: TokenBody): SimAnswer {
    const { clientId, clientSecret, tokenLifetimeMs } = this.#options
    if (client_id !== clientId || client_secret !== clientSecret)
      return failure(401, 'unauthorized_request', 'Invalid client id or client secret')
    this.#tokenCount += 1
    const token = `sim-verda-token-${this.#tokenCount}`
    this.#tokens.set(token, addMs(this.world.now(), tokenLifetimeMs))
    return json({
      access_token: token,
      refresh_token: `${token}-refresh`,
      token_type: 'Bearer',
      expires_in: tokenLifetimeMs / 1_000,
      scope: 'cloud-api-v1',
    })
  }

  #create(body: CreateBody): SimAnswer {
    const { world } = this
    const type = world.types.get(body.instance_type)
    const hasCompanions =
      body.ssh_key_ids.every((id) => this.#keys.has(id)) &&
      (body.startup_script_id === undefined || this.#scripts.has(body.startup_script_id))
    if (type === undefined || !hasCompanions || !IMAGES.includes(body.image))
      return failure(400, 'invalid_request', 'Invalid input')
    if (world.free(type, body.location_code) < 1)
      return failure(400, 'invalid_request', 'Not enough resources for the instance type')
    const now = world.now()
    const readyAt = addMs(now, this.#options.bootMs)
    // An image without GPU driver boots, and never passes the checks of the vendor.
    const bootFails = this.bootsFail > 0 || !body.image.includes('cuda')
    if (this.bootsFail > 0) this.bootsFail -= 1
    const lacksRoom = this.roomless > 0
    if (lacksRoom) this.roomless -= 1
    const { id } = world.add(
      {
        tag: body.description,
        type,
        location: body.location_code,
        image: body.image,
        keys: body.ssh_key_ids,
        script: body.startup_script_id ?? null,
        createdAt: now,
        readyAt,
        usdPerHour: body.pricing === 'DYNAMIC_PRICE' ? `${type.usdPerHour}9` : type.usdPerHour,
        bootFails,
        lacksRoom,
        contract: body.contract ?? 'LONG_TERM',
        pricing: body.pricing ?? 'DYNAMIC_PRICE',
        isOff: false,
        discontinuedAt: this.discontinueAfterMs === 0 ? undefined : addMs(readyAt, this.discontinueAfterMs),
        goneAt: undefined,
      },
      body.os_volume.size,
    )
    return bareId(202, id)
  }

  #act({ id: [id = ''], action, volume_ids: volumes, delete_permanently: isPermanent = false }: ActionBody): SimAnswer {
    const { world } = this
    const one = world.instances.get(id)
    if (one === undefined || action !== 'delete') return failure(400, 'invalid_request', 'Invalid instance id')
    const state = world.stateOf(one)
    if (state === 'deleting' || state === 'discontinued')
      return failure(403, 'forbidden_action', "Can't discontinue a discontinued instance")
    if (state === 'ordered' || state === 'provisioning')
      return failure(403, 'forbidden_action', "Can't discontinue a provisioning instance")
    if (this.deleteRefusals > 0) {
      this.deleteRefusals -= 1
      const error = 'The action failed'
      return { status: 207, body: [{ action, instanceId: id, status: 'error', error, statusCode: 500 }] }
    }
    const now = world.now()
    world.end(one, now, this.#options.destroyMs)
    // Without a list, the boot disk goes to the trash; disks that are not in the list stay.
    if (volumes === undefined) world.trash(one.diskId, now)
    else if (volumes.includes(one.diskId) && isPermanent) world.purge(one.diskId, now)
    else if (volumes.includes(one.diskId)) world.trash(one.diskId, now)
    return { status: 202, body: [{ action, instanceId: id, status: 'success', statusCode: 202 }] }
  }

  #types() {
    return [...this.world.types.values()].map((type) => ({
      id: this.world.newId(),
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
    const types = [...this.world.types.values()]
    return ['FIN-01', 'FIN-02', 'FIN-03', 'ICE-01'].map((location) => ({
      location_code: location,
      availabilities: types.filter((type) => this.world.free(type, location) > 0).map(({ name }) => name),
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
  readonly contract?: VerdaInstance['contract']
  readonly pricing?: VerdaInstance['pricing']
}

interface ActionBody {
  readonly id: readonly string[]
  readonly action: string
  readonly volume_ids?: readonly string[]
  readonly delete_permanently?: boolean
}

function json(body: unknown): SimAnswer {
  return { status: 200, body }
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
