/** Says that a machine, or its GPUs, are simulated: before an order, and on the page of the rental. */
import type { Simulation } from '../../../src/contract/shared.ts'
import { simulationHints } from '../../../src/view/rental.ts'
import { Notice } from '../../ui/notice.tsx'

export function SimulatedNotice({ simulated }: { simulated: Simulation | null | undefined }) {
  return simulated === null || simulated === undefined ? null : <Notice>{simulationHints[simulated]}</Notice>
}
