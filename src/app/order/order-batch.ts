/**
 * Orders for marketplace machines that arrive at the same time, placed in one transaction. Most of PostgreSQL's time for an
 * order is the start of its statements; in a batch of thirty its share is a tenth of an order's alone.
 *
 * An order that a batch neither places nor refuses (its account or machine is in use elsewhere, an option needs a look at
 * the database …) is `undefined` here and goes through `createInstance`. Orders of one batch have different machines;
 * batches that run at the same time have different accounts too.
 */
import { setImmediate, setTimeout } from 'node:timers'
import type { Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { InstanceOrder, Order } from '../../domain/order.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { endIdempotencies, startIdempotencies } from '../../store/platform/idempotency.ts'
import { readOrderedMachines, type OrderedMachine } from '../../store/machine/machine.ts'
import { isBadBatch, type PlacedOrder } from '../../store/rental/order.ts'
import type { Actor, App, Once, OrderQueue, Payer } from '../app.ts'
import { hashRequest, sealResponse } from '../idempotency.ts'
import { checkOrder } from './check-order.ts'
import { readNode, siteOf } from './marketplace.ts'
import { placeOrders } from './place-order.ts'
import { readPlainOrder } from './read-order.ts'

const MAX_ORDERS = 32
/** While a batch runs, only a full one is started beside it: the start of a batch costs as much as six orders. */
const MAX_BATCHES = 4
/** After this time, others no longer wait for a batch: something holds it up. */
const SLOW_BATCH_MS = 250
/** Further orders are placed alone, each in its turn for a connection. */
const MAX_WAITING = 1_000

interface Waiting {
  readonly actor: Actor
  readonly order: InstanceOrder
  readonly once: Once
  /** Names that no other order in its batch, or in a batch that runs at the same time, may have. */
  readonly names: readonly string[]
  /** The response, to be stored for the idempotency key. */
  readonly respond: (placed: PlacedOrder) => unknown
  readonly resolve: (outcome: Result<PlacedOrder> | undefined) => void
  readonly reject: (error: unknown) => void
}

interface Checked {
  readonly waiting: Waiting
  readonly payer: Payer
  readonly order: Order
  readonly price: NanoUsd
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
    const names = once.key === undefined ? [machine] : [machine, `key:${actor.accountId}:${once.key}`]
    return new Promise((resolve, reject) => {
      this.#waiting.push({ actor, order, once, names, respond, resolve, reject })
      this.#schedule()
    })
  }

  /** Schedules a batch after the requests that were read together with this one. */
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
    const stillWaiting: Waiting[] = []
    const busyNames = new Set(this.#busy)
    for (const one of this.#waiting) {
      const isFree = !this.#busy.has(accountOf(one)) && !one.names.some((name) => busyNames.has(name))
      if (!isFree || batch.length === MAX_ORDERS) {
        stillWaiting.push(one)
        continue
      }
      for (const name of one.names) busyNames.add(name)
      batch.push(one)
    }
    if (batch.length < least) return
    this.#waiting = stillWaiting
    const names = batch.flatMap((one) => [accountOf(one), ...one.names])
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
    const checked: Checked[] = []
    for (const waiting of batch) {
      const order = checkInBatch(this.#app, waiting, machines.get(waiting.order.nodeName), now)
      if (order?.ok === true) checked.push(order.value)
      // A key may have a response already.
      else if (order !== undefined && waiting.once.key === undefined) outcomes.set(waiting, order)
    }
    if (checked.length === 0) return outcomes
    const placed = await transact(database, (tx) => this.#write(tx, checked))
    return new Map([...outcomes, ...placed])
  }

  async #write(tx: Tx, checked: readonly Checked[]): Promise<Outcomes> {
    const keyed = checked.flatMap(({ waiting: { actor, once } }) => {
      const { key, operation } = once
      if (key === undefined) return []
      return [{ accountId: actor.accountId, key, operation, bodyHash: hashRequest(actor, once) }]
    })
    const isStarted = await startIdempotencies(tx, keyed)
    const orders = checked.filter(
      ({ payer, waiting: { once } }) => once.key === undefined || isStarted(payer.accountId, once.key),
    )
    const answers = orders.length === 0 ? [] : await placeOrders(this.#app, tx, orders)
    const outcomes = new Map<Waiting, Result<PlacedOrder>>()
    const responses: Parameters<typeof endIdempotencies>[1][number][] = []
    for (const [n, { payer, waiting }] of orders.entries()) {
      const answer = answers[n]
      if (answer !== undefined) outcomes.set(waiting, answer)
      const { key } = waiting.once
      if (key === undefined) continue
      // Without a response the key is free again.
      const responseSealed =
        answer?.ok === true ? sealResponse(this.#app, waiting.once, waiting.respond(answer.value)) : undefined
      responses.push({ accountId: payer.accountId, key, responseSealed })
    }
    await endIdempotencies(tx, responses)
    return outcomes
  }
}

function accountOf({ actor }: Waiting): string {
  return `account:${actor.accountId}`
}

/** Whether its machine and its account are all that has to be read. */
function isPlain({ volumes = [], ...order }: InstanceOrder): boolean {
  const { templateId, secrets, registryCredentialId, interruptible, maxWaitSeconds } = order
  const others = [templateId, secrets, registryCredentialId, interruptible, maxWaitSeconds]
  return volumes.length === 0 && others.every((option) => option === undefined)
}

/** Goes as far as `createInstance` goes without the account. undefined: there is more to read. */
function checkInBatch(
  app: App,
  waiting: Waiting,
  machine: OrderedMachine | undefined,
  now: Instant,
): Result<Checked> | undefined {
  const { actor: payer, order: fields } = waiting
  const node = readNode(app, fields, machine)
  if (!node.ok) return node
  const draft = readPlainOrder('container', { order: fields, templateId: null, minVramGb: 0 }, now)
  if (!draft.ok) return draft
  if (draft.value.options.secretNames.length > 0) return undefined
  const order = checkOrder(app, draft.value, siteOf(draft.value, node.value, now), now)
  return order.ok ? ok({ waiting, payer, order: order.value, price: node.value.price_nano_per_gpu_hour }) : order
}
