/** Stopping, starting and rebooting a machine, each with a confirmation that shows its price. */
import { useState } from 'react'
import type { CallableId } from '../../../src/client/client.ts'
import type { RentalAction } from '../../../src/contract/rental-state.ts'
import type { IfNoGpu } from '../../../src/contract/rental-power.ts'
import type { RentalKind } from '../../../src/domain/rental.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Button } from '../../ui/button.tsx'
import type { OpenDialog } from '../../ui/dialog.tsx'
import type { RadioChoice } from '../../ui/radio-choice.ts'
import { RadioField } from '../../ui/radio-field.tsx'

/** A machine of any kind, with the fields that lists and details share. */
export interface PoweredMachine {
  readonly kind: RentalKind
  readonly id: string
  /** The label, or the name if it has none. */
  readonly shownName: string
  readonly actions: readonly RentalAction[]
}

const refreshes: readonly CallableId[] = ['getRental', 'listRentals', 'getCustomerBalance']

type PowerAction = Exclude<RentalAction, 'terminate'>

const labels = { stop: 'Stop', start: 'Start', reboot: 'Reboot' } as const satisfies Record<PowerAction, string>
const dialogs = { stop: StopDialog, start: StartDialog, reboot: RebootDialog } as const

interface PowerButtonsProps {
  readonly machine: PoweredMachine
  readonly dialog: Pick<OpenDialog, 'open'>
  /** In a table, each button's label names its machine. */
  readonly isInTable?: boolean
  /** Default: all. */
  readonly only?: readonly PowerAction[]
}

/** Buttons for the actions that are possible now. */
export function PowerButtons({
  machine,
  dialog,
  isInTable = false,
  only = ['reboot', 'stop', 'start'],
}: PowerButtonsProps) {
  const mayWrite = useMay('compute:write')
  const offered = only.filter((action) => machine.actions.includes(action))
  return offered.map((action) => {
    const Dialog = dialogs[action]
    return (
      <Button
        key={action}
        aria-label={isInTable ? `${labels[action]} ${machine.shownName}` : undefined}
        disabledReason={mayWrite ? undefined : missingScope('compute:write')}
        onClick={() => dialog.open((close) => <Dialog machine={machine} onClose={close} />)}
      >
        {labels[action]}
      </Button>
    )
  })
}

interface DialogProps {
  readonly machine: PoweredMachine
  readonly onClose: () => void
}

function StopDialog({ machine, onClose }: DialogProps) {
  return (
    <ConfirmCall
      title={`Stop ${machine.shownName}?`}
      action="Stop"
      operation="stopRental"
      input={{ params: { id: machine.id } }}
      refreshes={refreshes}
      done={`Stopping ${machine.shownName}; its disk is kept`}
      onClose={onClose}
    >
      <div className="flex flex-col gap-2">
        <p>Shuts the machine down. Its disk, name and addresses stay; its programs end.</p>
        <p>
          Stopped, it costs <Price machine={machine} of="disk" />.
        </p>
        <p>Its GPUs are released and may be rented by others. You can start it when enough of them are free.</p>
      </div>
    </ConfirmCall>
  )
}

/** The choices for a start while the GPUs of its host are in use. */
const ifNoGpuChoices = [
  { value: 'fail', label: 'Tell me', detail: 'It stays stopped.' },
  { value: 'wait', label: 'Wait for free GPUs', detail: 'It starts as soon as they are free.' },
  { value: 'cpuOnly', label: 'Start without GPUs', detail: 'With 2 CPUs and 4 GB, to fetch its files.' },
  { value: 'move', label: 'Move it', detail: 'It starts on another machine, with its disk.' },
] as const satisfies ReadonlyArray<RadioChoice & { value: IfNoGpu }>

function StartDialog({ machine, onClose }: DialogProps) {
  const [ifNoGpu, setIfNoGpu] = useState<IfNoGpu>('fail')
  return (
    <ConfirmCall
      title={`Start ${machine.shownName}?`}
      action="Start"
      operation="startRental"
      input={{ params: { id: machine.id }, body: { ifNoGpu } }}
      refreshes={refreshes}
      done={`Starting ${machine.shownName}`}
      onClose={onClose}
    >
      <div className="flex flex-col gap-3">
        <p>
          Starts the machine on its disk. Once it runs, it costs <Price machine={machine} of="machine" />.
        </p>
        <RadioField
          label="If the GPUs of its host are in use"
          choices={ifNoGpuChoices.filter(({ value }) => value !== 'move' || machine.kind === 'container')}
          value={ifNoGpu}
          onChange={(value) => setIfNoGpu(ifNoGpuChoices.find((choice) => choice.value === value)?.value ?? 'fail')}
        />
        {ifNoGpu === 'move' && (
          <p>
            Its disk is copied to another machine of the same supplier, at the same price. Its name and addresses stay.
            Until it runs there, it costs <Price machine={machine} of="disk" />.
          </p>
        )}
        {ifNoGpu === 'cpuOnly' && (
          <p>
            Without GPUs it costs <Price machine={machine} of="cpus" />. To start it with GPUs again, stop it first.
          </p>
        )}
      </div>
    </ConfirmCall>
  )
}

function RebootDialog({ machine, onClose }: DialogProps) {
  return (
    <ConfirmCall
      title={`Reboot ${machine.shownName}?`}
      action="Reboot"
      operation="rebootRental"
      input={{ params: { id: machine.id } }}
      refreshes={refreshes}
      done={`Rebooting ${machine.shownName}`}
      onClose={onClose}
    >
      <p>Its programs end. Its disk, GPUs and addresses stay, and billing continues.</p>
    </ConfirmCall>
  )
}

interface PriceProps {
  readonly machine: PoweredMachine
  readonly of: 'disk' | 'machine' | 'cpus'
}

/** Reads the prices, since lists do not contain prices of disks. */
function Price({ machine, of }: PriceProps) {
  const rental = useCall('getRental', { params: { id: machine.id } }).data
  const prices = {
    disk: rental?.stoppedCostPerHourUsd,
    machine: rental?.pricePerHourUsd,
    cpus: rental?.cpuOnlyCostPerHourUsd,
  }
  const price = prices[of]
  return <strong className="font-medium text-ink">{price ? hourlyPrice(price) : '…'}</strong>
}
