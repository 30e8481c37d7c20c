/** Machines of all kinds in one table. */
import { lazy, Suspense, type ReactNode } from 'react'
import { rentalStateTable } from '../../../src/contract/rental-state.ts'
import { isLiving } from '../../../src/domain/rental.ts'
import { money } from '../../../src/view/money.ts'
import { span } from '../../../src/view/time.ts'
import { displayName, type OwnMachine } from '../../../src/view/own-machine.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'
import { actionsColumn, badgeColumn, textColumn, type Columns } from '../../list/column.tsx'
import { TextLink } from '../../ui/button.tsx'
import { useDialog, type OpenDialog } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'
import { CostSoFar } from '../rental/cost.tsx'
import { PowerButtons } from '../rental/power.tsx'
import { Sparkline, useSparklines } from './sparkline.tsx'

/** Longer lists render only visible rows, with code that the overview does not load. */
const PLAIN_ROWS = 100
const LongTable = lazy(async () => ({
  default: (await import('../../ui/virtual-table.tsx')).VirtualTable<OwnMachine>,
}))

interface MachineTableProps {
  readonly label: string
  readonly machines: readonly OwnMachine[]
  /** The time for which the costs are correct. */
  readonly readMs: number
  readonly empty: ReactNode
}

export function MachineTable({ label, machines, readMs, empty }: MachineTableProps) {
  const dialog = useDialog()
  const Rows = machines.length > PLAIN_ROWS ? LongTable : Table<OwnMachine>
  const lines = useSparklines(machines)
  const use = textColumn<OwnMachine>('GPU use, 1 h', ({ id }) => <Sparkline values={lines.get(id)} />, {
    wideOnly: true,
  })
  const cost = textColumn<OwnMachine>('Cost so far', (machine) => <CostSoFar machine={machine} readMs={readMs} />, {
    align: 'right',
  })
  return (
    <Suspense fallback={<Skeleton rows={8} />}>
      <Rows
        label={label}
        columns={[...columns.slice(0, 3), use, ...columns.slice(3), cost, powerColumn(dialog)]}
        rows={machines}
        rowKey="id"
        empty={empty}
      />
      {dialog.shown}
    </Suspense>
  )
}

const columns: Columns<OwnMachine> = [
  textColumn('Name', (machine) => <MachineLink machine={machine} />, { width: 'minmax(0, 2fr)' }),
  badgeColumn('State', ({ status }) => [status, rentalStateTable[status].tone]),
  textColumn('Machine', ({ gpus, kind }) => (
    <span className="block leading-tight whitespace-nowrap">
      <span className="block">{gpus}</span>
      <span className="block text-xs text-muted">{rentalKindLabels[kind]}</span>
    </span>
  )),
  textColumn('Region', 'region', { wideOnly: true, className: 'whitespace-nowrap' }),
  textColumn('Per hour', (machine) => <HourlyCost machine={machine} />, { align: 'right' }),
  textColumn('Age', ({ createdAt }) => <Age since={createdAt} />, { align: 'right' }),
]

/** A reboot is offered on the machine's own page only. */
function powerColumn(dialog: OpenDialog) {
  return actionsColumn<OwnMachine>((machine) => (
    <PowerButtons
      machine={{ ...machine, shownName: displayName(machine) }}
      dialog={dialog}
      isInTable
      only={['stop', 'start']}
    />
  ))
}

export function MachineLink({ machine }: { machine: Pick<OwnMachine, 'id' | 'name' | 'label'> }) {
  const name = displayName(machine)
  return (
    <span className="block leading-tight whitespace-nowrap">
      <TextLink to="/rentals/$id" params={{ id: machine.id }}>
        {name}
      </TextLink>
      {name !== machine.name && <span className="block text-xs text-muted">{machine.name}</span>}
    </span>
  )
}

function Age({ since }: { since: string }) {
  return <span className="whitespace-nowrap">{span(useNow() - Date.parse(since))}</span>
}

/** Shows the amount charged now, so that the rows add up to the hourly spend. */
function HourlyCost({ machine }: { machine: OwnMachine }) {
  const { currentCostPerHour: now, pricePerHour: price, status } = machine
  return (
    <span className="block leading-tight whitespace-nowrap">
      <span className="block">{money(now)}</span>
      {now !== price && isLiving(status) && (
        <span className="block text-xs text-muted">{money(price)} when running</span>
      )}
    </span>
  )
}
