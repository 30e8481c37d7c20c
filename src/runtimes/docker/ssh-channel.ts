/**
 * Writes to an SSH channel with backpressure. ssh2 accepts a client window of 4 GB and ignores the state of the
 * connection, so every write here also waits for the connection.
 */
import type { Duplex, Writable } from 'node:stream'
import type { ServerChannel } from 'ssh2'

/**
 * One write at a time. ssh2 keeps a chunk that waited for the client's window and would send it a second time when the
 * other stream (output or errors) has to wait, so the kept chunk is dropped. Never returns once the channel is closed.
 */
export async function writeToChannel(
  channel: ServerChannel,
  to: Writable,
  data: Buffer,
  transport: Duplex,
): Promise<void> {
  await new Promise<void>((resolve) => to.write(data, () => resolve()))
  Object.assign(channel, { _chunk: undefined, _chunkcb: undefined, _chunkErr: undefined, _chunkcbErr: undefined })
  if (transport.writableNeedDrain) await new Promise((resolve) => transport.once('drain', resolve))
}
