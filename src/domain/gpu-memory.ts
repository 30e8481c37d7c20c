/** Whether the memory of a GPU is free again: an engine can end and leave a process that holds it. */

/** A driver and a desktop take up to this much of an idle GPU. A model that was left behind takes more. */
const IDLE_MIB = 1_024

/** null: not known, as of simulated GPUs. Lost ones are unhealthy anyway. */
export function isMemoryHeld(usedMib: number | null): boolean {
  return usedMib !== null && usedMib > IDLE_MIB
}

/** GPUs whose memory is in use, though no machine has them. */
export function heldGpus(usedMib: ReadonlyArray<number | null>, occupied: ReadonlySet<number>): number[] {
  return usedMib.flatMap((used, index) => (isMemoryHeld(used) && !occupied.has(index) ? [index] : []))
}
