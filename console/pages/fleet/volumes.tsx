/** Storage volumes of all accounts, with the last error of their provider. */
import { localTime } from '../../../src/view/time.ts'
import { volumeLabels } from '../../../src/view/volume.ts'
import { accountColumn, agoColumn, badgeColumn, numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { PagedTable } from '../../list/table.tsx'
import { Empty } from '../../ui/empty.tsx'
import { NumberedName, type AnyVolume } from './read.tsx'

const READ_EVERY_MS = 15_000

export function FleetVolumes() {
  return (
    <PagedTable
      label="Volumes of all accounts"
      call="listAllVolumes"
      everyMs={READ_EVERY_MS}
      rows={({ volumes }) => volumes}
      rowKey="id"
      columns={columns}
      virtual
      empty={<Empty title="No volumes yet">Volumes that customers create are listed here.</Empty>}
    />
  )
}

const columns: Columns<AnyVolume> = [
  textColumn('Volume', ({ id, label }) => <NumberedName noun="Volume" id={id} name={label} />),
  accountColumn(),
  numberColumn('GB', 'sizeGb', { width: '5rem' }),
  textColumn('Region', 'region'),
  textColumn('Engine', 'driver', { width: '7rem' }),
  badgeColumn('State', ({ state }) => [state, volumeLabels[state].tone], { width: '8rem' }),
  agoColumn('Since', 'stateSince', { width: '8.5rem' }),
  textColumn('Last error', (volume) => <LastError volume={volume} />, { width: 'minmax(0, 2fr)' }),
]

/** The last error of the volume, otherwise that of its first failing attachment. */
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
