/** Rentals in events and on bills. */
import type { EventType } from '../../contract/event-type.ts'
import type { Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import type { Rental } from '../../store/rental/rental.ts'

export function recordRentalEvent(
  tx: Tx,
  rental: Pick<Rental, 'id' | 'account_id' | 'name' | 'label' | 'kind'>,
  type: EventType,
  data: Readonly<Record<string, unknown>> = {},
): void {
  recordEvent(tx, {
    accountId: rental.account_id,
    type,
    subject: { kind: 'rental', id: String(rental.id) },
    data: { rentalId: rental.id, name: rental.name, label: rental.label, kind: rental.kind, ...data },
  })
}

/** The columns of a rental that a memo mentions. */
type Named = Pick<Rental, 'name' | 'gpu_count' | 'gpu_type' | 'kind'> & {
  readonly spec: Pick<Rental['spec'], 'gpuModel'>
}

/** The memo of a segment of this rental. */
export function segmentMemo(
  rental: Named,
): (segment: { readonly while_stopped: boolean; readonly without_gpus: boolean }) => string {
  return ({ while_stopped, without_gpus }) => {
    if (while_stopped) return `disk of the stopped ${rentalMemo(rental)}`
    return without_gpus ? `${rentalMemo(rental)} without its GPUs` : rentalMemo(rental)
  }
}

export function rentalMemo(rental: Named): string {
  const noun = { 'virtual-machine': 'virtual machine', 'bare-metal': 'bare metal', container: 'container' }[rental.kind]
  return `${noun} ${rental.name} (${rental.gpu_count} × ${rental.gpu_type ?? rental.spec.gpuModel})`
}
