/** What commands, console and server say alike of simulated machines. Without schemas: every command loads it. */
import type { Simulation } from './shared.ts'

/** Why nobody can log into a simulated machine. */
export const SIMULATED_MACHINE = {
  reason: 'simulated_machine',
  message: 'This machine is simulated: there is nothing to log into',
} as const

/** What the free-form `network` of a listed machine says. */
export function simulationIn({ simulation }: Readonly<Record<string, unknown>>): Simulation | null {
  return simulation === 'machine' || simulation === 'gpus' ? simulation : null
}
