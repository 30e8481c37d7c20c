/** The parts of the order form: machine, term and setup. */
import type { NanoUsd } from '../../../src/base/money.ts'
import type { RentalType } from '../../../src/contract/rental.ts'
import type { TermQuote } from '../../../src/domain/term.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import type { Form } from '../../form/use-form.ts'
import { Card } from '../../ui/card.tsx'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { RadioField } from '../../ui/radio-field.tsx'
import { AdvancedFields } from './advanced-fields.tsx'
import type { DiskChoice } from './disk.ts'
import { GuardFields } from './guards.tsx'
import type { Choices, Option, Selection } from './option.ts'
import { MountFields } from './mounts.tsx'
import { cudaVersions, type Order } from './order.ts'
import { portsHint } from './ports.ts'
import { StorageFields } from './storage.tsx'
import { ParamFields, SecretFields, type Template } from './template.tsx'

interface ShapeCardProps {
  readonly kind: RentalType
  readonly choices: Choices
  readonly disk: DiskChoice
  readonly onSelect: (selection: Selection) => void
  readonly errorAt: Form<Order>['errorAt']
}

export function ShapeCard({ kind, choices, disk, onSelect, errorAt }: ShapeCardProps) {
  const { option, gpuCount } = choices.chosen
  const [node] = option.nodes
  return (
    <Card title="Machine">
      <div className="flex flex-col gap-4">
        <RadioField
          label="GPU"
          choices={choices.gpus}
          value={option.gpuType}
          onChange={(gpu) => onSelect({ gpu: gpu as Option['gpuType'] })}
          error={errorAt('gpuType')}
        />
        <RadioField
          label="Region"
          choices={choices.regions}
          value={option.region}
          onChange={(region) => onSelect({ region: region as Option['region'] })}
          error={errorAt('region')}
        />
        <RadioField
          label="Network"
          choices={choices.networks}
          value={option.connectionType}
          onChange={(network) => onSelect({ network: network as Option['connectionType'] })}
          error={errorAt('networkType')}
        />
        <RadioField
          label={kind === 'bare-metal' ? 'Machines' : 'GPUs'}
          choices={choices.counts}
          value={String(gpuCount)}
          onChange={(text) => onSelect({ count: Number(text) })}
          error={errorAt('gpuCount')}
        />
        {node !== undefined && (
          <p className="text-sm text-muted">
            {kind === 'bare-metal' ? 'Each machine has' : 'Includes'} {node.cpuModel}, {number(node.cpuCount)} CPUs,{' '}
            {number(node.ramGb)} GB of memory and {number(kind === 'bare-metal' ? node.storageGb : disk.gb)} GB of disk;{' '}
            {option.gpuFormFactor.toUpperCase()}.
          </p>
        )}
      </div>
    </Card>
  )
}

interface TermCardProps {
  readonly terms: readonly TermQuote[]
  readonly term: TermQuote | undefined
  readonly listPrice: NanoUsd
  readonly form: Form<Order>
  readonly onDays: () => void
}

export function TermCard({ terms, term, listPrice, form, onDays }: TermCardProps) {
  return (
    <Card title="Term">
      <RadioField
        label="Pricing"
        choices={[
          { value: '', label: 'On demand', detail: hourlyPrice(listPrice) },
          ...terms.map(({ days, percentage, perHour }) => ({
            value: String(days),
            label: `${days} days, −${percentage} %`,
            detail: hourlyPrice(perHour),
          })),
        ]}
        value={form.values.days}
        onChange={(days) => {
          onDays()
          form.set({ days })
        }}
        error={form.error('days')}
      />
      {term !== undefined && (
        <div className="mt-3">
          <CheckField
            label="Continue on demand when the term ends"
            hint={`At ${hourlyPrice(listPrice)}. Otherwise the rental ends with its term.`}
            {...form.check('continues')}
          />
        </div>
      )}
    </Card>
  )
}

interface SetUpCardProps {
  readonly kind: RentalType
  readonly chosen: Choices['chosen']
  readonly template: Template | undefined
  readonly disk: DiskChoice
  readonly form: Form<Order>
}

export function SetUpCard({ kind, chosen, template, disk, form }: SetUpCardProps) {
  const { region } = chosen.option
  return (
    <Card title="Setup">
      <div className="flex flex-col gap-4">
        {kind === 'virtual-machine' ? (
          <>
            <TextField label="Ports" placeholder="8080, 8888/http" hint={portsHint} {...form.text('ports')} />
            <MountFields place={{ kind, region }} form={form} />
          </>
        ) : (
          <>
            <SelectField
              label="CUDA version"
              choices={[{ value: '', label: 'Default' }, ...cudaVersions]}
              {...form.text('cuda')}
            />
            <StorageFields region={region} form={form} />
          </>
        )}
        <ParamFields template={template} values={form.values.params} onChange={(params) => form.set({ params })} />
        <SecretFields
          template={template}
          named={form.values.secrets}
          onChange={(secrets) => form.set({ secrets })}
          error={form.errorAt('secrets')}
        />
        <GuardFields form={form} />
        <AdvancedFields kind={kind} form={form} disk={disk} />
      </div>
    </Card>
  )
}
