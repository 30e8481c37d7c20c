/**
 * A minimal proxy: node:http in front, undici behind, and no gateway work. `dispatch` is the cheapest way through
 * undici, so this is the best baseline of its kind.
 */
import http from 'node:http'
import { Pool } from 'undici'

const upstream = new Pool(`http://127.0.0.1:${process.argv[2]}`, { connections: 1_024, pipelining: 1 })

const server = http.createServer((request, response) => {
  const { 'content-type': type = '', 'content-length': length = '', authorization = '' } = request.headers
  upstream.dispatch(
    {
      method: 'POST',
      path: request.url ?? '/',
      headers: { 'content-type': type, 'content-length': length, authorization },
      body: request,
    },
    {
      onRequestStart: () => {},
      onResponseStart: (_controller, status, headers) => {
        const { connection: _, 'transfer-encoding': __, 'keep-alive': ___, ...kept } = headers
        response.writeHead(status, kept)
      },
      onResponseData: (controller, chunk) => {
        if (response.write(chunk)) return
        controller.pause()
        response.once('drain', () => controller.resume())
      },
      onResponseEnd: () => void response.end(),
      onResponseError: (_controller, error) => void response.destroy(error),
    },
  )
})

server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port was given')
  process.stdout.write(`${address.port}\n`)
})
process.stdin.on('end', () => process.exit(0)).resume()
