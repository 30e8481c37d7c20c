/**
 * Orders for marketplace machines that arrive at the same time, placed in one transaction. An order alone takes seven
 * round trips and some forty statements; in a batch of sixteen its share of PostgreSQL's time is a quarter of that.
 *
 * A batch never refuses: what it does not place (too little money, no GPU free, an option that needs a look at the
 * database …) is `undefined` here and goes through `createInstance`, which knows all reasons. Orders of one batch have
 * different accounts and machines, and so do batches that run at the same time.
 */
import { setImmediate } from 'node:timers'
import type { Instant } from '../base/instant.ts'
import type { InstanceOrder } from '../domain/order.ts'
import { transact, type Tx } from '../store/database.ts'
import { endIdempotencies, startIdempotencies } from '../store/idempotency.ts'
import { readMachines, type Machine } from '../store/machine.ts'
import { isBadBatch, placeOrders, type BatchedOrder, type PlacedOrder } from '../store/order-batch.ts'
import type { Actor, App, Once, OrderQueue } from './app.ts'
import { hashRequest } from './idempotency.ts'
import { planInstance, readNode } from './marketplace.ts'
import { readOwnOptions } from './order-options.ts'
import { needsSshKey, recordOrder, refuseGuards } from './place-order.ts'

const MAX_ORDERS = 32
/** One for PostgreSQL to work on while the next is being prepared. */
const MAX_BATCHES = 2
/** Further orders are placed alone, each in its turn for a connection. */
const MAX_WAITING = 1_000

interface Waiting {
  readonly actor: Actor
  readonly order: InstanceOrder
  readonly once: Once
  /** The response, to be stored for the idempotency key. */
  readonly respond: (placed: PlacedOrder) => unknown
  readonly resolve: (placed: PlacedOrder | undefined) => void
  readonly reject: (error: unknown) => void
}

interface Planned extends BatchedOrder {
  readonly waiting: Waiting
}

export class OrderBatches implements OrderQueue {
  readonly #app: App
  #waiting: Waiting[] = []
  /** Accounts and machines of the batches that run. */
  readonly #busy = new Set<string>()
  #running = 0
  #isScheduled = false

  constructor(app: App) {
    this.#app = app
  }

  place(
    actor: Actor,
    once: Once,
    order: InstanceOrder,
    respond: (placed: PlacedOrder) => unknown,
  ): Promise<PlacedOrder | undefined> {
    if (this.#waiting.length >= MAX_WAITING || !isPlain(order)) return Promise.resolve(undefined)
    return new Promise((resolve, reject) => {
      this.#waiting.push({ actor, order, once, respond, resolve, reject })
      this.#schedule()
    })
  }

  /** After the requests that were read together with this one. */
  #schedule(): void {
    if (this.#isScheduled || this.#running >= MAX_BATCHES) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#start()
    })
  }

  #start(): void {
    const batch: Waiting[] = []
    const rest: Waiting[] = []
    for (const one of this.#waiting) {
      const names = namesOf(one)
      if (batch.length === MAX_ORDERS || names.some((name) => this.#busy.has(name))) {
        rest.push(one)
        continue
      }
      for (const name of names) this.#busy.add(name)
      batch.push(one)
    }
    this.#waiting = rest
    if (batch.length === 0) return
    this.#running += 1
    void this.#run(batch).finally(() => {
      for (const name of batch.flatMap(namesOf)) this.#busy.delete(name)
      this.#running -= 1
      if (this.#waiting.length > 0) this.#schedule()
    })
  }

  async #run(batch: readonly Waiting[]): Promise<void> {
    try {
      const placed = await this.#place(batch)
      for (const one of batch) one.resolve(placed.get(one))
    } catch (error) {
      if (!isBadBatch(error)) return batch.forEach(({ reject }) => reject(error))
      this.#app.warn?.(error, 'a batch of orders failed; placing them one by one')
      batch.forEach(({ resolve }) => resolve(undefined))
    }
  }

  async #place(batch: readonly Waiting[]): Promise<ReadonlyMap<Waiting, PlacedOrder>> {
    const { database, clock } = this.#app
    const machines = await readMachines(
      database.db,
      batch.map(({ order }) => order.nodeName),
    )
    const now = clock.now()
    const planned = batch.flatMap((one) => plan(this.#app, one, machines.get(one.order.nodeName), now) ?? [])
    if (planned.length === 0) return new Map()
    return transact(database, (tx) => this.#write(tx, planned))
  }

  async #write(tx: Tx, planned: readonly Planned[]): Promise<ReadonlyMap<Waiting, PlacedOrder>> {
    const keyed = planned.flatMap(({ waiting: { actor, once } }) =>
      once.key === undefined
        ? []
        : [
            {
              accountId: actor.accountId,
              key: once.key,
              operation: once.operation,
              bodyHash: hashRequest(actor, once),
            },
          ],
    )
    const started = await startIdempotencies(tx, keyed)
    const orders = planned.filter(
      ({ actor, waiting }) => waiting.once.key === undefined || started.has(actor.accountId),
    )
    const placed = orders.length === 0 ? new Map<number, PlacedOrder>() : await placeOrders(tx, orders)
    const written = new Map<Waiting, PlacedOrder>()
    for (const [n, rental] of placed) {
      const one = orders[n]
      if (one === undefined) throw new Error(`there is no order ${n} in the batch`)
      written.set(one.waiting, rental)
      recordOrder(tx, { ...rental, account_id: one.actor.accountId }, one.order)
    }
    await endIdempotencies(
      tx,
      orders.flatMap(({ actor, waiting }) => {
        const rental = written.get(waiting)
        const { key } = waiting.once
        if (key === undefined) return []
        const response = rental && this.#app.vault.seal(JSON.stringify(waiting.respond(rental)))
        return [{ accountId: actor.accountId, key, responseSealed: response }]
      }),
    )
    return written
  }
}

function namesOf({ actor, order }: Waiting): [string, string] {
  return [`account:${actor.accountId}`, `machine:${order.nodeName}`]
}

/** Whether its machine and its account are all that has to be read. */
function isPlain(order: InstanceOrder): boolean {
  const { templateId, volumes = [], registryCredentialId, stopAt, idle, metadata, isManaged } = order
  return volumes.length === 0 && [templateId, registryCredentialId, stopAt, idle, metadata, isManaged].every(isAbsent)
}

function isAbsent(value: unknown): boolean {
  return value === undefined
}

/** undefined: something stands against it. */
function plan(app: App, waiting: Waiting, machine: Machine | undefined, now: Instant): Planned | undefined {
  const { actor, order: wanted } = waiting
  const node = readNode(app, wanted, machine)
  const options = readOwnOptions('container', wanted, null, now)
  if (!node.ok || !options.ok || options.value.secretNames.length > 0) return undefined
  const planned = planInstance(app, wanted, node.value, options.value, now)
  if (!planned.ok || refuseGuards(planned.value.order, now) !== undefined) return undefined
  const { order } = planned.value
  const price = node.value.price_nano_per_gpu_hour
  return { waiting, actor, order, price, needsSshKey: needsSshKey(app, order.spec) }
}
