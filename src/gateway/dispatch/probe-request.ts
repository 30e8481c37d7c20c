/** A request of our own to an engine, whose answer is read whole. */
import type { Target } from './routing-target.ts'
import type { AnswerSink, Connection, FaultKind, Outgoing, TimeLimits } from '../upstream/connection.ts'
import type { ResponseHead } from '../upstream/response-head.ts'

export interface ProbeAnswer {
  /** undefined: there was no answer. */
  readonly status: number | undefined
  readonly body: string
  readonly isUnreachable: boolean
}

const limits: TimeLimits = { connectMs: 2_000, firstByteMs: 3_000, betweenBytesMs: 2_000, totalMs: 5_000 }
const MAX_UNDER_WAY = 64
const MAX_ANSWER_BYTES = 2_097_152

/** The probes in progress of one dispatcher. */
export class Probes {
  readonly #underWay = new Set<Probe>()

  get isFull(): boolean {
    return this.#underWay.size >= MAX_UNDER_WAY
  }

  get(target: Target, path: string, answered: (answer: ProbeAnswer) => void): void {
    this.send(target, { head: target.probeHeadOf(path), body: [], limits }, answered)
  }

  send(target: Target, message: Outgoing, answered: (answer: ProbeAnswer) => void): void {
    const probe = new Probe((answer) => {
      this.#underWay.delete(probe)
      answered(answer)
    })
    this.#underWay.add(probe)
    target.pool.send(probe, message)
  }

  close(): void {
    for (const probe of this.#underWay) probe.connection?.cancel()
    this.#underWay.clear()
  }
}

class Probe implements AnswerSink {
  connection: Connection | undefined
  readonly #answered: (answer: ProbeAnswer) => void
  readonly #chunks: Buffer[] = []
  #bytes = 0
  #status: number | undefined

  constructor(answered: (answer: ProbeAnswer) => void) {
    this.#answered = answered
  }

  onHead(head: ResponseHead): void {
    this.#status = head.status
  }

  onData(bytes: Buffer): void {
    this.#bytes += bytes.length
    this.#chunks.push(Buffer.from(bytes))
    if (this.#bytes <= MAX_ANSWER_BYTES) return
    this.connection?.cancel()
    this.#answered({ status: this.#status, body: '', isUnreachable: false })
  }

  onEnd(): void {
    const body = Buffer.concat(this.#chunks).toString()
    this.#answered({ status: this.#status, body, isUnreachable: false })
  }

  onFault(kind: FaultKind): void {
    const isUnreachable = kind === 'connect' || kind === 'connect_timeout'
    this.#answered({ status: undefined, body: '', isUnreachable })
  }
}
