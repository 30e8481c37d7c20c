/** Runs a command on a machine over its terminal's WebSocket, and passes both outputs on as they come. */
import { ActionError } from './api.mjs'

const HEAD_BYTES = 8
const ERROR_CHANNEL = 2

export function runCommand({ url, key }, rentalId, command) {
  const target = new URL(`${url}/v2/rentals/${rentalId}/terminal`)
  target.protocol = target.protocol.replace('http', 'ws')
  target.searchParams.set('tty', 'false')
  for (const word of ['/bin/sh', '-c', command]) target.searchParams.append('command', word)
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(target, ['berth.terminal', `berth.key.${key}`])
    socket.binaryType = 'arraybuffer'
    const write = makeWriter()
    let code
    // It reads nothing.
    socket.addEventListener('open', () => socket.send(JSON.stringify({ end: true })))
    socket.addEventListener('message', ({ data }) => {
      if (typeof data === 'string') code = JSON.parse(data).exitCode
      else write(Buffer.from(data))
    })
    socket.addEventListener('error', () => {})
    socket.addEventListener('close', ({ reason }) => {
      if (typeof code === 'number') return resolve(code)
      reject(new ActionError(`The command was interrupted${reason === '' ? '' : ` (${reason})`}.`))
    })
  })
}

/** The frames: one byte for the channel, three zeros, four for the length, and the data; they may be split anywhere. */
function makeWriter() {
  let unread = Buffer.alloc(0)
  return (chunk) => {
    unread = Buffer.concat([unread, chunk])
    while (unread.length >= HEAD_BYTES) {
      const length = unread.readUInt32BE(4)
      if (unread.length < HEAD_BYTES + length) return
      const out = unread[0] === ERROR_CHANNEL ? process.stderr : process.stdout
      out.write(unread.subarray(HEAD_BYTES, HEAD_BYTES + length))
      unread = unread.subarray(HEAD_BYTES + length)
    }
  }
}
