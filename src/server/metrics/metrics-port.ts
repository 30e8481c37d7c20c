/** Metrics on a port of their own. */
import http from 'node:http'
import type { Metrics } from '../../base/metrics.ts'

/** Serves metrics on loopback and without a key, for a scraper on the same machine. */
export async function openMetrics(metrics: Metrics, port: number): Promise<() => Promise<void>> {
  const server = http.createServer((request, response) => {
    if (request.url !== '/metrics') return void response.writeHead(404).end()
    metrics.text().then(
      (text) => response.writeHead(200, { 'Content-Type': 'text/plain; version=0.0.4' }).end(text),
      () => response.writeHead(500).end(),
    )
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve))
  return () => new Promise((resolve) => server.close(() => resolve()))
}
