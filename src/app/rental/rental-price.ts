/** The price of a running rental: that of its term, without the part of GPUs that are broken. */
import { zeroUsd, type NanoUsd } from '../../base/money.ts'
import { priceOfWorking } from '../../domain/gpu-fault.ts'
import { countFaulty } from '../../store/machine/gpu-fault.ts'
import type { Tx } from '../../store/platform/database.ts'
import { findOpenInterruption } from '../../store/rental/interruption.ts'
import type { Rental } from '../../store/rental/rental.ts'

export async function priceNow(
  { db }: Pick<Tx, 'db'>,
  { id, gpu_count: total }: Pick<Rental, 'id' | 'gpu_count'>,
  costPerHour: NanoUsd,
): Promise<NanoUsd> {
  // Interrupted soon after its start, the whole run is free.
  if ((await findOpenInterruption(db, id))?.is_free === true) return zeroUsd
  return priceOfWorking(costPerHour, { total, faulty: await countFaulty(db, id) })
}
