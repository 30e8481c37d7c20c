/**
 * What all cloud simulators share: a fleet of machines that boot, run, fail, get lost and end as time passes, with capacity by
 * type and place, a list that lags, and a bill per machine. A vendor adds its routes, its shapes and its companions.
 */
import { addMs, type Clock, type Instant } from '../../../src/base/instant.ts'
import { SimBill } from './bill.ts'

export interface FleetOptions {
  readonly clock: Clock
  readonly bootMs?: number
  readonly destroyMs?: number
  readonly listLagMs?: number
}

/** How a vendor works. */
interface FleetRules {
  /** Whether a machine costs money from its order on, or once it is ready. */
  readonly billedFrom: 'order' | 'ready'
  /** Whether a lost machine is gone, or stays in the list until it is destroyed. */
  readonly lossRemoves: boolean
  readonly formatId?: (number: number, kind: string) => string
}

export interface FleetType {
  /** By place: how many machines there can be. */
  readonly capacity: Map<string, number>
}

interface MachineOrder<Type> {
  /** A new one by default. */
  readonly id?: string
  readonly name: string
  readonly type: Type
  readonly place: string
  readonly nanoPerHour: bigint
  /** Paid in advance, instead of by the hour. */
  readonly prepaidNano?: bigint
  readonly bootFails?: boolean
}

/** A machine of the fleet, with what only its vendor knows. */
export type Machine<Type, Details> = FleetMachine<Type> & Details

interface FleetMachine<Type> {
  readonly id: string
  /** Counts the orders. */
  readonly number: number
  readonly name: string
  readonly type: Type
  readonly place: string
  readonly createdAt: Instant
  readonly readyAt: Instant
  readonly bootFails: boolean
  readonly isPrepaid: boolean
  readonly bill: SimBill
  nanoPerHour: bigint
  lostAt: Instant | undefined
  endedAt: Instant | undefined
  goneAt: Instant | undefined
  /** Shown while it runs, instead of the vendor's word for it. */
  state: string | undefined
}

export type Phase = 'booting' | 'running' | 'failed' | 'lost' | 'ending' | 'gone'

/** What a test can make go wrong at every vendor. */
export interface FleetFaults {
  /** Machines of so many next orders never run. */
  bootsFail: number
  /** Machines of the next orders are lost so long after they were ready. 0: never. */
  loseAfterMs: number
  /** So many deletions are refused. */
  destroyRefusals: number
  /** Machines are missing from the list for so long after their order. */
  listLagMs: number
  /** Everything that exists or costs money now, by its name. */
  leftovers(): string[]
}

export abstract class Fleet<Type, Details> implements FleetFaults {
  bootsFail = 0
  loseAfterMs = 0
  destroyRefusals = 0
  listLagMs: number
  /** Running machines are shown in this state, which drivers may not know. */
  runningState: string | undefined
  suspended = false
  protected readonly bootMs: number
  protected readonly destroyMs: number
  readonly #clock: Clock
  readonly #rules: FleetRules
  readonly #machines: Array<Machine<Type, Details>> = []
  #ids = 0

  constructor({ clock, bootMs = 20_000, destroyMs = 5_000, listLagMs = 0 }: FleetOptions, rules: FleetRules) {
    this.#clock = clock
    this.#rules = rules
    this.bootMs = bootMs
    this.destroyMs = destroyMs
    this.listLagMs = listLagMs
  }

  abstract leftovers(): string[]

  /** How many machines were ever ordered under a name. */
  launches(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { name } of this.machines()) counts.set(name, (counts.get(name) ?? 0) + 1)
    return counts
  }

  /** The vendor's bill by machine, as of now. */
  bills(): Array<{ id: string; name: string; nanoUsd: bigint }> {
    return this.machines().map(({ id, name, bill }) => ({ id, name, nanoUsd: bill.nanoUsd(this.now()) }))
  }

  /** From now on the machine is in that state while it runs. */
  setState(name: string, state: string): void {
    this.named(name).state = state
  }

  /** All that run are lost now. */
  loseAll(): void {
    for (const one of this.machines()) if (this.phaseOf(one) === 'running') one.lostAt = this.now()
  }

  protected now(): Instant {
    return this.#clock.now()
  }

  protected newId(kind = ''): string {
    this.#ids += 1
    return (this.#rules.formatId ?? uuidOf)(this.#ids, kind)
  }

  protected order(order: MachineOrder<Type>, details: Details): Machine<Type, Details> {
    const { id = this.newId(), name, type, place, nanoPerHour, prepaidNano, bootFails } = order
    const createdAt = this.now()
    const readyAt = addMs(createdAt, this.bootMs)
    const machine = {
      ...details,
      id,
      number: this.#machines.length + 1,
      name,
      type,
      place,
      nanoPerHour,
      createdAt,
      readyAt,
      bootFails: this.#take('bootsFail') || bootFails === true,
      lostAt: this.loseAfterMs === 0 ? undefined : addMs(readyAt, this.loseAfterMs),
      endedAt: undefined,
      goneAt: undefined,
      state: undefined,
      isPrepaid: prepaidNano !== undefined,
      bill: new SimBill(),
    }
    if (prepaidNano !== undefined) machine.bill.prepay(createdAt, prepaidNano)
    else if (this.#rules.billedFrom === 'order') machine.bill.start(createdAt, nanoPerHour)
    this.#machines.push(machine)
    return machine
  }

  /** All that there ever were. */
  protected machines(): Array<Machine<Type, Details>> {
    for (const one of this.#machines) this.#settle(one)
    return [...this.#machines]
  }

  protected alive(): Array<Machine<Type, Details>> {
    return this.machines().filter((one) => this.phaseOf(one) !== 'gone')
  }

  protected listed(): Array<Machine<Type, Details>> {
    return this.alive().filter(({ createdAt }) => this.isListed(createdAt))
  }

  protected isListed(createdAt: Instant): boolean {
    return addMs(createdAt, this.listLagMs) <= this.now()
  }

  /** undefined: there is none, or it is gone. */
  protected find(id: string | undefined): Machine<Type, Details> | undefined {
    return this.alive().find((one) => one.id === id)
  }

  protected named(name: string): Machine<Type, Details> {
    const machine = this.alive().find((one) => one.name === name)
    if (machine === undefined) throw new Error(`there is no machine ${name}`)
    return machine
  }

  protected free(type: Type & FleetType, place: string): number {
    const used = this.alive().filter((one) => one.type === type && one.place === place)
    return (type.capacity.get(place) ?? 0) - used.length
  }

  protected phaseOf(one: Machine<Type, Details>): Phase {
    this.#settle(one)
    const now = this.now()
    if (one.goneAt !== undefined) return one.goneAt <= now ? 'gone' : 'ending'
    if (one.lostAt !== undefined && one.lostAt <= now) return 'lost'
    if (one.readyAt > now) return 'booting'
    return one.bootFails ? 'failed' : 'running'
  }

  /** In the vendor's words. */
  protected stateOf(one: Machine<Type, Details>, words: Readonly<Record<Phase, string>>): string {
    const phase = this.phaseOf(one)
    return (phase === 'running' ? (one.state ?? this.runningState) : undefined) ?? words[phase]
  }

  /** For running machines, and those that start to cost later. */
  protected reprice(isMeant: (one: Machine<Type, Details>) => boolean, nanoPerHour: bigint): void {
    for (const one of this.machines().filter(isMeant)) {
      one.nanoPerHour = nanoPerHour
      if (!one.isPrepaid) one.bill.setPrice(this.now(), nanoPerHour)
    }
  }

  /** Whether this deletion is one of those to refuse. */
  protected takeRefusal(): boolean {
    return this.#take('destroyRefusals')
  }

  /** `nanoPerHour`: what is left behind costs that. A machine ends once. */
  protected end(one: Machine<Type, Details>, nanoPerHour?: bigint): void {
    if (one.endedAt !== undefined) return
    this.#settle(one)
    this.#endAt(one, this.now(), this.destroyMs)
    if (nanoPerHour === undefined) one.bill.stop(this.now())
    else one.bill.setPrice(this.now(), nanoPerHour)
  }

  /** For vendors where something happens when a machine is lost. */
  protected onLoss?(one: Machine<Type, Details>, at: Instant): void

  #settle(one: Machine<Type, Details>): void {
    const now = this.now()
    const { readyAt, endedAt, lostAt } = one
    const wasUp = !one.bootFails && readyAt <= now && (endedAt === undefined || readyAt <= endedAt)
    if (wasUp && !one.bill.isStarted && this.#rules.billedFrom === 'ready') one.bill.start(readyAt, one.nanoPerHour)
    if (endedAt !== undefined || lostAt === undefined || lostAt > now) return
    one.bill.stop(lostAt)
    if (!this.#rules.lossRemoves) return
    this.#endAt(one, lostAt, 0)
    this.onLoss?.(one, lostAt)
  }

  #endAt(one: FleetMachine<Type>, at: Instant, takesMs: number): void {
    one.endedAt = at
    one.goneAt = addMs(at, takesMs)
  }

  #take(count: 'bootsFail' | 'destroyRefusals'): boolean {
    if (this[count] === 0) return false
    this[count] -= 1
    return true
  }
}

/** The last two parts of an IPv4 address. */
export function addressTail(number: number): string {
  return `${Math.floor(number / 250) % 250}.${1 + (number % 250)}`
}

export function uuidOf(number: number): string {
  return `00000000-0000-4000-8000-${number.toString(16).padStart(12, '0')}`
}
