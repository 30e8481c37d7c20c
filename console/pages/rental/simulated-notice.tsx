/** Says that a machine, or its GPUs, are not real: before an order, and on the page of what was ordered. */
import type { Simulation } from '../../../src/contract/shared.ts'
import { simulationHints } from '../../../src/view/rental.ts'
import { Notice } from '../../ui/notice.tsx'

export function SimulatedNotice({ simulated }: { simulated: Simulation | null | undefined }) {
  return simulated === null || simulated === undefined ? null : <Notice>{simulationHints[simulated]}</Notice>
}
