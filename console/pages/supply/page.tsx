/**
 * A supplier's machines: state, occupancy and price. Hosts raise no events, so they are polled.
 */
import { useState } from 'react'
import { count, number } from '../../../src/view/number.ts'
import { gpuLabel } from '../../../src/view/gpu.ts'
import {
  hasLeft,
  ON_SALE,
  joinHostsAndMachines,
  offeringLabels,
  standingOf,
  type Supplied,
} from '../../../src/view/supply.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Stat, Stats } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { CheckField } from '../../ui/field.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table, type Column } from '../../ui/table.tsx'
import { MoveDialog, type Move } from './move.tsx'
import { PriceEditor } from './price.tsx'
import { MachineDialog } from './machine.tsx'
import { HOSTS_EVERY_MS, MACHINES_SHOWN } from './read.ts'

export function SupplyPage() {
  const query = { limit: MACHINES_SHOWN }
  const hosts = useCall('listSuppliedHosts', { query }, { everyMs: HOSTS_EVERY_MS })
  const machines = useCall('listSuppliedMachines', { query }, { everyMs: HOSTS_EVERY_MS })
  return (
    <Page
      intro="The machines you offer. A new price applies to new rentals; current rentals keep theirs."
      actions={
        <ButtonLink to="/supply/join" look="primary">
          Join a machine
        </ButtonLink>
      }
    >
      <Answer of={hosts} skeleton={<Skeleton rows={6} />}>
        {(hostPage) => (
          <Answer of={machines} skeleton={<Skeleton rows={6} />}>
            {(machinePage) => (
              <Machines
                all={joinHostsAndMachines(hostPage.hosts, machinePage.machines)}
                isCut={hostPage.nextCursor !== null || machinePage.nextCursor !== null}
              />
            )}
          </Answer>
        )}
      </Answer>
    </Page>
  )
}

/** The open dialog: the details of a machine, or the confirmation of an action. */
type Opened = { readonly id: string; readonly move?: Move }

function Machines({ all, isCut }: { all: readonly Supplied[]; isCut: boolean }) {
  const [opened, setOpened] = useState<Opened | undefined>()
  const [showsLeft, setShowsLeft] = useState(false)
  const shown = showsLeft ? all : all.filter((one) => !hasLeft(one))
  const leftCount = all.filter(hasLeft).length
  const one = all.find(({ id }) => id === opened?.id)
  return (
    <>
      {all.length > 0 && <Sums all={all.filter((supplied) => !hasLeft(supplied))} />}
      <Table
        label="Machines"
        columns={columnsWith(setOpened)}
        rows={shown}
        rowKey={(row) => row.id}
        empty={
          <Empty
            title="No machines yet"
            action={
              <ButtonLink to="/supply/join" look="primary">
                Join a machine
              </ButtonLink>
            }
          >
            A machine joins with one command and is on sale seconds later. It needs no open ports. You can simulate GPUs
            to try it out.
          </Empty>
        }
      />
      {leftCount > 0 && (
        <CheckField
          label={`Show ${count(leftCount, 'machine')} that left`}
          checked={showsLeft}
          onChange={(event) => setShowsLeft(event.target.checked)}
        />
      )}
      {isCut && (
        <p className="text-sm text-muted">
          Showing the first {number(MACHINES_SHOWN)}. To list all, run `berth supply hosts`.
        </p>
      )}
      {one !== undefined && opened !== undefined && opened.move === undefined && (
        <MachineDialog
          one={one}
          onMove={(move) => setOpened({ id: one.id, move })}
          onClose={() => setOpened(undefined)}
        />
      )}
      {one !== undefined && opened?.move !== undefined && (
        <MoveDialog one={one} move={opened.move} onClose={() => setOpened(undefined)} />
      )}
    </>
  )
}

function Sums({ all }: { all: readonly Supplied[] }) {
  const now = useNow()
  const gpus = all.reduce((sum, one) => sum + one.of.gpusTotal, 0)
  const sick = all.reduce((sum, one) => sum + one.of.gpusSick.length, 0)
  const inUse = all.reduce((sum, one) => sum + (one.machine?.gpusInUse ?? 0), 0)
  const onSale = all.filter((one) => standingOf(one, now) === ON_SALE).length
  const tenants = all.reduce((sum, one) => sum + (one.host?.tenants ?? 0), 0)
  return (
    <Stats>
      <Stat label="Machines" value={number(all.length)} detail={`${onSale} on sale`} />
      <Stat
        label="GPUs rented"
        value={`${number(inUse)} of ${number(gpus)}`}
        detail={gpus === 0 ? '' : `${Math.round((inUse / gpus) * 100)}% occupied`}
      />
      <Stat label="Tenants" value={number(tenants)} detail="On machines with an agent" />
      <Stat label="Faulty GPUs" value={number(sick)} detail={sick === 0 ? 'All healthy' : 'Withdrawn from sale'} />
    </Stats>
  )
}

function columnsWith(open: (opened: Opened) => void): ReadonlyArray<Column<Supplied>> {
  return [
    {
      name: 'machine',
      header: 'Machine',
      cell: (one) => (
        <div className="min-w-36">
          <div className="font-medium">{one.id}</div>
          <div className="text-muted">
            {one.of.clusterName} · {one.of.region}
          </div>
        </div>
      ),
    },
    { name: 'state', header: 'State', cell: (one) => <State one={one} /> },
    {
      name: 'gpus',
      header: 'GPUs',
      cell: (one) => (
        <div className="min-w-32">
          <div>
            {one.of.gpusTotal} × {gpuLabel(one.of.gpuModel)}
          </div>
          <div className="text-muted">
            {one.host?.simulated === true ? 'simulated' : offeringLabels[one.of.offering].toLowerCase()}
          </div>
        </div>
      ),
    },
    { name: 'rented', header: 'Rented', cell: (one) => <Occupancy one={one} /> },
    {
      name: 'price',
      header: 'Price per GPU-hour',
      cell: (one) => (one.machine === undefined ? '—' : <PriceEditor machine={one.machine} />),
    },
    {
      name: 'actions',
      header: <span className="sr-only">Actions</span>,
      align: 'right',
      cell: (one) => (
        <span className="inline-flex gap-2">
          {one.machine !== undefined && !hasLeft(one) && (
            <Button
              aria-label={`${one.machine.listed ? 'Take off sale' : 'Put on sale'}: ${one.id}`}
              onClick={() => open({ id: one.id, move: one.machine?.listed === true ? 'unlist' : 'list' })}
            >
              {one.machine.listed ? 'Take off sale' : 'Put on sale'}
            </Button>
          )}
          <Button aria-label={`Details of ${one.id}`} onClick={() => open({ id: one.id })}>
            Details
          </Button>
        </span>
      ),
    },
  ]
}

function State({ one }: { one: Supplied }) {
  const { label, tone, hint } = standingOf(one, useNow())
  return (
    <span title={hint}>
      <Badge tone={tone}>{label}</Badge>
    </span>
  )
}

function Occupancy({ one }: { one: Supplied }) {
  const { machine } = one
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
