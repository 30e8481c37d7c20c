/** Reboots a host and waits for it; with power control, if it has one, when it does not come back by itself. */
import { setTimeout as pause } from 'node:timers/promises'
import type { MetalAccess } from './access.ts'
import type { PowerSwitch } from './bmc.ts'
import { inspectHost, ScriptFailed, type HostInspection } from './host-inspection.ts'
import { Unreachable, type SshHost } from './ssh.ts'

export interface RestartLimits {
  /** Reboot timeout. */
  readonly rebootMs: number
  /** When power control is used. */
  readonly switchAfterMs: number
}

/** Servers with much memory and many devices boot slowly. */
export const restartLimits: RestartLimits = { rebootMs: 20 * 60_000, switchAfterMs: 8 * 60_000 }

export interface RestartTools {
  readonly host: SshHost
  readonly access: MetalAccess
  readonly power: PowerSwitch | undefined
  readonly limits: RestartLimits
}

const POLL_MS = 500

/**
 * Restarts a host that runs since the boot `from`; `order` tells it to. Throws `Unreachable` if it does not come back
 * in time.
 */
export async function restartHost(
  tools: RestartTools,
  from: string,
  order: () => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await order()
  } catch (error) {
    // The connection may drop before the script ends.
    if (!(error instanceof Unreachable)) throw error
  }
  await waitForHost(tools, (inspection) => inspection.bootId !== from, signal)
}

export async function waitForHost(
  tools: RestartTools,
  isExpected: (inspection: HostInspection) => boolean,
  signal: AbortSignal,
): Promise<HostInspection> {
  const { host, access, power, limits } = tools
  const since = performance.now()
  let isSwitched = power === undefined
  let last: unknown
  for (;;) {
    signal.throwIfAborted()
    try {
      if (!(await host.isPortOpen())) throw new Unreachable(`${access.address} does not answer`)
      const inspection = await inspectHost(host, access, signal)
      if (isExpected(inspection)) return inspection
      last = new Error('it has not restarted yet')
    } catch (error) {
      if (!(error instanceof Unreachable) && !(error instanceof ScriptFailed)) throw error
      last = error
    }
    const waitedMs = performance.now() - since
    if (!isSwitched && waitedMs > limits.switchAfterMs) {
      isSwitched = true
      await power?.reset(signal)
    }
    if (waitedMs > limits.rebootMs) {
      const reason = last instanceof Error ? last.message : String(last)
      throw new Unreachable(`the host has not come back in ${Math.round(limits.rebootMs / 1_000)} s: ${reason}`)
    }
    // Connections from before the reboot would hang.
    host.disconnect()
    await pause(POLL_MS, undefined, { signal })
  }
}
