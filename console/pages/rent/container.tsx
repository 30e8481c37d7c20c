/** Rents GPUs of one marketplace machine. */
import { systemClock } from '../../../src/base/instant.ts'
import { parseUsd, type NanoUsd } from '../../../src/base/money.ts'
import { api } from '../../../src/contract/api.ts'
import { shareOfMachine } from '../../../src/domain/machine.ts'
import { pricePerHour } from '../../../src/domain/term.ts'
import { count, number } from '../../../src/view/number.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { useForm, type Form } from '../../form/use-form.ts'
import { CancelButton, Dialog, DialogButtons, SubmitButton } from '../../ui/dialog.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { Notice } from '../../ui/notice.tsx'
import { AdvancedFields } from './advanced-fields.tsx'
import { checkAdvanced } from './advanced.ts'
import { diskChoice, stoppedFact } from './disk.ts'
import { checkEnd, GuardFields } from './guards.tsx'
import type { Like } from './like.ts'
import { MountFields } from './mounts.tsx'
import { bodyOf, noOrder, orderPaths, useRent, type Order } from './order.ts'
import { PriceFacts, TooLittle, useAffordable } from './money.tsx'
import { portsHint } from './ports.ts'
import { isPriceChange, OrderProblems } from './refusal.tsx'
import { NoSshKey } from './ssh.tsx'
import { ParamFields, SecretFields, templateIdOf, type Template } from './template.tsx'
import { SimulatedNotice } from '../rental/simulated-notice.tsx'
import { imageText } from '../templates/text.ts'
import type { MachineRow } from '../marketplace/machine.ts'

function initialOf({ gpusFree }: MachineRow, like: Like | undefined): Order {
  if (like === undefined) return noOrder
  return { ...noOrder, ...like.typed, gpus: String(Math.min(like.ordered.gpuCount, gpusFree)) }
}

interface RentDialogProps {
  readonly machine: MachineRow
  readonly template: Template | undefined
  /** The container whose settings fill in the form. */
  readonly like: Like | undefined
  readonly onClose: () => void
}

export function RentDialog({ machine, template, like, onClose }: RentDialogProps) {
  const renting = useRent()
  const priceOf = (order: Order): NanoUsd => priceOfOrder(machine, order)
  const form = useForm({
    // The template's image, unless another one is typed.
    initial: () => initialOf(machine, like),
    schema: api.createRental.body,
    body: (order) =>
      bodyOf(order, {
        kind: 'container',
        place: { machineId: machine.id, gpuCount: Number(order.gpus) },
        perHour: priceOf(order),
        waitSeconds: waitOf(machine, order),
        templateId: templateIdOf(template),
        like,
      }),
    check: (order) => ({
      ...checkEnd(order),
      ...checkAdvanced(order, systemClock.now()),
    }),
    paths: orderPaths,
    action: renting,
    send: renting.order,
  })
  const gpus = Number(form.values.gpus)
  const perHour = priceOf(form.values)
  const affordable = useAffordable(perHour)
  const disk = diskChoice(machine, shareOfMachine(machine, gpus, machine.gpusTotal).storageGb, {
    typed: form.values.diskGb,
    template,
    perHour,
  })
  const countField = form.text('gpus')
  return (
    <Dialog title={`Rent ${machine.gpu}`} onClose={onClose} wide>
      <form onSubmit={form.submit} noValidate className="flex flex-col gap-4">
        <AboutMachine machine={machine} gpus={gpus} diskGb={disk.gb} />
        <NoSshKey />
        {template !== undefined && (
          <p className="text-sm">
            Template <strong>{template.name}</strong>: {template.summary ?? imageText(template)}
          </p>
        )}
        <ParamFields template={template} values={form.values.params} onChange={(params) => form.set({ params })} />
        <SecretFields
          template={template}
          named={form.values.secrets}
          onChange={(secrets) => form.set({ secrets })}
          error={form.errorAt('secrets')}
        />
        <div className="grid items-start gap-3 sm:grid-cols-3">
          <SelectField
            label="GPUs"
            choices={gpuChoices(machine, form.values)}
            hint={`${machine.gpusFree} of ${machine.gpusTotal} available.`}
            {...countField}
            onChange={(event) => {
              // A changed price applied to the number of GPUs in the last order, so it is forgotten.
              if (isPriceChange(renting.error)) renting.reset()
              countField.onChange(event)
            }}
          />
          <TextField
            label="Image"
            placeholder={imageText(template ?? {})}
            hint="Docker image, as name:tag. Leave empty for the default."
            {...form.text('image')}
          />
          <TextField label="Ports" placeholder="8080, 8888/http" hint={portsHint} {...form.text('ports')} />
        </div>
        <InterruptionField machine={machine} form={form} gpus={gpus} />
        <WaitNotice seconds={waitOf(machine, form.values)} />
        <MountFields place={{ kind: 'container', region: machine.region, machine }} form={form} />
        <GuardFields form={form} />
        <AdvancedFields kind="container" form={form} disk={disk} />
        <div className="rounded-md border border-line bg-sunken p-3" aria-live="polite">
          <PriceFacts perHour={perHour} more={stoppedFact(disk)} isWide />
        </div>
        <TooLittle of={affordable} />
        <OrderProblems form={form} priceLimit={renting.priceLimit} now={perHour} />
        <DialogButtons>
          <CancelButton onClick={onClose} />
          <SubmitButton
            busy={form.isPending}
            disabledReason={affordable.isEnough === false ? 'Your balance does not cover the first hour' : undefined}
          >
            Rent {count(gpus, 'GPU')}
          </SubmitButton>
        </DialogButtons>
      </form>
    </Dialog>
  )
}

function priceOfOrder(machine: MachineRow, { gpus, interruption }: Order): NanoUsd {
  return pricePerHour(interruption === '' ? machine.pricePerGpu : lowerPriceOf(machine), Number(gpus))
}

function gpuChoices(machine: MachineRow, order: Order): Array<{ value: string; label: string }> {
  return Array.from({ length: gpusOnOffer(machine, order) }, (_, n) => ({
    value: String(n + 1),
    label: `${count(n + 1, 'GPU')}${n < machine.gpusFree ? '' : ', after a wait'}`,
  }))
}

function WaitNotice({ seconds }: { seconds: number | undefined }) {
  if (seconds === undefined) return null
  return (
    <Notice>
      The GPUs are free after about {count(seconds, 'second')}: interruptible rentals end for this order. Nothing is
      charged until it runs.
    </Notice>
  )
}

function lowerPriceOf({ interruptible, pricePerGpu }: MachineRow): NanoUsd {
  return parseUsd(interruptible?.pricePerGpuHourUsd ?? '') ?? pricePerGpu
}

/** The GPUs that can be ordered. An interruptible order does not wait for others. */
function gpusOnOffer({ gpusFree, gpusAfterWait }: MachineRow, { interruption }: Order): number {
  return interruption === '' ? gpusFree + (gpusAfterWait?.gpus ?? 0) : gpusFree
}

/** The wait in seconds. undefined: enough GPUs are free. */
function waitOf({ gpusFree, gpusAfterWait }: MachineRow, { gpus, interruption }: Order): number | undefined {
  return interruption !== '' || Number(gpus) <= gpusFree ? undefined : gpusAfterWait?.waitSeconds
}

/** Offers the lower price of an interruptible rental beside the full price. */
function InterruptionField({
  machine,
  form,
  gpus,
}: {
  machine: MachineRow
  form: Pick<Form<Order>, 'text'>
  gpus: number
}) {
  const { interruptible } = machine
  if (interruptible === null) return null
  const full = hourlyPrice(pricePerHour(machine.pricePerGpu, gpus))
  const lower = hourlyPrice(pricePerHour(lowerPriceOf(machine), gpus))
  const lately = count(interruptible.interruptionsLast7Days, 'interruption')
  return (
    <SelectField
      label="Interruption"
      choices={[
        { value: '', label: `Not interruptible: ${full}` },
        { value: 'start', label: `Interruptible, starts again when GPUs are free: ${lower}` },
        { value: 'terminate', label: `Interruptible, terminates then: ${lower}` },
      ]}
      hint={`An order at the full price may take its GPUs, ${count(interruptible.noticeSeconds, 'second')} after a notice. ${lately} on this machine in the last 7 days.`}
      {...form.text('interruption')}
    />
  )
}

function AboutMachine({ machine, gpus, diskGb }: { machine: MachineRow; gpus: number; diskGb: number }) {
  const share = shareOfMachine(machine, gpus, machine.gpusTotal)
  return (
    <>
      <p className="text-sm text-muted">
        Machine <span className="font-mono">{machine.id}</span> by {machine.supplierId} in {machine.region}.{' '}
        {count(gpus, 'GPU')} include{gpus === 1 ? 's' : ''} {count(share.cpuCount, 'CPU')}, {number(share.ramGb)} GB of
        memory and {number(diskGb)} GB of disk.
      </p>
      <SimulatedNotice simulated={machine.simulated} />
    </>
  )
}
