/** InfiniBand of the simulated Crusoe: a network per location, and the partitions of the project. */
import type { SimAnswer } from '../server.ts'

interface Partition {
  readonly id: string
  readonly name: string
  readonly networkId: string
}

export class Fabric {
  readonly #partitions = new Map<string, Partition>()
  readonly #newId: () => string
  readonly #networks = new Map<string, string>()

  constructor(newId: () => string) {
    this.#newId = newId
  }

  get names(): string[] {
    return [...this.#partitions.values()].map(({ name }) => name)
  }

  /** Whether machines at the location can be in the partition. */
  reaches(partitionId: string | undefined, location: string): boolean {
    const networkId = this.#partitions.get(partitionId ?? '')?.networkId
    return networkId !== undefined && networkId === this.#networks.get(location)
  }

  listNetworks(rooms: ReadonlyArray<{ location: string; type: string; gpus: number }>): SimAnswer {
    const locations = [...new Set(rooms.map(({ location }) => location))]
    const items = locations.map((location) => ({
      id: this.#networkAt(location),
      name: `${location}-network`,
      location,
      capacities: rooms
        .filter((room) => room.location === location)
        .map(({ type, gpus }) => ({ slice_type: type, quantity: gpus })),
    }))
    return { status: 200, body: { items } }
  }

  list(): SimAnswer {
    return { status: 200, body: { items: [...this.#partitions.values()].map(show) } }
  }

  create({ name, ib_network_id: networkId }: { name: string; ib_network_id: string }): SimAnswer {
    if (![...this.#networks.values()].includes(networkId)) return failure(404, 'not_found')
    if (this.names.includes(name)) return failure(400, 'already_exists')
    const partition = { id: this.#newId(), name, networkId }
    this.#partitions.set(partition.id, partition)
    return { status: 200, body: show(partition) }
  }

  /** Not while a machine is in it. */
  remove(id: string, usedIds: readonly string[]): SimAnswer {
    if (usedIds.includes(id)) return failure(400, 'bad_request')
    return this.#partitions.delete(id) ? { status: 204 } : failure(404, 'not_found')
  }

  #networkAt(location: string): string {
    const id = this.#networks.get(location) ?? this.#newId()
    this.#networks.set(location, id)
    return id
  }
}

function show({ id, name, networkId }: Partition) {
  return { id, name, ib_network_id: networkId }
}

function failure(status: number, code: string): SimAnswer {
  return { status, body: { code, message: `Refused: ${code}.` } }
}
