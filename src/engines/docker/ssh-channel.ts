/**
 * Writing to a channel of an SSH connection. ssh2 lets a client open a window of 4 GB, and writes to the connection
 * whether it takes the bytes or not; so every write here waits for the connection as well.
 */
import type { Duplex, Writable } from 'node:stream'
import type { ServerChannel } from 'ssh2'

/**
 * One at a time. ssh2 keeps a piece that waited for the client's window after it was sent, and would send it again when
 * the other of output and errors has to wait; so what it kept is dropped. Never returns once the channel is closed.
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
