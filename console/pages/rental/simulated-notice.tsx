/** Says that a machine, or its GPUs, are not real: before an order, and on the page of what was ordered. */
import type { Simulation } from '../../../src/contract/shared.ts'
import { Notice } from '../../ui/notice.tsx'

const words = {
  machine: 'Simulated: you can rent it and see how it is billed, but no machine runs and nobody can log in.',
  gpus: 'Its GPUs are simulated: you can log in, but nothing is computed on them.',
} as const satisfies Record<Simulation, string>

export function SimulatedNotice({ simulated }: { simulated: Simulation | null | undefined }) {
  return simulated === null || simulated === undefined ? null : <Notice>{words[simulated]}</Notice>
}
