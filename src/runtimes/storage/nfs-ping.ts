/** Sends the NFSv4 null call (RFC 5531, procedure 0), which any client may make. */
import { randomBytes } from 'node:crypto'
import net from 'node:net'
import { contained } from '../../base/net/contained.ts'

const NFS_PROGRAM = 100_003
const NFS_VERSION = 4
const REPLY = 1
const LAST_FRAGMENT = 0x8000_0000
/** Fragment header, then: id, reply, accepted, verifier (2), success. */
const REPLY_BYTES = 4 + 6 * 4

/** Rejects without a valid answer in time. */
export async function pingNfs(address: string, port: number, timeoutMs: number): Promise<void> {
  const id = randomBytes(4).readUInt32BE()
  // id, call, RPC version, program, version, procedure, credentials and verifier of nobody.
  const fields = [id, 0, 2, NFS_PROGRAM, NFS_VERSION, 0, 0, 0, 0, 0]
  const call = Buffer.alloc(4 + fields.length * 4)
  for (const [at, field] of [LAST_FRAGMENT + fields.length * 4, ...fields].entries()) call.writeUInt32BE(field, at * 4)

  const socket = net.connect({ host: address, port, timeout: timeoutMs })
  try {
    const answer = await new Promise<Buffer>((resolve, reject) => {
      let received = Buffer.alloc(0)
      socket.once('error', reject)
      socket.once('timeout', () => reject(new Error(`no answer within ${timeoutMs} ms`)))
      socket.once('close', () => reject(new Error('the connection was closed')))
      const take = (chunk: Buffer): void => {
        received = Buffer.concat([received, chunk])
        if (received.length >= REPLY_BYTES) resolve(received)
      }
      socket.on('data', contained(reject, take))
      socket.write(call)
    })
    const isGood = answer.readUInt32BE(4) === id && answer.readUInt32BE(8) === REPLY && isAccepted(answer)
    if (!isGood) throw new Error('the server did not answer as an NFSv4 server')
  } finally {
    socket.destroy()
  }
}

function isAccepted(answer: Buffer): boolean {
  return answer.readUInt32BE(12) === 0 && answer.readUInt32BE(24) === 0
}
