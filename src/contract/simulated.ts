/** Simulated machines. Free of schemas, because every command loads it. */
import type { Simulation } from './shared.ts'

/** What the free-form `network` of a listed machine says. */
export function simulationIn({ simulation }: Readonly<Record<string, unknown>>): Simulation | null {
  return simulation === 'machine' || simulation === 'gpus' ? simulation : null
}
