/** The parts of the order's form: the machine, how long one binds oneself, and how it is set up. */
import type { NanoUsd } from '../../../src/base/money.ts'
import type { RentalType } from '../../../src/contract/rental.ts'
import type { TermQuote } from '../../../src/domain/term.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { Card } from '../../ui/card.tsx'
import { CheckField, SelectField, TextField } from '../../ui/field.tsx'
import { RadioField } from '../../ui/radio-field.tsx'
import { GuardFields, noGuards } from './guards.tsx'
import type { Choices, Option, Wish } from './option.ts'
import { cudaVersions, type CudaVersion } from './order.ts'
import { portsHint } from './ports.ts'
import { noStorage, StorageFields } from './storage.tsx'
import { termChoices } from './term.ts'

/** What is wrong, by the field that shows it. */
export type RentFaults = { readonly [place in RentPlace]?: string | undefined }
export type RentPlace =
  | 'region'
  | 'gpu'
  | 'network'
  | 'count'
  | 'term'
  | 'ports'
  | 'label'
  | 'endsAt'
  | 'limitUsd'
  | 'volumeLabel'
  | 'volumeSizeGb'
  | 'volumeId'

/** What stands in the form alone, as it is typed. */
export const noDetails = {
  days: undefined as number | undefined,
  goesOn: true,
  cuda: '' as CudaVersion | '',
  ports: '',
  storage: noStorage,
  guards: noGuards,
}
export type Details = typeof noDetails

interface ShapeCardProps {
  readonly kind: RentalType
  readonly choices: Choices
  readonly onWish: (wish: Wish) => void
  readonly faults: RentFaults
}

export function ShapeCard({ kind, choices, onWish, faults }: ShapeCardProps) {
  const { option, gpuCount } = choices.chosen
  const [node] = option.nodes
  return (
    <Card title="Machine">
      <div className="flex flex-col gap-4">
        <RadioField
          label="Region"
          choices={choices.regions}
          value={option.region}
          onChange={(region) => onWish({ region: region as Option['region'] })}
          error={faults.region}
        />
        <RadioField
          label="GPU"
          choices={choices.gpus}
          value={option.gpuType}
          onChange={(gpu) => onWish({ gpu: gpu as Option['gpuType'] })}
          error={faults.gpu}
        />
        <RadioField
          label="Network"
          choices={choices.networks}
          value={option.connectionType}
          onChange={(network) => onWish({ network: network as Option['connectionType'] })}
          error={faults.network}
        />
        <RadioField
          label={kind === 'bare-metal' ? 'How many machines' : 'How many GPUs'}
          choices={choices.counts}
          value={String(gpuCount)}
          onChange={(text) => onWish({ count: Number(text) })}
          error={faults.count}
        />
        {node !== undefined && (
          <p className="text-sm text-muted">
            {kind === 'bare-metal' ? 'Each machine has' : 'With'} {node.cpuModel}, {number(node.cpuCount)} CPUs,{' '}
            {number(node.ramGb)} GB of memory and {number(node.storageGb)} GB of disk;{' '}
            {option.gpuFormFactor.toUpperCase()}.
          </p>
        )}
      </div>
    </Card>
  )
}

interface DetailProps {
  readonly details: Details
  readonly faults: RentFaults
  readonly onChange: (changed: Partial<Details>) => void
}

interface TermCardProps extends DetailProps {
  readonly terms: readonly TermQuote[]
  readonly term: TermQuote | undefined
  readonly listPrice: NanoUsd
}

export function TermCard({ terms, term, listPrice, details, faults, onChange }: TermCardProps) {
  return (
    <Card title="Term">
      <RadioField
        label="Price for"
        choices={termChoices(terms, listPrice)}
        value={term === undefined ? '' : String(term.days)}
        onChange={(days) => onChange({ days: days === '' ? undefined : Number(days) })}
        error={faults.term}
      />
      {term !== undefined && (
        <div className="mt-3">
          <CheckField
            label="Go on when the term ends"
            hint={`On demand, at ${hourlyPrice(listPrice)}. Otherwise it ends with its term.`}
            checked={details.goesOn}
            onChange={(event) => onChange({ goesOn: event.target.checked })}
          />
        </div>
      )}
    </Card>
  )
}

interface SetUpCardProps extends DetailProps {
  readonly kind: RentalType
  readonly region: string
}

export function SetUpCard({ kind, region, details, faults, onChange }: SetUpCardProps) {
  return (
    <Card title="Set up">
      <div className="flex flex-col gap-4">
        {kind === 'virtual-machine' ? (
          <TextField
            label="Ports"
            value={details.ports}
            onChange={(event) => onChange({ ports: event.target.value })}
            placeholder="8080, 8888"
            hint={portsHint}
            error={faults.ports}
          />
        ) : (
          <>
            <SelectField
              label="CUDA version"
              value={details.cuda}
              onChange={(event) => onChange({ cuda: event.target.value as Details['cuda'] })}
              choices={[{ value: '', label: 'The machine’s usual one' }, ...cudaVersions]}
            />
            <StorageFields
              region={region}
              texts={details.storage}
              faults={{ label: faults.volumeLabel, sizeGb: faults.volumeSizeGb, id: faults.volumeId }}
              onChange={(storage) => onChange({ storage })}
            />
          </>
        )}
        <GuardFields texts={details.guards} onChange={(guards) => onChange({ guards })} faults={faults} />
      </div>
    </Card>
  )
}
