/**
 * Removes a tenant from a host, and verifies it. Every step can be repeated, so that another server can resume after a
 * crash:
 *
 *   lock      remove keys, kill processes until there are none
 *   unmount   volumes and mounts of the tenant
 *   remove    user, home, cron, temporary files, scratch, every file of its uid, IPC
 *   reboot    by itself; by power control if it does not come back
 *   check     new boot id, no leftovers, hardware as declared
 *   release   remove the marker: the host is free
 *
 * An unreachable host is retried. A failed step is not: `CleaningFailed` puts the host into quarantine until a person
 * has looked at it.
 */
import type { MetalDeclared } from './access.ts'
import { lockScript, rebootScript, releaseScript, removeScript, unmountAllScript } from './cleaning-script.ts'
import {
  compareHardware,
  findLeftovers,
  inspectHost,
  runOn,
  ScriptFailed,
  type HostInspection,
} from './host-inspection.ts'
import { restartHost, waitForHost, type RestartTools } from './restart.ts'
import { Unreachable } from './ssh.ts'

export type CleaningStep = 'lock' | 'unmount' | 'remove' | 'reboot' | 'check' | 'release'

export class CleaningFailed extends Error {
  readonly step: CleaningStep
  constructor(step: CleaningStep, message: string, options?: ErrorOptions) {
    super(message, options)
    this.step = step
  }
}

export interface CleaningTools extends RestartTools {
  /** The rental being cleaned up; a missing marker is written again. */
  readonly id: string
  readonly declared: MetalDeclared
  readonly onStep: (step: CleaningStep) => void
}

const REMOVE_MS = 30 * 60_000
const MAX_NAMED_LEFTOVERS = 5

export async function cleanHost(tools: CleaningTools, signal: AbortSignal): Promise<void> {
  const { host, access, id } = tools
  const user = access.tenantUser
  const start = await reach(tools, signal)
  let uid = start.marker?.uid ?? ''
  if (start.marker?.phase !== 'rebooting' || start.marker.rebootFrom === start.bootId) {
    await step(tools, 'lock', () => runOn(host, lockScript, { user, id }, signal, REMOVE_MS))
    uid = (await inspectHost(host, access, signal)).marker?.uid ?? uid
    await step(tools, 'unmount', () => runOn(host, unmountAllScript, { user }, signal, REMOVE_MS))
    const scratch = access.scratch.join('\n')
    await step(tools, 'remove', () => runOn(host, removeScript, { user, scratch }, signal, REMOVE_MS))
    await step(tools, 'reboot', () => reboot(tools, start.bootId, signal))
  }
  await step(tools, 'check', async () => {
    const leftovers = await findLeftovers(host, access, uid, signal)
    const faults = await compareHardware(host, tools.declared, signal)
    if (leftovers.length > 0)
      throw new ScriptFailed(`leftovers after cleaning: ${leftovers.slice(0, MAX_NAMED_LEFTOVERS).join(', ')}`)
    if (faults.length > 0) throw new ScriptFailed(faults.join(' '))
  })
  await step(tools, 'release', () => runOn(host, releaseScript, {}, signal))
}

/** Fails the step if its script fails; retries after a lost connection. */
async function step(tools: CleaningTools, name: CleaningStep, work: () => Promise<unknown>): Promise<void> {
  tools.onStep(name)
  try {
    await work()
  } catch (error) {
    if (error instanceof ScriptFailed) throw new CleaningFailed(name, error.message, { cause: error })
    throw error
  }
}

function reboot(tools: CleaningTools, from: string, signal: AbortSignal): Promise<void> {
  return restartHost(tools, from, () => runOn(tools.host, rebootScript, { id: tools.id }, signal), signal)
}

/** A tenant may have stopped the SSH server: power control brings it back. */
async function reach(tools: CleaningTools, signal: AbortSignal): Promise<HostInspection> {
  try {
    return await inspectHost(tools.host, tools.access, signal)
  } catch (error) {
    if (!(error instanceof Unreachable) || tools.power === undefined) throw error
    return waitForHost(tools, () => true, signal)
  }
}
