/**
 * One agent that has shown who it is. It is told the whole of what is wanted whenever that changes, and says the whole
 * of what there is; of several reports that wait to be written only the last one counts. A report that says what the
 * one before said costs no write of its own (see `heard`).
 */
import { WebSocket } from 'ws'
import type { App } from '../app/app.ts'
import type { Instant } from '../base/instant.ts'
import { makeMux, type Mux, type MuxStream } from '../base/mux.ts'
import {
  fromAgent,
  type FromAgent,
  type FromServer,
  type HostMetrics,
  type HostReport,
  type StreamRequest,
} from '../contract/agent.ts'
import { findOfferFault } from '../domain/offer.ts'
import { isSilent } from '../domain/host.ts'
import { transact } from '../store/database.ts'
import { moveHost, readDesired, saveMetrics, saveReport } from '../store/host.ts'
import type { HostLink } from './host-links.ts'
import { validate } from './validation.ts'

const MESSAGES_PER_SECOND = 50
/** Moves are for people; more than this many cannot wait. */
const MOVES_WAITING = 8
/** A report like the last one is written again after so long: what it says may have been changed elsewhere. */
const SAVE_AGAIN_MS = 60_000
/** How soon an agent is told again what it has not acted on. */
const TELL_AGAIN_MS = 2_000
/** An agent that leaves so much unread is told nothing more, and given up. */
const BACKLOG_BYTES = 8_388_608
/** What a frame that waits takes beside its bytes: many small ones are much, too. */
const FRAME_COST_BYTES = 512
const SILENT_HEARTBEATS = 3
const GOODBYE_MS = 1_000
const MAX_REFUSAL_CHARS = 500

export const closeCodes = { bad: 1008, restart: 1012, replaced: 4001 } as const

export interface SessionPorts {
  readonly app: App
  /** A line about a host, unless it has caused too many already. */
  readonly warn: (hostId: string, fields: object, message: string) => void
  readonly heartbeatMs: number
  /** Called for each report that says nothing new. */
  readonly heard: (session: AgentSession) => void
  /** What is wanted of it may have changed: `tellWanted` should be called soon. */
  readonly mayWant: (session: AgentSession) => void
  readonly counted: (type: FromAgent['type']) => void
}

interface SessionHost {
  readonly id: string
  /** As what it has joined. */
  readonly offering: HostReport['offer']['offering']
  readonly seenAt: Instant | null
}

export class AgentSession implements HostLink {
  readonly hostId: string
  readonly id: string
  readonly #offering: SessionHost['offering']
  readonly #socket: WebSocket
  readonly #ports: SessionPorts
  readonly #mux: Mux
  readonly #beat: NodeJS.Timeout
  #report: { readonly value: HostReport; readonly text: string } | undefined
  #metrics: HostMetrics | undefined
  readonly #moves: Array<'ready' | 'draining' | 'left'> = []
  #working: Promise<void> | undefined
  #saved: { readonly value: HostReport; readonly text: string; readonly atMs: number } | undefined
  #told: { readonly generation: number; readonly text: string; readonly atMs: number } | undefined
  #telling: Promise<void> = Promise.resolve()
  /** How often it was asked since it was last heard. Not a time: a server that stood still has asked nobody. */
  #askedInVain = 0
  /** When the last report came that saw something; before this session, too. To be connected is not to see. */
  #reportedAt: Instant | null
  /** It has reported again, and that is not written yet. */
  #isBack = false
  #second = { startedMs: 0, messages: 0 }
  /** Frames of streams that the socket has taken and not passed on. */
  #framesWaiting = 0

  constructor(socket: WebSocket, host: SessionHost, id: string, ports: SessionPorts) {
    this.hostId = host.id
    this.#offering = host.offering
    this.id = id
    this.#socket = socket
    this.#ports = ports
    this.#reportedAt = host.seenAt
    this.#mux = makeMux({
      // Streams go from here to the host, never back: there is nothing that accepts one.
      side: 'server',
      send: (frame) => this.#sendFrame(frame),
      backlog: () => this.#backlogBytes(),
      failed: (error) => this.#giveUp('bad_frame', error.message),
    })
    socket.on('message', (data, isBinary) => this.#receive(data as Buffer, isBinary))
    socket.on('pong', () => (this.#askedInVain = 0))
    socket.on('ping', (data) => this.#answerPing(data))
    socket.on('close', () => {
      clearInterval(this.#beat)
      this.#mux.close('the host has hung up')
    })
    this.#beat = setInterval(() => this.#checkLiving(), ports.heartbeatMs).unref()
  }

  open(request: StreamRequest): MuxStream {
    return this.#mux.open(request)
  }

  replace(): void {
    this.end(closeCodes.replaced, 'another connection of this host has taken over')
  }

  /** Streams end at once; the socket when the agent has seen why, or when its time for that is over. */
  end(code: number, reason: string): void {
    this.#mux.close(reason)
    this.#socket.close(code, reason)
    setTimeout(() => this.#socket.terminate(), GOODBYE_MS).unref()
  }

  say(message: FromServer): void {
    this.#sayText(JSON.stringify(message))
  }

  /** Reads what is wanted and says it, unless that was said already. One at a time, so that the newest is the last. */
  tellWanted(): Promise<void> {
    this.#telling = this.#telling.then(() => this.#tellOnce()).catch((error: unknown) => this.#lost('desired', error))
    return this.#telling
  }

  /** Settles when nothing is being written for it any more. */
  async settled(): Promise<void> {
    await this.#telling
    await this.#working
  }

  async #tellOnce(): Promise<void> {
    if (!this.#isOpen()) return
    const wanted = await readDesired(this.#ports.app.database.db, this.hostId)
    if (!this.#isOpen()) return
    if (wanted === undefined) return this.#giveUp('unknown_host', 'This host is no longer known here')
    const text = JSON.stringify(wanted)
    const before = this.#told
    const isLate = before !== undefined && performance.now() - before.atMs >= TELL_AGAIN_MS && this.#isBehind()
    if (before?.text === text && !isLate) return
    this.#told = { generation: wanted.generation, text, atMs: performance.now() }
    this.#sayText(text)
  }

  /** The host has not acted yet on what it was told. */
  #isBehind(): boolean {
    return this.#saved !== undefined && this.#told !== undefined && this.#saved.value.generation < this.#told.generation
  }

  #receive(data: Buffer, isBinary: boolean): void {
    if (!this.#isOpen()) return
    this.#askedInVain = 0
    if (isBinary) return this.#mux.receive(data)
    if (this.#isFlooding()) return this.#giveUp('too_many_messages', `More than ${MESSAGES_PER_SECOND} a second`)
    const text = data.toString()
    // While another one is being written it is not known what will be the last that was.
    if (this.#working === undefined && this.#isSaved(text)) return this.#hearAgain()
    const parsed = parseMessage(text)
    if (!parsed.ok) return this.#giveUp('bad_message', parsed.message)
    const message = parsed.value
    if (message.type === 'hello') return this.#giveUp('bad_message', 'Only the first message is a hello')
    this.#ports.counted(message.type)
    const fault = message.type === 'report' ? this.#faultOf(message.offer) : undefined
    if (fault !== undefined) return this.#giveUp(...fault)
    if (message.type === 'report') this.#takeReport({ value: message, text })
    else if (message.type === 'metrics') this.#metrics = message
    else if (this.#moves.length < MOVES_WAITING) this.#moves.push(message.to)
    else return this.#giveUp('too_many_messages', 'Too many moves at once')
    this.#working ??= this.#work().finally(() => (this.#working = undefined))
  }

  #faultOf(offer: HostReport['offer']): [reason: string, message: string] | undefined {
    if (offer.offering !== this.#offering) {
      return ['offering_changed', `This host has joined as ${this.#offering}; to be another one it joins anew`]
    }
    const fault = findOfferFault(offer)
    return fault === undefined ? undefined : ['offer_not_sellable', `${fault.path.join('.')}: ${fault.message}`]
  }

  #isSaved(text: string): boolean {
    const saved = this.#saved
    if (saved === undefined || saved.text !== text) return false
    if (saved.value.blind !== true && this.#wasSilent()) return false
    return performance.now() - saved.atMs < SAVE_AGAIN_MS
  }

  /** What it said before. From a host that sees nothing it is no sign of what runs there. */
  #hearAgain(): void {
    this.#ports.counted('report')
    if (this.#saved?.value.blind !== true) {
      this.#reportedAt = this.#ports.app.clock.now()
      this.#ports.heard(this)
    }
    this.#remind()
  }

  #wasSilent(): boolean {
    return this.#isBack || isSilent(this.#reportedAt, this.#ports.app.clock.now())
  }

  #takeReport(report: { readonly value: HostReport; readonly text: string }): void {
    this.#report = report
    if (report.value.blind === true) return
    this.#isBack = this.#wasSilent()
    this.#reportedAt = this.#ports.app.clock.now()
  }

  #isFlooding(): boolean {
    const now = performance.now()
    if (now - this.#second.startedMs >= 1_000) this.#second = { startedMs: now, messages: 0 }
    this.#second.messages += 1
    return this.#second.messages > MESSAGES_PER_SECOND
  }

  async #work(): Promise<void> {
    while (this.#isOpen()) {
      const move = this.#moves.shift()
      const report = this.#report
      const metrics = this.#metrics
      try {
        if (move !== undefined) await this.#move(move)
        else if (report !== undefined) {
          this.#report = undefined
          await this.#save(report)
        } else if (metrics !== undefined) {
          this.#metrics = undefined
          const { database, clock } = this.#ports.app
          await saveMetrics(database.db, this.hostId, metrics, clock.now())
        } else return
      } catch (error) {
        // The agent says all of it again at its next heartbeat.
        this.#lost('message', error)
      }
    }
  }

  async #save(report: { readonly value: HostReport; readonly text: string }): Promise<void> {
    const { database, clock } = this.#ports.app
    const atMs = performance.now()
    const isBack = this.#isBack && report.value.blind !== true
    const isOurs = await transact(database, async (tx) => {
      const saved = await saveReport(tx, this.hostId, this.id, report.value, clock.now())
      if (saved && report.text !== this.#saved?.text) tx.wake.add('observe')
      // One that was silent went off sale, whatever it offers.
      const sold = ({ offer, fault }: HostReport): string => JSON.stringify([offer, fault])
      const isNewOffer = this.#saved === undefined || sold(report.value) !== sold(this.#saved.value)
      if (saved && (isNewOffer || isBack)) tx.wake.add('inventory')
      return saved
    })
    if (!isOurs) return this.replace()
    this.#saved = { ...report, atMs }
    if (isBack) this.#isBack = false
    this.#remind()
  }

  /** What was said may have been lost on a host that was restarted in between; it is said again, but not all the time. */
  #remind(): void {
    if (this.#isBehind() && performance.now() - (this.#told?.atMs ?? 0) >= TELL_AGAIN_MS) this.#ports.mayWant(this)
  }

  async #move(to: 'ready' | 'draining' | 'left'): Promise<void> {
    const { database } = this.#ports.app
    const moved = await transact(database, async (tx) => {
      const result = await moveHost(tx, this.hostId, to)
      if (result.ok) tx.wake.add('inventory')
      return result
    })
    // The connection stays: its tenants are not affected by what their host may not do.
    if (!moved.ok) this.say({ type: 'refused', reason: moved.reason ?? moved.kind, message: moved.message })
  }

  #checkLiving(): void {
    if (this.#askedInVain < SILENT_HEARTBEATS) {
      this.#askedInVain += 1
      return this.#socket.ping()
    }
    this.#ports.warn(this.hostId, {}, 'a host has gone silent; its connection is ended')
    this.#socket.terminate()
  }

  #isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN
  }

  #backlogBytes(): number {
    return this.#socket.bufferedAmount + this.#framesWaiting * FRAME_COST_BYTES
  }

  #sendFrame(frame: Buffer): void {
    this.#framesWaiting += 1
    this.#socket.send(frame, () => {
      this.#framesWaiting -= 1
      this.#mux.flush()
    })
  }

  #answerPing(data: Buffer): void {
    this.#askedInVain = 0
    if (!this.#isOpen()) return
    if (this.#isFlooding()) return this.#giveUp('too_many_messages', `More than ${MESSAGES_PER_SECOND} a second`)
    this.#socket.pong(data)
  }

  #sayText(text: string): void {
    if (!this.#isOpen()) return
    if (this.#backlogBytes() <= BACKLOG_BYTES) return this.#socket.send(text)
    this.#ports.warn(this.hostId, {}, 'a host does not read what it is told; its connection is ended')
    this.#socket.terminate()
  }

  #giveUp(reason: string, message: string): void {
    this.#ports.warn(this.hostId, { reason }, `a connection of a host is ended: ${message}`)
    this.say({ type: 'refused', reason, message })
    this.end(closeCodes.bad, reason)
  }

  #lost(what: string, error: unknown): void {
    this.#ports.warn(this.hostId, { err: error }, `a ${what} could not be handled; it comes again`)
  }
}

export type ParsedMessage =
  | { readonly ok: true; readonly value: FromAgent }
  | { readonly ok: false; readonly message: string }

/**
 * By the same check as what comes over HTTP, such as the offer of a host that joins: besides the schema it refuses
 * characters that PostgreSQL cannot keep. The sentence is for the owner of the host.
 */
export function parseMessage(text: string): ParsedMessage {
  const unreadable = { ok: false, message: 'A message is not JSON' } as const
  let input: unknown
  try {
    input = JSON.parse(text)
  } catch {
    return unreadable
  }
  const parsed = validate(fromAgent, input)
  if (parsed.ok) return { ok: true, value: parsed.value as FromAgent }
  const [first] = parsed.issues
  const where = first === undefined ? '' : `, at ${first.path.join('.') || 'its top'}: ${first.message}`
  const message = `A message is not as it should be${where}; agent and server may be of different versions`
  return { ok: false, message: message.slice(0, MAX_REFUSAL_CHARS) }
}
