/** Explains where an order would be placed now, and why other machines don't match. */
import { getRouteApi } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { region } from '../../../src/contract/region.ts'
import { rentalType } from '../../../src/contract/rental.ts'
import { gpuType, networkType } from '../../../src/contract/shared.ts'
import type { PlacementReason } from '../../../src/contract/placement.ts'
import { networkLabels } from '../../../src/view/gpu.ts'
import { gpuHourPrice } from '../../../src/view/money.ts'
import { count, number } from '../../../src/view/number.ts'
import { historyText, orderLabels } from '../../../src/view/provider.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'
import { useCall } from '../../api/query.ts'
import { numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { choicesOf } from '../../list/filter.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'
import { VirtualTable } from '../../ui/virtual-table.tsx'

const route = getRouteApi('/shell/operator/fleet')

/** Matches the simulated fleet. */
const defaults = { type: 'virtual-machine', region: 'mock-region', gpu: 'h100', network: 'ethernet', gpus: 1 } as const

export function FleetPlacement() {
  const search = route.useSearch()
  const isSubmitted = search.gpus !== undefined
  const order = {
    machineType: search.type ?? defaults.type,
    region: search.region ?? defaults.region,
    gpuType: search.gpu ?? defaults.gpu,
    networkType: search.network ?? defaults.network,
    gpuCount: search.gpus ?? defaults.gpus,
  }
  const report = useCall('explainPlacement', { body: order }, { enabled: isSubmitted })
  return (
    <div className="flex flex-col gap-4">
      <OrderForm />
      {isSubmitted && (
        <Answer of={report} skeleton={<Skeleton rows={6} />}>
          {(value) => <Report report={value} />}
        </Answer>
      )}
    </div>
  )
}

function OrderForm() {
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const [values, setValues] = useState({
    type: search.type ?? defaults.type,
    region: search.region ?? defaults.region,
    gpu: search.gpu ?? defaults.gpu,
    network: search.network ?? defaults.network,
    gpus: String(search.gpus ?? defaults.gpus),
  })
  const gpus = /^\d{1,4}$/.test(values.gpus.trim()) ? Number.parseInt(values.gpus, 10) : 0
  const wrong = gpus >= 1 && gpus <= 4_096 ? undefined : 'Enter a number from 1 to 4,096.'
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    void navigate({ search: { tab: 'placement', ...values, gpus } })
  }
  const choose = <Value extends string>(
    name: keyof typeof values,
    options: readonly Value[],
    label?: (value: Value) => string,
  ) => ({
    choices: choicesOf(options, label),
    value: values[name],
    onChange: (event: { target: { value: string } }) =>
      setValues((before) => ({ ...before, [name]: event.target.value })),
  })
  return (
    <Card title="Order">
      <form onSubmit={submit} className="grid items-start gap-3 sm:grid-cols-2 lg:grid-cols-5">
        <SelectField label="Kind" {...choose('type', rentalType.options, (type) => rentalKindLabels[type])} />
        <SelectField label="Region" {...choose('region', region.options)} />
        <SelectField label="GPU" {...choose('gpu', gpuType.options, (gpu) => gpu.toUpperCase())} />
        <SelectField label="Network" {...choose('network', networkType.options, (network) => networkLabels[network])} />
        <TextField
          label="GPUs"
          inputMode="numeric"
          value={values.gpus}
          error={wrong}
          onChange={(event) => setValues((before) => ({ ...before, gpus: event.target.value }))}
        />
        <div className="sm:col-span-2 lg:col-span-5">
          <Button type="submit" look="primary" disabled={wrong !== undefined}>
            Explain
          </Button>
        </div>
      </form>
    </Card>
  )
}

type Placement = Reply<'explainPlacement'>

function Report({ report }: { report: Placement }) {
  const { candidates, rejected, rejectedCount } = report
  return (
    <>
      <div className="flex flex-wrap items-center gap-3" role="status">
        {report.found ? <Badge tone="good">can be placed</Badge> : <Badge tone="bad">cannot be placed</Badge>}
        <span className="text-sm">
          {count(candidates.length, 'matching machine')}, {number(rejectedCount)} that don’t match.{' '}
          <PriceNote price={report.price} />
        </span>
      </div>
      <Card title="Matching machines">
        <Table
          label="Matching machines"
          columns={candidateColumns}
          rows={candidates.map((machine, at) => ({ ...machine, at: at + 1 }))}
          rowKey="machineId"
          empty="No machine matches now. The reasons are below."
        />
      </Card>
      <Card title="Machines that don’t match">
        <VirtualTable
          label="Machines that don’t match"
          columns={rejectedColumns}
          rows={rejected}
          rowKey="machineId"
          empty="All machines match."
        />
        {rejectedCount > rejected.length && (
          <p className="mt-2 text-sm text-muted">
            Showing the closest {number(rejected.length)} of {number(rejectedCount)}.
          </p>
        )}
      </Card>
    </>
  )
}

function PriceNote({ price }: { price: Placement['price'] }) {
  if (price === 'found') return 'The price book has a price for this order.'
  const why = {
    disabled: 'The price book entry for this order is disabled.',
    missing: 'The price book has no price for this order.',
    other_gpu_count: 'The price book only has prices for other GPU counts.',
  }[price]
  return (
    <>
      {why} <TextLink to="/operator/prices">View price book</TextLink>
    </>
  )
}

const candidateColumns: Columns<Placement['candidates'][number] & { readonly at: number }> = [
  textColumn('Rank', 'at'),
  textColumn('Machine', ({ machineId, clusterName }) => (
    <div className="min-w-52">
      <div className="break-all">{machineId}</div>
      {clusterName !== machineId && <div className="break-all text-muted">{clusterName}</div>}
    </div>
  )),
  textColumn('Order', ({ order }) => orderLabels[order], { className: 'whitespace-nowrap' }),
  textColumn('Engine', 'driver'),
  textColumn('Free GPUs', ({ gpusFree, gpusTotal }) => `${gpusFree} of ${gpusTotal}`, {
    align: 'right',
    className: 'whitespace-nowrap',
  }),
  textColumn('Cost to us', ({ costPerGpuHourUsd: cost }) => (cost === null ? 'own machine' : gpuHourPrice(cost)), {
    align: 'right',
  }),
  numberColumn('Preference', 'preference'),
  textColumn('Last hour', (machine) => historyText(machine) ?? null, { className: 'block min-w-52' }),
]

const reasonLabels: Readonly<Record<PlacementReason, string>> = {
  other_offering: 'Different offering',
  region_mismatch: 'Different region',
  other_gpu: 'Different GPUs',
  other_network: 'Different network',
  engine_off: 'Engine not enabled here',
  not_listed: 'Off sale',
  draining: 'Draining',
  cleaning: 'Cleaning',
  quarantined: 'Quarantined',
  lost: 'Not reported by its engine',
  other_size: 'Different size',
  not_whole: 'Partly rented',
  too_few_free: 'Too few free GPUs',
  sick_gpus: 'Faulty GPUs',
  no_disk: 'Too little free disk',
  costs_too_much: 'Above the maximum price',
  cluster_too_small: 'Cluster too small',
}

const rejectedColumns: Columns<Placement['rejected'][number]> = [
  textColumn('Machine', 'machineId'),
  textColumn('Engine', 'driver'),
  textColumn('Reason', ({ reason }) => reasonLabels[reason]),
  textColumn('Detail', 'detail'),
]
