/**
 * Measures the links of a node, as a program of its own in the network namespace of the container, where only the group's
 * addresses exist. Every node listens and asks every other one for bytes for a moment. It ends with its standard input.
 */
const PORT = 29_499
const SEND_MS = 300
const RETRY_MS = 200

export const LINK_CHECK = `
const net = require('node:net')
const { own, others } = JSON.parse(process.argv[1])
process.stdin.on('end', () => process.exit()).resume()
const chunk = Buffer.alloc(65536)
net.createServer((socket) => {
  const until = performance.now() + ${SEND_MS}
  const send = () => {
    while (performance.now() < until) if (!socket.write(chunk)) return socket.once('drain', send)
    socket.end()
  }
  socket.on('error', () => {})
  send()
}).listen(${PORT}, own)
const ask = ({ rank, address }) => new Promise((resolve) => {
  let bytes = 0, begin = 0
  const socket = net.connect({ host: address, port: ${PORT}, timeout: 5000 })
  socket.on('connect', () => { begin = performance.now() })
  socket.on('data', (data) => { bytes += data.length })
  socket.on('timeout', () => socket.destroy())
  socket.on('error', () => {})
  socket.on('close', () => resolve(bytes === 0 ? undefined : { rank, mbps: Math.round(bytes * 8 / (performance.now() - begin)) / 1000 }))
})
const run = async () => {
  for (const other of others) {
    let link
    while ((link = await ask(other)) === undefined) await new Promise((resolve) => setTimeout(resolve, ${RETRY_MS}))
    console.log(JSON.stringify(link))
  }
}
run()
`
