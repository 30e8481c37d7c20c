/** Names instead of ids, as far as the key that is signed in may know them. */
import type { Reply } from '../../../src/client/client.ts'
import { useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { RentalLink } from '../rental/link.tsx'

type Row = Reply<'getUsageSummary'>['rows'][number]
type Grouping = Exclude<Reply<'getUsageSummary'>['by'], 'day'>

/** What is no model, key or rental is counted under a word. */
const words: Readonly<Record<string, string>> = {
  machines: 'Machines',
  storage: 'Storage volumes',
  inference: 'Requests to models',
  other: 'Other',
  'no key': 'No key',
}

/** Short names, for a legend. */
export function useUsageNames(by: Grouping): (row: Row) => string {
  const keyNames = useKeyNames(by === 'key')
  return ({ group, rental }) => {
    const word = words[group]
    if (word !== undefined) return word
    if (by === 'rental') return rental?.label ?? rental?.name ?? `Rental ${group}`
    return by === 'key' ? (keyNames.get(group)?.name ?? `Key ${group}`) : group
  }
}

/** In a table: with what tells two of the same name apart. */
export function UsageName({ by, row }: { by: Grouping; row: Row }) {
  const { group, rental } = row
  const word = words[group]
  if (word !== undefined) return <span className="whitespace-nowrap">{word}</span>
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
