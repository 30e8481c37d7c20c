/** Whether the memory of a GPU is free again: an engine can end and leave behind a process that uses it. */

/** A driver and a desktop take up to this much of an idle GPU. A forgotten model takes more. */
const IDLE_MIB = 1_024

/** null: not measured, as for simulated GPUs. A lost GPU is unhealthy anyway. */
export function isMemoryHeld(usedMib: number | null): boolean {
  return usedMib !== null && usedMib > IDLE_MIB
}

/** GPUs whose memory is in use although no rental occupies them. */
export function heldGpus(usedMib: ReadonlyArray<number | null>, occupied: ReadonlySet<number>): number[] {
  return usedMib.flatMap((used, index) => (isMemoryHeld(used) && !occupied.has(index) ? [index] : []))
}
