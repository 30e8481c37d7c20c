/** The storage of the simulated Voltage Park: volumes with unique names, attached to rentals. */
import type { Instant } from '../../../../src/base/instant.ts'
import { SimBill } from '../bill.ts'
import { json, routesBelow, type SimAnswer, type SimRequest, type SimRoute } from '../server.ts'
import { NANO_PER_MICRO, showStorage, STORAGE_MICRO_PER_GB, type SimStorage } from './machines.ts'

interface Around {
  readonly now: () => Instant
  readonly newId: () => string
  readonly isListed: (createdAt: Instant) => boolean
  readonly isRental: (id: string) => boolean
}

export class SimStorages {
  /** All volumes together are never larger. */
  roomGb = 100_000
  /** So many deletions are refused. */
  deleteRefusals = 0
  readonly #around: Around
  readonly #volumes = new Map<string, SimStorage>()

  constructor(around: Around) {
    this.#around = around
  }

  all(): SimStorage[] {
    return [...this.#volumes.values()]
  }

  /** The volume of a rental, the first if there are several. */
  of(rentalId: string): string | undefined {
    return this.all().find(({ rentals }) => rentals.includes(rentalId))?.id
  }

  /** The rental has ended. */
  forget(rentalId: string): void {
    for (const volume of this.#volumes.values()) volume.rentals = volume.rentals.filter((id) => id !== rentalId)
  }

  /** The oldest is gone. */
  lose(): void {
    const [oldest] = this.#volumes.keys()
    if (oldest !== undefined) this.#volumes.delete(oldest)
  }

  /** Loses the data of a volume. */
  break(id: string): void {
    const volume = this.#volumes.get(id)
    if (volume !== undefined) volume.broken = true
  }

  routes(pageOf: (request: SimRequest, all: readonly unknown[]) => SimAnswer): SimRoute[] {
    const route = routesBelow('/api/v1/storage')
    const find = ({ params }: SimRequest): SimStorage | undefined => this.#volumes.get(params.id ?? '')
    const listed = (): SimStorage[] => this.all().filter(({ createdAt }) => this.#around.isListed(createdAt))
    return [
      route('createStorage', 'POST', '/', ({ body }) => this.#create(body as StorageOrder)),
      route('listStorage', 'GET', '/', (request) => pageOf(request, listed().map(showStorage))),
      route('getStorage', 'GET', '/:id', (request) => {
        const volume = find(request)
        if (volume === undefined) return failure(404, 'Not Found')
        return json({ ...showStorage(volume), used_capacity_bytes: 0 })
      }),
      route('updateStorage', 'PATCH', '/:id', (request) =>
        this.#update(find(request), request.body as Partial<StorageOrder>),
      ),
      route('deleteStorage', 'DELETE', '/:id', (request) => this.#delete(find(request))),
    ]
  }

  #create({ name, size_in_gb, order_ids }: StorageOrder): SimAnswer {
    if (this.all().some((volume) => volume.name === name)) return failure(400, 'The name is taken')
    if (this.#usedGb() + size_in_gb > this.roomGb) return failure(400, 'Not enough storage is available')
    if (!order_ids.every((id) => this.#around.isRental(id))) return failure(400, 'There is no such rental')
    const createdAt = this.#around.now()
    const volume: SimStorage = {
      id: this.#around.newId(),
      name,
      sizeGb: size_in_gb,
      rentals: [...order_ids],
      createdAt,
      bill: new SimBill(),
      broken: false,
    }
    volume.bill.start(createdAt, rateOf(volume))
    this.#volumes.set(volume.id, volume)
    return { status: 201, body: showStorage(volume) }
  }

  #update(volume: SimStorage | undefined, { size_in_gb, order_ids }: Partial<StorageOrder>): SimAnswer {
    if (volume === undefined) return failure(404, 'Not Found')
    const sizeGb = size_in_gb ?? volume.sizeGb
    if (sizeGb < volume.sizeGb || this.#usedGb() + sizeGb - volume.sizeGb > this.roomGb)
      return failure(400, 'The volume cannot have this size')
    if (order_ids?.every((id) => this.#around.isRental(id)) === false) return failure(400, 'There is no such rental')
    volume.sizeGb = sizeGb
    volume.rentals = order_ids === undefined ? volume.rentals : [...order_ids]
    volume.bill.setPrice(this.#around.now(), rateOf(volume))
    return { status: 200, body: showStorage(volume) }
  }

  #delete(volume: SimStorage | undefined): SimAnswer {
    if (volume === undefined) return failure(404, 'Not Found')
    if (volume.rentals.length > 0) return failure(400, 'The volume is attached to a rental')
    if (this.deleteRefusals > 0) {
      this.deleteRefusals -= 1
      return failure(400, 'The volume cannot be terminated now')
    }
    this.#volumes.delete(volume.id)
    return { status: 204 }
  }

  #usedGb(): number {
    return this.all().reduce((sum, { sizeGb }) => sum + sizeGb, 0)
  }
}

interface StorageOrder {
  readonly name: string
  readonly size_in_gb: number
  readonly order_ids: readonly string[]
}

function rateOf({ sizeGb }: SimStorage): bigint {
  return STORAGE_MICRO_PER_GB * BigInt(sizeGb) * NANO_PER_MICRO
}

function failure(status: number, detail: string): SimAnswer {
  return { status, body: { detail } }
}
