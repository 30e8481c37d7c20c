/**
 * Orders for marketplace machines that arrive at the same time, placed in one transaction. An order alone takes seven
 * round trips and some forty statements; in a batch of thirty its share of PostgreSQL's time is a tenth of that.
 *
 * A batch refuses only what the order and its machine rule out by themselves. What else it does not place (too little
 * money, a GPU that another order took, an option that needs a look at the database …) is `undefined` here and goes
 * through `createInstance`, which knows all reasons. Orders of one batch have different machines; batches that run at
 * the same time have different accounts too.
 */
import { setImmediate, setTimeout } from 'node:timers'
import type { Instant } from '../../base/instant.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { InstanceOrder } from '../../domain/order.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { endIdempotencies, startIdempotencies } from '../../store/platform/idempotency.ts'
import { readOrderedMachines, type OrderedMachine } from '../../store/machine/machine.ts'
import { isBadBatch, placeOrders, type BatchedOrder, type PlacedOrder } from '../../store/rental/order-batch.ts'
import type { Actor, App, Once, OrderQueue } from '../app.ts'
import { hashRequest, sealResponse } from '../idempotency.ts'
import { checkOrder } from './check-order.ts'
import { readNode, siteOf } from './marketplace.ts'
import { needsSshKey, recordOrder } from './place-order.ts'
import { readPlainOrder } from './read-order.ts'

const MAX_ORDERS = 32
/** While a batch runs, only a full one is started beside it: the start of a batch costs as much as six orders. */
const MAX_BATCHES = 4
/** After this, others no longer wait for a batch: something holds it up. */
const SLOW_BATCH_MS = 250
/** Further orders are placed alone, each in its turn for a connection. */
const MAX_WAITING = 1_000

interface Waiting {
  readonly actor: Actor
  readonly order: InstanceOrder
  readonly once: Once
  /** No other order of its batch, or of one that runs at the same time, has one of these. */
  readonly own: readonly string[]
  /** The response, to be stored for the idempotency key. */
  readonly respond: (placed: PlacedOrder) => unknown
  readonly resolve: (outcome: Result<PlacedOrder> | undefined) => void
  readonly reject: (error: unknown) => void
}

interface Planned extends BatchedOrder {
  readonly waiting: Waiting
}

type Outcomes = ReadonlyMap<Waiting, Result<PlacedOrder>>

export class OrderBatches implements OrderQueue {
  readonly #app: App
  #waiting: Waiting[] = []
  /** Accounts, machines and idempotency keys of the batches that run. */
  readonly #busy = new Set<string>()
  #running = 0
  /** Running batches that are not slow yet. */
  readonly #fresh = new Set<readonly Waiting[]>()
  #isScheduled = false

  constructor(app: App) {
    this.#app = app
  }

  place(
    actor: Actor,
    once: Once,
    order: InstanceOrder,
    respond: (placed: PlacedOrder) => unknown,
  ): Promise<Result<PlacedOrder> | undefined> {
    if (this.#waiting.length >= MAX_WAITING || !isPlain(order)) return Promise.resolve(undefined)
    const machine = `machine:${order.nodeName}`
    const own = once.key === undefined ? [machine] : [machine, `key:${actor.accountId}:${once.key}`]
    return new Promise((resolve, reject) => {
      this.#waiting.push({ actor, order, once, own, respond, resolve, reject })
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
    const least = this.#fresh.size === 0 ? 1 : MAX_ORDERS
    if (this.#waiting.length < least) return
    const batch: Waiting[] = []
    const rest: Waiting[] = []
    const taken = new Set(this.#busy)
    for (const one of this.#waiting) {
      const isFree = !this.#busy.has(accountOf(one)) && !one.own.some((name) => taken.has(name))
      if (!isFree || batch.length === MAX_ORDERS) {
        rest.push(one)
        continue
      }
      for (const name of one.own) taken.add(name)
      batch.push(one)
    }
    if (batch.length < least) return
    this.#waiting = rest
    const names = batch.flatMap((one) => [accountOf(one), ...one.own])
    for (const name of names) this.#busy.add(name)
    this.#running += 1
    this.#fresh.add(batch)
    const slow = setTimeout(() => {
      this.#fresh.delete(batch)
      this.#schedule()
    }, SLOW_BATCH_MS)
    void this.#run(batch).finally(() => {
      clearTimeout(slow)
      for (const name of names) this.#busy.delete(name)
      this.#running -= 1
      this.#fresh.delete(batch)
      if (this.#waiting.length > 0) this.#schedule()
    })
  }

  async #run(batch: readonly Waiting[]): Promise<void> {
    try {
      const outcomes = await this.#place(batch)
      for (const one of batch) one.resolve(outcomes.get(one))
    } catch (error) {
      if (!isBadBatch(error)) return batch.forEach(({ reject }) => reject(error))
      this.#app.warn?.(error, 'a batch of orders failed; placing them one by one')
      batch.forEach(({ resolve }) => resolve(undefined))
    }
  }

  async #place(batch: readonly Waiting[]): Promise<Outcomes> {
    const { database, clock } = this.#app
    const machines = await readOrderedMachines(
      database.db,
      batch.map(({ order }) => order.nodeName),
    )
    const now = clock.now()
    const outcomes = new Map<Waiting, Result<PlacedOrder>>()
    const planned: Planned[] = []
    for (const waiting of batch) {
      const plan = checkAlone(this.#app, waiting, machines.get(waiting.order.nodeName), now)
      if (plan?.ok === true) planned.push({ ...plan.value, waiting })
      // A key may have a response already.
      else if (plan !== undefined && waiting.once.key === undefined) outcomes.set(waiting, plan)
    }
    if (planned.length === 0) return outcomes
    const placed = await transact(database, (tx) => this.#write(tx, planned))
    for (const [waiting, rental] of placed) outcomes.set(waiting, ok(rental))
    return outcomes
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
    const isStarted = await startIdempotencies(tx, keyed)
    const orders = planned.filter(
      ({ actor, waiting: { once } }) => once.key === undefined || isStarted(actor.accountId, once.key),
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
        const response = rental && sealResponse(this.#app, waiting.once, waiting.respond(rental))
        return [{ accountId: actor.accountId, key, responseSealed: response }]
      }),
    )
    return written
  }
}

function accountOf({ actor }: Waiting): string {
  return `account:${actor.accountId}`
}

/** Whether its machine and its account are all that has to be read. */
function isPlain(order: InstanceOrder): boolean {
  const { templateId, secrets, volumes = [], registryCredentialId, stopAt, idle, metadata } = order
  const others = [templateId, secrets, registryCredentialId, stopAt, idle, metadata]
  return volumes.length === 0 && others.every(isAbsent)
}

function isAbsent(value: unknown): boolean {
  return value === undefined
}

/** Goes as far as `createInstance` goes without the account. undefined: there is more to read. */
function checkAlone(
  app: App,
  { actor, order: given }: Waiting,
  machine: OrderedMachine | undefined,
  now: Instant,
): Result<BatchedOrder> | undefined {
  const node = readNode(app, given, machine)
  if (!node.ok) return node
  const draft = readPlainOrder('container', { order: given, templateId: null, minVramGb: 0 }, now)
  if (!draft.ok) return draft
  if (draft.value.options.secretNames.length > 0) return undefined
  const order = checkOrder(app, draft.value, siteOf(draft.value, node.value, now), now)
  if (!order.ok) return order
  const price = node.value.price_nano_per_gpu_hour
  return ok({ actor, order: order.value, price, needsSshKey: needsSshKey(app, order.value.spec) })
}
