/** The daemon measures what containers use. Disk use comes from the disk watch, which walks through the files. */
import { eachAtOnce } from '../../base/each-at-once.ts'
import type { Measured } from '../runtime.ts'
import type { DockerClient } from './client.ts'
import { ID_LABEL, TAG_LABEL } from './container-order.ts'
import type { Container, Stats } from './reply.ts'

const MIB = 1_048_576
const NANO = 1_000_000_000
/** Containers measured at a time. */
const WIDTH = 4
/** Programs checked per container: one that runs is enough. */
const MAX_PROGRAMS = 32

export async function measureContainers(
  client: DockerClient,
  diskBytes: ReadonlyMap<string, number>,
  signal: AbortSignal,
): Promise<Measured[]> {
  const running = (await client.containers(TAG_LABEL, signal)).filter(({ State }) => State === 'running')
  const measured: Measured[] = []
  await eachAtOnce(running, WIDTH, async ({ Id, Labels }) => {
    const id = Labels[ID_LABEL]
    const [container, stats] = await Promise.all([client.container(Id, signal), client.stats(Id, signal)])
    // The container has ended meanwhile.
    if (id === undefined || container === undefined || stats === undefined) return
    const hasProgram = await runsProgram(client, container)
    measured.push({ id, ...useOf(container, stats), diskUsedMib: mib(diskBytes.get(id)), hasProgram })
  })
  return measured
}

function useOf({ HostConfig }: Container, stats: Stats): Omit<Measured, 'id' | 'diskUsedMib' | 'hasProgram'> {
  const { usage, limit, stats: parts } = stats.memory_stats ?? {}
  // The page cache is given back when others need it: `docker stats` leaves it out too.
  const cache = parts?.['inactive_file'] ?? parts?.['total_inactive_file'] ?? 0
  const total = stats.cpu_stats?.cpu_usage.total_usage
  const networks = Object.values(stats.networks)
  const sum = (read: (one: (typeof networks)[number]) => number): number | null =>
    networks.length === 0 ? null : networks.reduce((all, one) => all + read(one), 0)
  return {
    cpuSeconds: total === null || total === undefined ? null : total / NANO,
    cpus: HostConfig.NanoCpus > 0 ? HostConfig.NanoCpus / NANO : 1,
    memoryUsedMib: usage === null || usage === undefined ? null : mib(Math.max(usage - cache, 0)),
    memoryTotalMib: mib(HostConfig.Memory > 0 ? HostConfig.Memory : (limit ?? undefined)),
    networkRxBytes: sum((one) => one.rx_bytes),
    networkTxBytes: sum((one) => one.tx_bytes),
  }
}

async function runsProgram(client: DockerClient, { ExecIDs }: Container): Promise<boolean> {
  for (const id of ExecIDs.slice(-MAX_PROGRAMS)) {
    // The daemon forgets programs that have ended.
    const program = await client.exec(id).catch(() => undefined)
    if (program?.Running === true) return true
  }
  return false
}

function mib(bytes: number | undefined): number | null {
  return bytes === undefined ? null : bytes / MIB
}
