/** The state of a workload from the reports of its hosts. */
import { addMs, type Instant } from '../../base/instant.ts'
import { REBOOTING } from '../../contract/agent.ts'
import type { ProviderData } from '../../contract/provider-data.ts'
import type { RentalOutcome } from '../../contract/rental-outcome.ts'
import { isSilent, SILENT_MS } from '../../domain/host.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import type { DriverMachine } from '../driver.ts'
import type { KnownWorkload } from './world.ts'

/**
 * After startup hosts need a moment to connect. Until then their workloads are unknown, which is an error as with any
 * unreachable provider: nothing is charged and no state changes.
 */
export function waitForHosts(workloads: readonly KnownWorkload[], now: Instant, listeningSince: Instant): void {
  if (addMs(listeningSince, SILENT_MS) < now) return
  const nodes = workloads.flatMap((one) => one.nodes)
  const missing = nodes.filter((one) => one.started && one.seenAt !== null && one.seenAt < listeningSince)
  const hosts = new Set(missing.map((one) => one.hostId))
  if (hosts.size > 0) throw new Error(`${hosts.size} hosts have not connected since startup.`)
}

export function showWorkload(
  workload: KnownWorkload,
  now: Instant,
  dataOf: (spec: RentalSpec) => ProviderData | undefined,
): DriverMachine {
  const [node] = workload.nodes
  return { ...stateOf(workload, now, dataOf), ...(node === undefined ? {} : { machineId: node.hostId }) }
}

function stateOf(
  workload: KnownWorkload,
  now: Instant,
  dataOf: (spec: RentalSpec) => ProviderData | undefined,
): DriverMachine {
  const { id: externalId, tag, nodes } = workload
  if (workload.want === 'gone') return { externalId, tag, state: 'stopping' }
  const failed = nodes.find((node) => node.state === 'failed')
  if (failed !== undefined) {
    return {
      externalId,
      tag,
      state: 'failed',
      failure: failed.failure ?? 'host_failure',
      ...messageField(failed.message),
      ...(failed.exitCode === null ? {} : { exitCode: failed.exitCode }),
      ...(failed.endedAt === null ? {} : { endedAt: failed.endedAt }),
    }
  }
  const silent = nodes.filter((node) => node.started && isSilent(node.seenAt, now))
  if (silent.length > 0) {
    const seenAt = silent.reduce<Instant | null>((first, { seenAt }) => earlier(first, seenAt), null)
    const isRebooting = silent.some(({ message }) => message === REBOOTING)
    return {
      externalId,
      tag,
      state: 'unreachable',
      ...(isRebooting ? { failure: 'reboot_unfinished' satisfies RentalOutcome } : {}),
      ...(seenAt === null ? {} : { seenAt }),
    }
  }
  if (workload.want === 'stopped' && nodes.length > 0 && nodes.every((node) => node.state === 'stopped')) {
    const lost = nodes.find((node) => node.failure !== null)
    if (lost?.failure === undefined || lost.failure === null) return { externalId, tag, state: 'stopped' }
    return { externalId, tag, state: 'stopped', failure: lost.failure, ...messageField(lost.message) }
  }
  const data = workload.spec === null ? undefined : dataOf(workload.spec)
  // A workload that is not in this database has no data, but is listed.
  const isUp = nodes.length > 0 && nodes.every((node) => node.state === 'running')
  if (isUp && (data !== undefined || workload.spec === null)) {
    const runs = nodes.flatMap(({ incarnation }) => incarnation ?? [])
    const incarnation = runs.length === 0 ? {} : { incarnation: runs.join() }
    return { externalId, tag, state: 'running', ...incarnation, ...(data === undefined ? {} : { data }) }
  }
  return {
    externalId,
    tag,
    state: 'starting',
    ...messageField(nodes.find((node) => node.message !== null)?.message ?? null),
  }
}

function messageField(message: string | null): { message?: string } {
  return message === null ? {} : { message }
}

function earlier(a: Instant | null, b: Instant | null): Instant | null {
  return a === null || (b !== null && b < a) ? b : a
}
