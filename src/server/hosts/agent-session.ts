/**
 * The session of one authenticated agent. The server sends the complete desired state whenever it changes; the agent
 * reports the complete actual state. Of several reports that wait to be written, only the last one counts. A report
 * equal to the last one costs no write of its own (see `onUnchangedReport`).
 */
import { WebSocket } from 'ws'
import type { App } from '../../app/app.ts'
import { saveLastLog } from '../../app/rental/rental-log.ts'
import { resolveSecrets } from '../../app/account/secret.ts'
import { contained } from '../../base/net/contained.ts'
import type { Instant } from '../../base/instant.ts'
import { makeMux, type Mux, type MuxStream } from '../../base/net/mux.ts'
import {
  fromAgent,
  type FromAgent,
  type FromServer,
  type HostMetrics,
  type HostReport,
  type LastLog,
  type StreamRequest,
} from '../../contract/agent.ts'
import { findOfferFault } from '../../domain/offer.ts'
import { isSilent } from '../../domain/host.ts'
import { transact } from '../../store/platform/database.ts'
import { applyGpuFaults } from '../../app/rental/gpu-fault.ts'
import { moveHost, readDesired, saveReport } from '../../store/host/host.ts'
import type { HostLink } from './host-links.ts'
import { validate } from '../http/validation.ts'

const MAX_MESSAGES_PER_SECOND = 50
/** People make moves, so more than this are refused. */
const MAX_MOVES_WAITING = 8
const MAX_LOGS_WAITING = 16
/** An unchanged report is written again after this time: another server may have changed the row. */
const SAVE_AGAIN_MS = 60_000
/** How long after sending the desired state it is sent again to an agent that has not acted on it. */
const RESEND_AFTER_MS = 2_000
/** An agent that leaves this much unread is disconnected. */
const MAX_BACKLOG_BYTES = 8_388_608
/** Memory of a queued frame besides its bytes: many small frames add up. */
const FRAME_COST_BYTES = 512
const SILENT_HEARTBEATS = 3
const GOODBYE_MS = 1_000
const MAX_REFUSAL_CHARS = 500

export const closeCodes = { bad: 1008, restart: 1012, replaced: 4001 } as const

export interface SessionPorts {
  readonly app: App
  /** Logs a line about a host, rate-limited per host. */
  readonly warn: (hostId: string, fields: object, message: string) => void
  readonly heartbeatMs: number
  /** Called for each report equal to the last one. */
  readonly onUnchangedReport: (session: AgentSession) => void
  /** The desired state may have changed: call `sendDesired` soon. */
  readonly desiredMayChange: (session: AgentSession) => void
  readonly counted: (type: FromAgent['type']) => void
  readonly measured: (session: AgentSession, metrics: HostMetrics) => void
}

interface SessionHost {
  readonly id: string
  /** The offering that the host joined with. */
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
  readonly #lastLogs: LastLog[] = []
  readonly #moves: Array<'ready' | 'draining' | 'left'> = []
  #working: Promise<void> | undefined
  #saved: { readonly value: HostReport; readonly text: string; readonly atMs: number } | undefined
  #sent: { readonly generation: number; readonly text: string; readonly atMs: number } | undefined
  #sending: Promise<void> = Promise.resolve()
  /** Pings since the last sign of life. A count, not a time, since a suspended server has sent none. */
  #missedPings = 0
  /**
   * The last report that saw the host's runtime, from this session or an earlier one. A connection alone proves
   * nothing.
   */
  #reportedAt: Instant | null
  /** The host has reported again, and that is not written yet. */
  #isBack = false
  #second = { startedMs: 0, messages: 0 }
  /** Stream frames queued in the socket. */
  #framesWaiting = 0

  constructor(socket: WebSocket, host: SessionHost, id: string, ports: SessionPorts) {
    this.hostId = host.id
    this.#offering = host.offering
    this.id = id
    this.#socket = socket
    this.#ports = ports
    this.#reportedAt = host.seenAt
    this.#mux = makeMux({
      // The server opens streams to the host; the host opens none.
      side: 'server',
      send: (frame) => this.#sendFrame(frame),
      backlog: () => this.#backlogBytes(),
      failed: (error) => this.#giveUp('bad_frame', error.message),
    })
    const end = (): void => socket.terminate()
    socket.on(
      'message',
      contained(end, (data, isBinary) => this.#receive(data as Buffer, isBinary)),
    )
    socket.on('pong', () => (this.#missedPings = 0))
    socket.on(
      'ping',
      contained(end, (data) => this.#answerPing(data)),
    )
    socket.on('close', () => {
      clearInterval(this.#beat)
      this.#mux.close('the host disconnected')
    })
    this.#beat = setInterval(() => this.#checkLiving(), ports.heartbeatMs).unref()
  }

  open(request: StreamRequest): MuxStream {
    return this.#mux.open(request)
  }

  replace(): void {
    this.end(closeCodes.replaced, 'replaced by another connection of this host')
  }

  /** Streams end at once; the socket when the agent has acknowledged the close, or after a timeout. */
  end(code: number, reason: string): void {
    this.#mux.close(reason)
    this.#socket.close(code, reason)
    setTimeout(() => this.#socket.terminate(), GOODBYE_MS).unref()
  }

  sendMessage(message: FromServer): void {
    this.#sendText(JSON.stringify(message))
  }

  /** Sends the desired state unless the agent has it. Sends one at a time, so that the newest is sent last. */
  sendDesired(): Promise<void> {
    this.#sending = this.#sending
      .then(() => this.#sendDesiredOnce())
      .catch((error: unknown) => this.#lost('desired', error))
    return this.#sending
  }

  /** Resolves when nothing is left to write. */
  async settled(): Promise<void> {
    await this.#sending
    await this.#working
  }

  async #sendDesiredOnce(): Promise<void> {
    if (!this.#isOpen()) return
    const stored = await readDesired(this.#ports.app.database.db, this.hostId)
    const desired = stored === undefined ? undefined : await resolveSecrets(this.#ports.app, stored)
    if (!this.#isOpen()) return
    if (desired === undefined) return this.#giveUp('unknown_host', 'This host is no longer registered')
    const text = JSON.stringify(desired)
    const previous = this.#sent
    const isLate = previous !== undefined && performance.now() - previous.atMs >= RESEND_AFTER_MS && this.#isBehind()
    if (previous?.text === text && !isLate) return
    this.#sent = { generation: desired.generation, text, atMs: performance.now() }
    this.#sendText(text)
  }

  /** The host has not acted yet on the state it was sent. */
  #isBehind(): boolean {
    return this.#saved !== undefined && this.#sent !== undefined && this.#saved.value.generation < this.#sent.generation
  }

  #receive(data: Buffer, isBinary: boolean): void {
    if (!this.#isOpen()) return
    this.#missedPings = 0
    if (isBinary) return this.#mux.receive(data)
    if (this.#isFlooding()) return this.#giveUp('too_many_messages', `More than ${MAX_MESSAGES_PER_SECOND} per second`)
    const text = data.toString()
    // While another report is being written, the last written one is not known.
    if (this.#working === undefined && this.#isSaved(text)) return this.#repeatReport()
    const parsed = parseMessage(text)
    if (!parsed.ok) return this.#giveUp('bad_message', parsed.message)
    const message = parsed.value
    if (message.type === 'hello') return this.#giveUp('bad_message', 'Only the first message may be hello')
    this.#ports.counted(message.type)
    const fault = message.type === 'report' ? this.#faultOf(message.offer) : undefined
    if (fault !== undefined) return this.#giveUp(...fault)
    if (message.type === 'report') this.#takeReport({ value: message, text })
    else if (message.type === 'metrics') {
      this.#ports.measured(this, message)
      this.#lastLogs.push(...(message.lastLogs ?? []).slice(0, MAX_LOGS_WAITING - this.#lastLogs.length))
    } else if (this.#moves.length < MAX_MOVES_WAITING) this.#moves.push(message.to)
    else return this.#giveUp('too_many_messages', 'Too many moves at once')
    this.#working ??= this.#work().finally(() => (this.#working = undefined))
  }

  #faultOf(offer: HostReport['offer']): [reason: string, message: string] | undefined {
    if (offer.offering !== this.#offering) {
      return ['offering_changed', `This host joined as ${this.#offering}. To change that, join again.`]
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

  /** Repeats the last report. From a host that cannot see its runtime it does not prove that anything runs. */
  #repeatReport(): void {
    this.#ports.counted('report')
    if (this.#saved?.value.blind !== true) {
      this.#reportedAt = this.#ports.app.clock.now()
      this.#ports.onUnchangedReport(this)
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
    return this.#second.messages > MAX_MESSAGES_PER_SECOND
  }

  async #work(): Promise<void> {
    while (this.#isOpen()) {
      const move = this.#moves.shift()
      const report = this.#report
      const log = this.#lastLogs.shift()
      try {
        // The log is saved before the report that no longer lists the workload.
        if (log !== undefined) await saveLastLog(this.#ports.app, this.hostId, log)
        if (move !== undefined) await this.#move(move)
        else if (report !== undefined) {
          this.#report = undefined
          await this.#save(report)
        } else if (log === undefined) return
      } catch (error) {
        // The agent repeats everything at its next heartbeat.
        this.#lost('message', error)
      }
    }
  }

  async #save(report: { readonly value: HostReport; readonly text: string }): Promise<void> {
    const { database, clock } = this.#ports.app
    const atMs = performance.now()
    const isBack = this.#isBack && report.value.blind !== true
    await this.#applyFaults(report.value)
    const isOurs = await transact(database, async (tx) => {
      const saved = await saveReport(tx, this.hostId, this.id, report.value, clock.now())
      if (saved && report.text !== this.#saved?.text) tx.wake.add('observe')
      // A host that was silent was withdrawn from sale, so its next report changes the supply.
      const supplyOf = ({ offer, fault }: HostReport): string => JSON.stringify([offer, fault])
      const isNewOffer = this.#saved === undefined || supplyOf(report.value) !== supplyOf(this.#saved.value)
      if (saved && (isNewOffer || isBack)) tx.wake.add('inventory')
      return saved
    })
    if (!isOurs) return this.replace()
    this.#saved = { ...report, atMs }
    if (isBack) this.#isBack = false
    this.#remind()
  }

  /**
   * Applied before the report, which lets time be charged. A fault that cannot be applied must not make the host look
   * silent.
   */
  async #applyFaults({ gpuFaults = [] }: HostReport): Promise<void> {
    try {
      await applyGpuFaults(this.#ports.app, this.hostId, this.id, gpuFaults)
    } catch (error) {
      this.#lost('gpu faults', error)
    }
  }

  /** A host that restarted may have lost the state: send it again, at a limited rate. */
  #remind(): void {
    if (this.#isBehind() && performance.now() - (this.#sent?.atMs ?? 0) >= RESEND_AFTER_MS)
      this.#ports.desiredMayChange(this)
  }

  async #move(to: 'ready' | 'draining' | 'left'): Promise<void> {
    const { database } = this.#ports.app
    const result = await transact(database, (tx) => moveHost(tx, this.hostId, to))
    // The connection stays: a refused move does not affect the tenants.
    if (!result.ok) this.sendMessage({ type: 'refused', reason: result.reason ?? result.kind, message: result.message })
  }

  #checkLiving(): void {
    if (this.#missedPings < SILENT_HEARTBEATS) {
      this.#missedPings += 1
      return this.#socket.ping()
    }
    this.#ports.warn(this.hostId, {}, 'host is silent; closing its connection')
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
    this.#missedPings = 0
    if (!this.#isOpen()) return
    if (this.#isFlooding()) return this.#giveUp('too_many_messages', `More than ${MAX_MESSAGES_PER_SECOND} per second`)
    this.#socket.pong(data)
  }

  #sendText(text: string): void {
    if (!this.#isOpen()) return
    if (this.#backlogBytes() <= MAX_BACKLOG_BYTES) return this.#socket.send(text)
    this.#ports.warn(this.hostId, {}, 'host does not read its messages; closing its connection')
    this.#socket.terminate()
  }

  #giveUp(reason: string, message: string): void {
    this.#ports.warn(this.hostId, { reason }, `closing a host connection: ${message}`)
    this.sendMessage({ type: 'refused', reason, message })
    this.end(closeCodes.bad, reason)
  }

  #lost(what: string, error: unknown): void {
    this.#ports.warn(this.hostId, { err: error }, `could not handle a ${what}; the agent repeats it`)
  }
}

export type ParsedMessage =
  | { readonly ok: true; readonly value: FromAgent }
  | { readonly ok: false; readonly message: string }

/**
 * Validates like HTTP input does: besides the schema it refuses characters that PostgreSQL cannot store. The message is
 * shown to the host's owner.
 */
export function parseMessage(text: string): ParsedMessage {
  const unreadable = { ok: false, message: 'The message is not JSON' } as const
  let input: unknown
  try {
    input = JSON.parse(text)
  } catch {
    return unreadable
  }
  const parsed = validate(fromAgent, input)
  if (parsed.ok) return { ok: true, value: parsed.value as FromAgent }
  const [first] = parsed.issues
  const where = first === undefined ? '' : ` at ${first.path.join('.') || 'the top level'}: ${first.message}`
  const message = `Invalid message${where}. The agent and the server may have different versions.`
  return { ok: false, message: message.slice(0, MAX_REFUSAL_CHARS) }
}
