/** The registry of a test cluster behind a login, at an address of its own that the node knows. */
import { mkdir, writeFile } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import type { KubeCluster } from './kube-cluster.ts'

export interface PrivateRegistry {
  readonly address: string
  readonly username: string
  readonly password: string
  close(): Promise<void>
}

export async function startPrivateRegistry({ registry, network, folder }: KubeCluster): Promise<PrivateRegistry> {
  const [username, password] = ['ada', 'correct horse']
  const login = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  const server = http.createServer((request, response) => {
    if (request.headers.authorization !== login) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="lab"' }).end('{"errors":[{"code":"UNAUTHORIZED"}]}')
      return
    }
    const { authorization: _, ...headers } = request.headers
    const upstream = http.request(`http://${registry.address}${request.url ?? ''}`, { method: request.method, headers })
    upstream.once('response', (reply) => {
      response.writeHead(reply.statusCode ?? 500, reply.headers)
      reply.pipe(response)
    })
    upstream.once('error', () => response.destroy())
    request.pipe(upstream)
  })
  await new Promise<void>((resolve) => server.listen(0, network.bridgeAddress, resolve))
  const address = `${network.bridgeAddress}:${(server.address() as AddressInfo).port}`
  const known = path.join(folder, 'node/registries', address)
  await mkdir(known, { recursive: true })
  const url = `http://${address}`
  await writeFile(
    path.join(known, 'hosts.toml'),
    `server = "${url}"\n[host."${url}"]\n  capabilities = ["pull", "resolve"]\n`,
  )
  return {
    address,
    username,
    password,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
