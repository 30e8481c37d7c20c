/** A supplier's machines: state, occupancy and price. Hosts raise no events, so the page that is shown is polled. */
import { useState, type ComponentProps } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { number } from '../../../src/view/number.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import { hasLeft, offeringLabels, standingOf, suppliedOf, type Supplied } from '../../../src/view/supply.ts'
import { useCall } from '../../api/query.ts'
import { actionsColumn, LabelBadge, textColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Stats } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { CheckField } from '../../ui/field.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { MachineDialog } from './machine.tsx'
import { MoveDialog, type Move } from './move.tsx'
import { PriceEditor } from './price.tsx'

const EVERY_MS = 5_000
/** A search by name can match other machines too. */
const MATCHES = 20

export function SupplyPage() {
  const [showsDeparted, setShowsDeparted] = useState(false)
  const dialog = useDialog()
  const ask = (one: Supplied, move: Move): void =>
    dialog.open((close) => <MoveDialog one={one} move={move} onClose={close} />)
  const show = (one: Supplied): void =>
    dialog.open((close) => <LiveMachine one={one} onMove={(move) => ask(one, move)} onClose={close} />)
  const join = (
    <ButtonLink to="/supply/join" look="primary">
      Join a machine
    </ButtonLink>
  )
  const actions = (one: Supplied) => (
    <>
      {one.machine !== undefined && !hasLeft(one) && <SaleButton one={one} onMove={(move) => ask(one, move)} />}
      <Button aria-label={`Details of ${one.id}`} onClick={() => show(one)}>
        Details
      </Button>
    </>
  )
  return (
    <Page
      intro="The machines you offer. A new price applies to new rentals; current rentals keep theirs."
      actions={join}
    >
      <CheckField
        label="Show machines that left"
        checked={showsDeparted}
        onChange={(event) => setShowsDeparted(event.target.checked)}
      />
      <PagedTable
        label="Machines"
        call="listSupply"
        query={showsDeparted ? { left: true } : {}}
        everyMs={EVERY_MS}
        above={totalsOf}
        rows={({ supplied }) => supplied.map(suppliedOf)}
        rowKey="id"
        columns={[...columns, actionsColumn(actions)]}
        skeleton={6}
        empty={
          <Empty title="No machines yet" action={join}>
            A machine joins with one command and is on sale seconds later. It needs no open ports. You can simulate GPUs
            to try it out.
          </Empty>
        }
      />
      {dialog.shown}
    </Page>
  )
}

/** The machine's state and metrics change while the dialog is open. */
function LiveMachine({ one, ...rest }: ComponentProps<typeof MachineDialog>) {
  const query = { q: one.id, left: true, limit: MATCHES }
  const { data } = useCall('listSupply', { query }, { everyMs: EVERY_MS })
  const latest = data?.supplied.find(({ id }) => id === one.id)
  return <MachineDialog one={latest === undefined ? one : suppliedOf(latest)} {...rest} />
}

function SaleButton({ one, onMove }: { one: Supplied; onMove: (move: Move) => void }) {
  const isListed = one.machine?.listed === true
  const label = isListed ? 'Take off sale' : 'Put on sale'
  return (
    <Button aria-label={`${label}: ${one.id}`} onClick={() => onMove(isListed ? 'unlist' : 'list')}>
      {label}
    </Button>
  )
}

function totalsOf({ totals }: Reply<'listSupply'>) {
  const { machines, onSale, gpus, gpusRented, gpusFaulty, tenants, left: departed } = totals
  if (machines + departed === 0) return null
  return (
    <Stats
      stats={[
        ['Machines', number(machines), `${onSale} on sale`],
        [
          'GPUs rented',
          `${number(gpusRented)} of ${number(gpus)}`,
          gpus === 0 ? '' : `${Math.round((gpusRented / gpus) * 100)}% occupied`,
        ],
        ['Tenants', number(tenants), 'On machines with an agent'],
        ['Faulty GPUs', number(gpusFaulty), gpusFaulty === 0 ? 'All healthy' : 'Withdrawn from sale'],
      ]}
    />
  )
}

const columns: Columns<Supplied> = [
  textColumn('Machine', ({ id, of }) => (
    <div className="min-w-36">
      <div className="font-medium">{id}</div>
      <div className="text-muted">
        {of.clusterName} · {of.region}
      </div>
    </div>
  )),
  textColumn('State', (one) => <State one={one} />),
  textColumn('GPUs', ({ host, of }) => (
    <div className="min-w-32">
      <div>
        {of.gpusTotal} × {gpuLabel(of.gpuModel)}
      </div>
      <div className="text-muted">
        {host?.simulated === true ? 'simulated' : offeringLabels[of.offering].toLowerCase()}
      </div>
    </div>
  )),
  textColumn('Rented', (one) => <Occupancy one={one} />),
  textColumn('Price per GPU-hour', ({ machine }) => (machine === undefined ? null : <PriceEditor machine={machine} />)),
]

function State({ one }: { one: Supplied }) {
  return <LabelBadge of={standingOf(one, useNow())} />
}

function Occupancy({ one: { machine } }: { one: Supplied }) {
  if (machine === undefined) return '—'
  const percent = machine.gpusTotal === 0 ? 0 : Math.round((machine.gpusInUse / machine.gpusTotal) * 100)
  return (
    <div className="min-w-20 tabular-nums">
      {machine.gpusInUse} of {machine.gpusTotal}
      <div aria-hidden="true" className="mt-1 h-1.5 w-20 overflow-hidden rounded-full bg-line">
        <div className="h-full rounded-full bg-accent" style={{ width: `${percent}%` }} />
      </div>
    </div>
  )
}
