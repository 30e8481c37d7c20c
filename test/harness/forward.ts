/** A port on another address of this machine for something that listens elsewhere, such as a database on a unix socket. */
import net, { type AddressInfo, type Socket } from 'node:net'
import path from 'node:path'

export interface Forward {
  readonly port: number
  close(): void
}

export async function forwardTo(host: string, connect: () => Socket): Promise<Forward> {
  const open = new Set<Socket>()
  const server = net.createServer((socket) => {
    const both = [socket, connect()] as const
    for (const one of both) {
      open.add(one)
      one.on('error', () => both.forEach((each) => each.destroy()))
      one.once('close', () => open.delete(one))
    }
    both[0].pipe(both[1]).pipe(both[0])
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.close()
      for (const socket of open) socket.destroy()
    },
  }
}

/** Forwards to a test database; `url` is its URL at that address. */
export async function forwardDatabase(host: string, databaseUrl: string): Promise<Forward & { readonly url: string }> {
  const forward = await forwardTo(host, () => socketOf(databaseUrl))
  const { username, pathname } = new URL(databaseUrl.replace(/^postgresql:/, 'http:'))
  return { ...forward, url: `postgresql://${username}@${host}:${forward.port}${pathname}?sslmode=disable` }
}

function socketOf(url: string): Socket {
  const [, folder] = /[?&]host=([^&]+)/.exec(url) ?? []
  if (folder !== undefined) return net.connect(path.join(decodeURIComponent(folder), '.s.PGSQL.5432'))
  const { hostname, port } = new URL(url.replace(/^postgres(ql)?:/, 'http:'))
  return net.connect(Number(port || 5_432), hostname)
}
