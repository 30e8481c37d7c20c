/** Machines of all kinds in one table. */
import type { ReactNode } from 'react'
import { money } from '../../../src/view/money.ts'
import { span } from '../../../src/view/time.ts'
import { displayName, maxCost, type OwnMachine } from '../../../src/view/own-machine.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'
import { RentalBadge } from '../../ui/badge.tsx'
import { TextLink } from '../../ui/button.tsx'
import { useNow } from '../../ui/now.ts'
import { Table, VirtualTable, type Column } from '../../ui/table.tsx'
import { shortMoney } from '../rental/cost.tsx'

/** Longer lists render only visible rows. */
const PLAIN_ROWS = 100

interface MachineTableProps {
  readonly label: string
  readonly machines: readonly OwnMachine[]
  readonly empty: ReactNode
}

export function MachineTable({ label, machines, empty }: MachineTableProps) {
  const Rows = machines.length > PLAIN_ROWS ? VirtualTable<OwnMachine> : Table<OwnMachine>
  return (
    <Rows label={label} columns={columns} rows={machines} rowKey={({ kind, id }) => `${kind} ${id}`} empty={empty} />
  )
}

const columns: ReadonlyArray<Column<OwnMachine>> = [
  { name: 'name', header: 'Name', width: 'minmax(0, 2fr)', cell: (machine) => <MachineLink machine={machine} /> },
  { name: 'status', header: 'State', cell: ({ status }) => <RentalBadge status={status} /> },
  {
    name: 'kind',
    header: 'Kind',
    cell: ({ kind }) => <span className="whitespace-nowrap">{rentalKindLabels[kind]}</span>,
  },
  { name: 'gpus', header: 'GPUs', cell: ({ gpus }) => <span className="whitespace-nowrap">{gpus}</span> },
  { name: 'region', header: 'Region', wideOnly: true, cell: ({ region }) => region },
  { name: 'price', header: 'Per hour', align: 'right', cell: ({ pricePerHour }) => money(pricePerHour) },
  { name: 'age', header: 'Age', align: 'right', cell: ({ createdAt }) => <Age since={createdAt} /> },
  { name: 'cost', header: 'Cost (estimate)', align: 'right', cell: (machine) => <EstimatedCost machine={machine} /> },
]

export function MachineLink({ machine }: { machine: Pick<OwnMachine, 'kind' | 'id' | 'name' | 'label'> }) {
  const name = displayName(machine)
  const to = machine.kind === 'container' ? '/rentals/containers/$id' : '/rentals/$id'
  return (
    <span className="whitespace-nowrap">
      <TextLink to={to} params={{ id: machine.id }}>
        {name}
      </TextLink>
      {name !== machine.name && <span className="ml-2 text-muted">{machine.name}</span>}
    </span>
  )
}

function Age({ since }: { since: string }) {
  return <span className="whitespace-nowrap">{span(useNow() - Date.parse(since))}</span>
}

function EstimatedCost({ machine }: { machine: OwnMachine }) {
  const cost = maxCost(machine, useNow())
  if (cost === undefined) return <span className="text-muted">—</span>
  return <span title="Price times running time. The machine’s page shows the exact cost.">{shortMoney(cost)}</span>
}
