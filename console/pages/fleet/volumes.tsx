/** Storage volumes of all accounts, with the last error of their engine. */
import { localTime, relativeTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { PAGE_ROWS, Pager, usePages } from '../../ui/pager.tsx'
import { volumeLabels } from '../../../src/view/volume.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { VirtualTable, type Column } from '../../ui/table.tsx'
import type { AnyVolume } from './read.ts'

const READ_EVERY_MS = 15_000

export function FleetVolumes() {
  const pages = usePages()
  const query = { limit: PAGE_ROWS, cursor: pages.cursor }
  const volumes = useCall('listAllVolumes', { query }, { everyMs: READ_EVERY_MS, keepsLast: true })
  const columns = columnsOf(useNow())
  return (
    <Answer of={volumes} skeleton={<Skeleton rows={8} />}>
      {({ volumes: rows, nextCursor }) => (
        <>
          <VirtualTable
            label="Volumes of all accounts"
            columns={columns}
            rows={rows}
            rowKey={(volume) => volume.id}
            empty={<Empty title="No volumes yet">Volumes that customers create are listed here.</Empty>}
          />
          <Pager pages={pages} nextCursor={nextCursor} />
        </>
      )}
    </Answer>
  )
}

function columnsOf(now: number): ReadonlyArray<Column<AnyVolume>> {
  return [
    {
      name: 'label',
      header: 'Volume',
      cell: (volume) => (
        <span title={`Volume ${volume.id}`}>
          {volume.label} <span className="text-muted">#{volume.id}</span>
        </span>
      ),
    },
    {
      name: 'account',
      header: 'Account',
      cell: ({ accountId, accountName }) => (
        <TextLink to="/operator/accounts/$id" params={{ id: accountId }}>
          {accountName}
        </TextLink>
      ),
    },
    { name: 'size', header: 'GB', align: 'right', width: '5rem', cell: ({ sizeGb }) => sizeGb.toLocaleString('en-US') },
    { name: 'region', header: 'Region', cell: ({ region }) => region },
    { name: 'driver', header: 'Engine', width: '7rem', cell: ({ driver }) => driver },
    {
      name: 'state',
      header: 'State',
      width: '8rem',
      cell: ({ state }) => <Badge tone={volumeLabels[state].tone}>{state}</Badge>,
    },
    {
      name: 'since',
      header: 'Since',
      width: '8.5rem',
      cell: ({ stateSince }) => <span title={localTime(stateSince)}>{relativeTime(stateSince, now)}</span>,
    },
    { name: 'error', header: 'Last error', width: 'minmax(0, 2fr)', cell: (volume) => <LastError volume={volume} /> },
  ]
}

/** Of the volume, or else of its first failing attachment. */
function LastError({ volume }: { volume: AnyVolume }) {
  const failing = volume.attachments.find(({ lastError }) => lastError !== null)
  const [text, at] =
    volume.lastError === null
      ? [failing === undefined ? null : `Rental ${failing.rentalId}: ${failing.lastError}`, failing?.lastErrorAt]
      : [volume.lastError, volume.lastErrorAt]
  if (text === null) return '—'
  return (
    <span className="text-bad" title={`${localTime(at ?? null)}: ${text}`}>
      {text}
    </span>
  )
}
