/** Simulated machines. No schemas here, because every CLI command loads this file. */
import type { Simulation } from './shared.ts'

/** Value of the free-form `network` of a listed machine. */
export function simulationIn({ simulation }: Readonly<Record<string, unknown>>): Simulation | null {
  return simulation === 'machine' || simulation === 'gpus' ? simulation : null
}
