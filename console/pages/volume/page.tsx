/** One volume: how full it is, which rentals use it and where, and what its provider can do with it. */
import { getRouteApi } from '@tanstack/react-router'
import { DAY_MS } from '../../../src/base/instant.ts'
import { costOfSpan, usdFromNumber, zeroUsd } from '../../../src/base/money.ts'
import { hourlyPrice, money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { kindList, rentalKindLabels } from '../../../src/view/rental.ts'
import { localTime } from '../../../src/view/time.ts'
import {
  rentalNameOf,
  whyNotAttach,
  whyNotClone,
  whyNotDelete,
  whyNotDetach,
  whyNotGrow,
  type Mounted,
  type Volume,
} from '../../../src/view/volume.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { actionsColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Card, Code, Facts } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Table } from '../../ui/table.tsx'
import { MONTH_DAYS } from '../rent/money.tsx'
import { RentalLink } from '../volumes/mount-link.tsx'
import { VolumeBadge } from '../volumes/page.tsx'
import { Usage } from '../volumes/usage.tsx'
import { AttachDialog, DetachDialog } from './attach.tsx'
import { CloneDialog, DeleteDialog, GrowDialog } from './change.tsx'
import { UseCard } from './use.tsx'

const route = getRouteApi('/shell/volumes/$id')

export function VolumePage() {
  const { id } = route.useParams()
  // The list has no filter for one volume: the first one below the next id is it.
  const before = /^\d{1,9}$/.test(id) ? Number(id) + 1 : 1
  const volumes = useCall('listVolumes', { query: { before, limit: 1 } })
  const volume = volumes.data?.find((one) => String(one.id) === id)
  if (volume !== undefined) return <OneVolume volume={volume} />
  return (
    <Page>
      <Answer of={volumes}>
        {() => (
          <Empty title="Volume not found" action={<ButtonLink to="/volumes">All volumes</ButtonLink>}>
            It was deleted or belongs to another account.
          </Empty>
        )}
      </Answer>
    </Page>
  )
}

const actions = [
  { label: 'Attach', whyNot: whyNotAttach, Dialog: AttachDialog },
  { label: 'Grow', whyNot: whyNotGrow, Dialog: GrowDialog },
  { label: 'Clone', whyNot: whyNotClone, Dialog: CloneDialog },
  { label: 'Delete', whyNot: whyNotDelete, Dialog: DeleteDialog },
] as const

function OneVolume({ volume }: { volume: Volume }) {
  const noScope = useMay('compute:write') ? undefined : missingScope('compute:write')
  const dialog = useDialog()
  return (
    <Page
      title={volume.label}
      intro={`${number(volume.sizeGb)} GB in ${volume.region}`}
      actions={actions.map(({ label, whyNot, Dialog }) => (
        <Button
          key={label}
          disabledReason={noScope ?? whyNot(volume)}
          onClick={() => dialog.open((close) => <Dialog volume={volume} onClose={close} />)}
        >
          {label}
        </Button>
      ))}
    >
      <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-2">
        <AboutCard volume={volume} />
        <EngineCard volume={volume} />
      </div>
      <UsedBy
        volume={volume}
        noScope={noScope}
        onDetach={(mount) =>
          dialog.open((close) => (
            <DetachDialog
              volume={volume}
              rental={{ id: String(mount.rentalId), name: rentalNameOf(mount) }}
              onClose={close}
            />
          ))
        }
      />
      <UseCard volume={volume} />
      {dialog.shown}
    </Page>
  )
}

function AboutCard({ volume }: { volume: Volume }) {
  const perHour = usdFromNumber(volume.costPerHour) ?? zeroUsd
  return (
    <Card title="Volume">
      <Facts
        facts={[
          ['State', <VolumeBadge key="state" volume={volume} />],
          [volume.usedGb === null ? 'Size' : 'Used', <Usage key="usage" volume={volume} />],
          [
            'Price',
            `${hourlyPrice(perHour)}, ${money(costOfSpan(perHour, MONTH_DAYS * DAY_MS))} per ${MONTH_DAYS} days`,
          ],
          ['Region', volume.region],
          ['Machine', volume.nodeName && <Code key="machine" text={volume.nodeName} />],
          ['Volume ID', volume.id],
          ['Created', localTime(volume.createdAt)],
        ]}
      />
    </Card>
  )
}

function EngineCard({ volume: { supports, nodeName } }: { volume: Volume }) {
  return (
    <Card title="Where it can be used">
      <Facts
        facts={[
          ['When you order', sentence(kindList(supports.kinds)) || 'Nothing'],
          ['While they run', sentence(kindList(supports.attach)) || 'Not possible: order the machine with it'],
          [
            'Writers',
            supports.shared
              ? 'Several machines at the same time'
              : 'One machine at a time, or several containers that only read',
          ],
          ['Machines', nodeName === null ? 'All of its engine in its region' : 'Only the one that it is on'],
          ['Grow', supports.grow ? 'Yes, also while it is in use' : 'Not supported by its engine'],
          ['Clone', supports.clone ? 'Yes, while nothing uses it' : 'Not supported by its engine'],
        ]}
      />
    </Card>
  )
}

function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1)
}

interface UsedByProps {
  readonly volume: Volume
  readonly noScope: string | undefined
  readonly onDetach: (mount: Mounted) => void
}

function UsedBy({ volume, noScope, onDetach }: UsedByProps) {
  const detach = (mount: Mounted) => (
    <Button
      aria-label={`Detach from ${rentalNameOf(mount)}`}
      disabledReason={noScope ?? whyNotDetach(volume, mount)}
      onClick={() => onDetach(mount)}
    >
      Detach
    </Button>
  )
  return (
    <Card title="Used by">
      <Table
        label="Rentals with this volume"
        columns={[...columns, actionsColumn(detach)]}
        rows={volume.mounts}
        rowKey="rentalId"
        empty={
          <Empty title="Nothing uses it" action={<RentWithIt volume={volume} />}>
            Choose it under Volumes when you rent a machine
            {volume.supports.attach.length > 0 && ', or attach it to one that runs'}.
          </Empty>
        }
      />
    </Card>
  )
}

const columns: Columns<Mounted> = [
  textColumn('Rental', (mount) => <RentalLink mount={mount} />),
  textColumn('Kind', ({ kind }) => rentalKindLabels[kind], { wideOnly: true }),
  textColumn('Mounted at', ({ path }) => path, { className: 'font-mono' }),
  textColumn('Access', ({ readOnly }) => (readOnly ? 'Read-only' : 'Read-write'), {
    className: 'whitespace-nowrap',
  }),
  textColumn('State', 'state', { wideOnly: true }),
]

/** Links to order machines that can have the volume. */
function RentWithIt({ volume: { supports, nodeName, region } }: { volume: Volume }) {
  if (nodeName !== null && supports.kinds.includes('container')) {
    return (
      <ButtonLink to="/marketplace" search={{ text: nodeName, each: true }}>
        Show its machine
      </ButtonLink>
    )
  }
  const kind = supports.kinds.includes('virtual-machine') ? 'virtual-machine' : 'bare-metal'
  return (
    <ButtonLink to="/rent" search={{ kind, region }}>
      Rent a machine in {region}
    </ButtonLink>
  )
}
