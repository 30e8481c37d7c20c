/** Where an order would go now and why nowhere else, by the rules that orders themselves are placed by. */
import { getRouteApi } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { region } from '../../../src/contract/region.ts'
import { rentalType } from '../../../src/contract/rental.ts'
import { gpuType, networkType } from '../../../src/contract/shared.ts'
import type { PlacementReason } from '../../../src/contract/host.ts'
import { count } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { SelectField, TextField, type Choice } from '../../ui/field.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, VirtualTable, type Column } from '../../ui/table.tsx'

const route = getRouteApi('/shell/operator/fleet')

/** What is asked first: it fits the simulated fleet. */
const usual = { type: 'virtual-machine', region: 'mock-region', gpu: 'h100', network: 'ethernet', gpus: 1 } as const

export function FleetPlacement() {
  const search = route.useSearch()
  const isAsked = search.gpus !== undefined
  const order = {
    machineType: search.type ?? usual.type,
    region: search.region ?? usual.region,
    gpuType: search.gpu ?? usual.gpu,
    networkType: search.network ?? usual.network,
    gpuCount: search.gpus ?? usual.gpus,
  }
  const report = useCall('explainPlacement', { body: order }, { enabled: isAsked })
  return (
    <div className="flex flex-col gap-4">
      <OrderForm />
      {isAsked && (
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
    type: search.type ?? usual.type,
    region: search.region ?? usual.region,
    gpu: search.gpu ?? usual.gpu,
    network: search.network ?? usual.network,
    gpus: String(search.gpus ?? usual.gpus),
  })
  const gpus = /^\d{1,4}$/.test(values.gpus.trim()) ? Number.parseInt(values.gpus, 10) : 0
  const wrong = gpus >= 1 && gpus <= 4_096 ? undefined : 'A whole number from 1 to 4,096.'
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    void navigate({ search: { tab: 'placement', ...values, gpus } })
  }
  const choose = <Value extends string>(name: keyof typeof values, options: readonly Value[]) => ({
    choices: options.map((value): Choice => ({ value, label: value })),
    value: values[name],
    onChange: (event: { target: { value: string } }) =>
      setValues((before) => ({ ...before, [name]: event.target.value })),
  })
  return (
    <Card title="An order">
      <form onSubmit={submit} className="grid items-start gap-3 sm:grid-cols-2 lg:grid-cols-5">
        <SelectField label="Kind" {...choose('type', rentalType.options)} />
        <SelectField label="Region" {...choose('region', region.options)} />
        <SelectField label="GPU" {...choose('gpu', gpuType.options)} />
        <SelectField label="Network" {...choose('network', networkType.options)} />
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
        {report.found ? <Badge tone="good">would be placed</Badge> : <Badge tone="bad">would find no place</Badge>}
        <span className="text-sm">
          {count(candidates.length, 'machine')} would do, {rejectedCount} would not. <PriceWords price={report.price} />
        </span>
      </div>
      <Card title="Where it would go">
        <Table
          label="Machines that would do"
          columns={candidateColumns}
          rows={candidates.map((machine, at) => ({ ...machine, at: at + 1 }))}
          rowKey={(machine) => machine.machineId}
          empty={<p className="text-sm text-muted">No machine would do now; the reasons are below.</p>}
        />
      </Card>
      <Card title="Why not elsewhere">
        <VirtualTable
          label="Machines that would not do"
          columns={rejectedColumns}
          rows={rejected}
          rowKey={(machine) => machine.machineId}
          empty={<p className="text-sm text-muted">Every machine of the house would do.</p>}
        />
        {rejectedCount > rejected.length && (
          <p className="mt-2 text-sm text-muted">
            The nearest {rejected.length} of {rejectedCount}.
          </p>
        )}
      </Card>
    </>
  )
}

function PriceWords({ price }: { price: Placement['price'] }) {
  if (price === 'found') return 'The price book has a price for it.'
  const why = {
    disabled: 'The price book has switched its price off.',
    missing: 'The price book has no price for it.',
    other_gpu_count: 'The price book has prices for other numbers of GPUs only.',
  }[price]
  return (
    <>
      {why} <TextLink to="/operator/prices">Open the price book</TextLink>
    </>
  )
}

const candidateColumns: ReadonlyArray<Column<Placement['candidates'][number] & { at: number }>> = [
  { name: 'at', header: 'Tried', cell: (machine) => `${machine.at}.` },
  { name: 'machine', header: 'Machine', cell: (machine) => machine.machineId },
  { name: 'cluster', header: 'Cluster', cell: (machine) => machine.clusterName },
  { name: 'driver', header: 'Engine', cell: (machine) => machine.driver },
  {
    name: 'free',
    header: 'Free GPUs',
    align: 'right',
    cell: (machine) => `${machine.gpusFree} of ${machine.gpusTotal}`,
  },
]

const reasonWords: Readonly<Record<PlacementReason, string>> = {
  other_offering: 'Sold as something else',
  other_region: 'In another region',
  other_gpu: 'Other GPUs',
  other_network: 'Another network',
  engine_off: 'Its engine is off here',
  not_listed: 'Off sale',
  draining: 'Draining',
  cleaning: 'Being cleaned',
  quarantined: 'In quarantine',
  lost: 'Its engine does not show it',
  other_size: 'Of another size',
  not_whole: 'Not wholly free',
  too_few_free: 'Too few free GPUs',
  sick_gpus: 'Sick GPUs',
  costs_too_much: 'Costs more than the order pays',
  cluster_too_small: 'Its cluster is too small',
}

const rejectedColumns: ReadonlyArray<Column<Placement['rejected'][number]>> = [
  { name: 'machine', header: 'Machine', cell: (machine) => machine.machineId },
  { name: 'driver', header: 'Engine', cell: (machine) => machine.driver },
  { name: 'reason', header: 'Why not', cell: (machine) => reasonWords[machine.reason] },
  { name: 'detail', header: 'Detail', cell: (machine) => machine.detail },
]
