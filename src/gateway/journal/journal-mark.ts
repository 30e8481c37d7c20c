/**
 * Records how far a journal is settled: a small file written in the background. Losing it only costs a longer replay.
 */
import * as fs from 'node:fs'
import { join } from 'node:path'
import { checkedText, withChecksum } from './journal-segment.ts'

const MARK_NAME = 'settled'

/** The end of a record: its segment number and the offset after it. */
export interface Place {
  readonly segment: number
  readonly end: number
}

export function isBehind(one: Place, other: Place): boolean {
  return one.segment < other.segment || (one.segment === other.segment && one.end < other.end)
}

export class JournalMark {
  readonly #path: string
  readonly #warn: (facts: Readonly<Record<string, unknown>>, message: string) => void
  #place: Place
  #writing: Promise<void> | undefined

  constructor(dir: string, warn: (facts: Readonly<Record<string, unknown>>, message: string) => void) {
    this.#path = join(dir, MARK_NAME)
    this.#warn = warn
    this.#place = this.#read()
  }

  get place(): Place {
    return this.#place
  }

  move(to: Place): void {
    if (!isBehind(this.#place, to)) return
    this.#place = to
    this.#writing ??= this.#write()
  }

  /** Resolves when the last position is written. */
  async close(): Promise<void> {
    await this.#writing
  }

  async #write(): Promise<void> {
    for (let written: Place | undefined; written !== this.#place;) {
      written = this.#place
      try {
        const text = withChecksum(`${written.segment} ${written.end}`)
        // The file is replaced as a whole: a crash during the write leaves the old one.
        await fs.promises.writeFile(`${this.#path}.new`, text, { mode: 0o600 })
        await fs.promises.rename(`${this.#path}.new`, this.#path)
      } catch (error) {
        this.#warn({ err: error }, 'could not write the journal mark; the next replay will be longer')
      }
    }
    this.#writing = undefined
  }

  #read(): Place {
    const nothing = { segment: 0, end: 0 }
    if (!fs.existsSync(this.#path)) return nothing
    const text = checkedText(fs.readFileSync(this.#path, 'utf8').trimEnd())
    const [, segment, end] = /^(\d+) (\d+)$/.exec(text ?? '') ?? []
    if (segment === undefined || end === undefined) {
      this.#warn({ path: this.#path }, 'the journal mark is corrupt; replaying the whole journal')
      return nothing
    }
    return { segment: Number.parseInt(segment, 10), end: Number.parseInt(end, 10) }
  }
}
