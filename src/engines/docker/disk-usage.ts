/**
 * What a container takes of the disk: the blocks of everything that can be written from inside. The engine adds up the
 * lengths of files instead, which counts holes that take nothing, and does not count the files that it mounts into each
 * container (/etc/hosts, /etc/hostname, /etc/resolv.conf), its log, or blocks that are reserved beyond a file's end.
 */
import { runProgram } from '../run-program.ts'
import type { Container } from './reply.ts'

/** Many files take a while to be looked at. */
const DU_MS = 120_000

/** The folders and files on the host's disk that it can write to. undefined: the engine does not say. */
export function writablePaths(container: Container, withLayer: boolean): string[] | undefined {
  const layer = container.GraphDriver?.Data['UpperDir']
  if (withLayer && (layer === undefined || layer === '')) return undefined
  const { HostsPath, HostnamePath, ResolvConfPath, LogPath, Mounts } = container
  const volumes = Mounts.flatMap(({ Type, Source }) => (Type === 'volume' && Source !== undefined ? [Source] : []))
  const files = [HostsPath, HostnamePath, ResolvConfPath, LogPath, ...volumes]
  return [...(withLayer && layer !== undefined ? [layer] : []), ...files.filter((path) => path !== '')]
}

/** Bytes of the blocks that are taken. Throws where one of them cannot be read: it is of another machine, or gone. */
export async function allocatedBytes(paths: readonly string[], signal: AbortSignal): Promise<number> {
  if (paths.length === 0) return 0
  // What is linked twice counts once, and what is mounted below (memory as a disk) not at all.
  const text = await runProgram('du', ['-s', '-c', '-x', '-B1', '--', ...paths], { signal, timeoutMs: DU_MS })
  const total = /^([0-9]+)\ttotal$/m.exec(text)?.[1]
  if (total === undefined) throw new Error('du did not say how much it found')
  return Number.parseInt(total, 10)
}
