/** Shows names instead of IDs, as far as the key's scopes allow. */
import type { Reply } from '../../../src/client/client.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { RentalLink } from '../rental/link.tsx'

type Row = Reply<'getUsageSummary'>['rows'][number]
type Grouping = Exclude<Reply<'getUsageSummary'>['by'], 'day'>

/** Spend without a model, key or rental. */
const otherGroups: Readonly<Record<string, string>> = {
  machines: 'Machines',
  storage: 'Storage volumes',
  inference: 'Inference requests',
  other: 'Other',
  'no key': 'No key',
}

/** Names for the legend of a chart. */
export function useUsageNames(by: Grouping): (row: Row) => string {
  const keyNames = useKeyNames(by === 'key')
  return ({ group, rental }) => {
    const other = otherGroups[group]
    if (other !== undefined) return other
    if (by === 'rental') return rental?.label ?? rental?.name ?? `Rental ${group}`
    return by === 'key' ? (keyNames.get(group)?.name ?? `Key ${group}`) : group
  }
}

/** A name in a table. */
export function UsageName({ by, row }: { by: Grouping; row: Row }) {
  const { group, rental } = row
  const other = otherGroups[group]
  if (other !== undefined) return <span className="whitespace-nowrap">{other}</span>
  if (by === 'rental') return <RentalLink id={group} rental={rental} />
  if (by === 'key') return <KeyName id={group} />
  return <span className="font-mono break-all">{group}</span>
}

function useKeyNames(enabled: boolean): ReadonlyMap<string, Reply<'listApiKeys'>['apiKeys'][number]> {
  const mayList = useMay('keys')
  const { data } = useCall('listApiKeys', {}, { enabled: enabled && mayList })
  return new Map(data?.apiKeys.map((key) => [key.publicId, key]))
}

function KeyName({ id }: { id: string }) {
  const key = useKeyNames(true).get(id)
  if (key === undefined) return <span className="font-mono">{id}</span>
  return (
    <>
      {key.name} <span className="font-mono text-muted">…{key.last4}</span>
      {key.revokedAt !== null && <span className="text-muted"> (revoked)</span>}
    </>
  )
}
