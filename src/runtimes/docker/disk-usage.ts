/**
 * Measures the disk use of a container: the blocks of everything that can be written from inside. The engine's own
 * figure adds up file lengths, which counts holes and misses the files mounted into each container (/etc/hosts,
 * /etc/hostname, /etc/resolv.conf), its log, and blocks reserved beyond the end of a file.
 */
import { runProgram } from '../run-program.ts'
import type { Container } from './reply.ts'

/** Many files take a while. */
const DU_MS = 120_000

/** Folders and files on the host that the container can write to. undefined: unknown. */
export function writablePaths(container: Container, withLayer: boolean): string[] | undefined {
  const layer = container.GraphDriver?.Data['UpperDir']
  if (withLayer && (layer === undefined || layer === '')) return undefined
  const { HostsPath, HostnamePath, ResolvConfPath, LogPath, Mounts } = container
  const volumes = Mounts.flatMap(({ Type, Source }) => (Type === 'volume' && Source !== undefined ? [Source] : []))
  const files = [HostsPath, HostnamePath, ResolvConfPath, LogPath, ...volumes]
  return [...(withLayer && layer !== undefined ? [layer] : []), ...files.filter((path) => path !== '')]
}

/** Allocated bytes. Throws if a path cannot be read: it is on another machine, or gone. */
export async function allocatedBytes(paths: readonly string[], signal: AbortSignal): Promise<number> {
  if (paths.length === 0) return 0
  // Hard links count once, mounts below (such as tmpfs) not at all.
  const text = await runProgram('du', ['-s', '-c', '-x', '-B1', '--', ...paths], { signal, timeoutMs: DU_MS })
  const total = /^([0-9]+)\ttotal$/m.exec(text)?.[1]
  if (total === undefined) throw new Error('du printed no total')
  return Number.parseInt(total, 10)
}
