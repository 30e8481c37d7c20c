/**
 * Types with InfiniBand are created in a partition of an InfiniBand network that has room for them. Each order has its
 * own partition under its tag, so that customers never share one. The partition outlives its machine.
 */
import type { CloudHttp } from '../http.ts'
import * as api from './api.ts'
import { sizeOf } from './price-list.ts'

export function needsPartition(type: string): boolean {
  return /-(?:ib|roce)$/.test(sizeOf(type).family)
}

interface PartitionOrder {
  readonly tag: string
  readonly type: string
  readonly location: string
}

export class Partitions {
  readonly #http: CloudHttp
  /** The path of the project: `/v1/projects/<id>/networking`. */
  readonly #path: string

  constructor(http: CloudHttp, path: string) {
    this.#http = http
    this.#path = path
  }

  /** Returns the id of the partition of an earlier attempt, or of a new one. undefined: no network has room. */
  async ensure({ tag, type, location }: PartitionOrder, signal: AbortSignal): Promise<string | undefined> {
    const existing = (await this.list(signal)).find(({ name }) => name === tag)
    if (existing !== undefined) return existing.id
    const { items } = await this.#http.read(api.networks, { path: `${this.#path}/ib-networks`, signal })
    const network = items.find(
      (one) =>
        one.location === location &&
        one.capacities?.some((room) => room.slice_type === type && room.quantity >= sizeOf(type).gpus),
    )
    if (network === undefined) return undefined
    const body = { name: tag, ib_network_id: network.id }
    const path = `${this.#path}/ib-partitions`
    return (await this.#http.write(api.createdPartition, { method: 'POST', path, body, signal })).id
  }

  async list(signal: AbortSignal): Promise<Array<{ id: string; name: string }>> {
    return (await this.#http.read(api.partitions, { path: `${this.#path}/ib-partitions`, signal })).items
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    const path = `${this.#path}/ib-partitions/${encodeURIComponent(id)}`
    await this.#http.write(api.anything, { method: 'DELETE', path, signal })
  }
}
