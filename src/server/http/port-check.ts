/** Checks that the server's ports are free before anything is written to disk. */
import net from 'node:net'
import { SettingsError, type Settings } from '../settings.ts'

type Ports = Pick<Settings, 'host' | 'port' | 'metricsPort'>

/** Another program may still take a port before the server listens; `listenFailure` covers that case. */
export async function checkPorts(settings: Ports): Promise<void> {
  await tryListen(settings, settings.host, settings.port)
  if (settings.metricsPort !== undefined) await tryListen(settings, '127.0.0.1', settings.metricsPort)
}

function tryListen(settings: Ports, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const server = net.createServer()
    server.once('error', (error) => reject(listenFailure(settings, error) ?? error))
    server.listen({ host, port }, () => server.close(() => resolve()))
  })
}

/** undefined: the error has another cause. */
export function listenFailure({ host, port, metricsPort }: Ports, error: unknown): SettingsError | undefined {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return undefined
  const isLookup = error.syscall === 'getaddrinfo' && 'hostname' in error && error.hostname === host
  if (error.syscall !== 'listen' && error.syscall !== 'bind' && !isLookup) return undefined
  const failed = 'port' in error && typeof error.port === 'number' ? error.port : port
  const setting = failed === metricsPort && failed !== port ? 'BERTH_METRICS_PORT' : 'BERTH_PORT'
  switch (error.code) {
    case 'EADDRINUSE':
      return new SettingsError(
        `Port ${failed} is in use on this machine. Stop the program that uses it, or set ${setting} to another port.`,
      )
    case 'EACCES':
      return new SettingsError(
        `Port ${failed} is reserved for privileged users. Set ${setting} to a port above 1023, or give this program the right to use it.`,
      )
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new SettingsError(`This machine has no address ${host}. Set BERTH_HOST to one of its addresses.`)
    default:
      return undefined
  }
}
