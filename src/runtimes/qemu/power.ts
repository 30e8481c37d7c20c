/** Shuts the guest down by ACPI. QEMU stays after a shutdown (`-no-shutdown`), so its status tells when the guest is off. */
import { setTimeout as pause } from 'node:timers/promises'
import { queryStatus } from './monitor-query.ts'
import type { Monitor } from './monitor.ts'

const LOOK_EVERY_MS = 100

/**
 * Presses the power button. Returns false if the guest has not shut down in time, for example because it ignores the
 * button.
 */
export async function shutDownGuest(monitor: Monitor, withinMs: number, signal: AbortSignal): Promise<boolean> {
  await monitor.execute('system_powerdown')
  for (const until = performance.now() + withinMs; performance.now() < until; await pause(LOOK_EVERY_MS)) {
    signal.throwIfAborted()
    if ((await queryStatus(monitor)) === 'shutdown') return true
  }
  return false
}

/** Reboots in the same process: cleanly, or after `withinMs` like the reset button. */
export async function rebootGuest(monitor: Monitor, withinMs: number, signal: AbortSignal): Promise<void> {
  await shutDownGuest(monitor, withinMs, signal)
  await monitor.execute('system_reset')
  await monitor.execute('cont')
}
