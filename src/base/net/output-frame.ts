/**
 * The output of a program that has no terminal: frames of either its output or its error output, in one stream. A frame
 * is one byte for the channel, three zeros, four bytes for the length, and the data. Container daemons send the same
 * format, so theirs is passed on as it is.
 */
const outputChannels = { out: 1, error: 2 } as const
type OutputChannel = keyof typeof outputChannels

const HEAD_BYTES = 8
const LENGTH_AT = 4

export function frameOutput(channel: OutputChannel, data: Buffer): Buffer {
  const head = Buffer.alloc(HEAD_BYTES)
  head[0] = outputChannels[channel]
  head.writeUInt32BE(data.length, LENGTH_AT)
  return Buffer.concat([head, data])
}

export interface Output {
  readonly isError: boolean
  readonly data: Buffer
}

/** Reads frames from chunks that may end anywhere. Data is returned as it comes, so a frame of any length is never kept. */
export class OutputReader {
  #head: Buffer = Buffer.alloc(0)
  #bytesLeft = 0
  #isError = false

  push(chunk: Buffer): Output[] {
    const pieces: Output[] = []
    let unread = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk])
    this.#head = Buffer.alloc(0)
    while (unread.length > 0) {
      if (this.#bytesLeft === 0) {
        if (unread.length < HEAD_BYTES) {
          this.#head = unread
          break
        }
        this.#isError = unread[0] === outputChannels.error
        this.#bytesLeft = unread.readUInt32BE(LENGTH_AT)
        unread = unread.subarray(HEAD_BYTES)
        continue
      }
      const data = unread.subarray(0, this.#bytesLeft)
      this.#bytesLeft -= data.length
      unread = unread.subarray(data.length)
      pieces.push({ isError: this.#isError, data })
    }
    return pieces
  }
}
