/** Names instead of ids, as far as the key that is signed in may know them. */
import type { Reply } from '../../src/client/client.ts'
import { useMay } from '../api/me.ts'
import { useCall } from '../api/query.ts'
import { TextLink } from '../ui/button.tsx'

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
export function useUsageNames(by: Grouping): (group: string) => string {
  const keyNames = useKeyNames(by === 'key')
  return (group) => {
    const word = words[group]
    if (word !== undefined) return word
    if (by === 'rental') return `Rental ${group}`
    return by === 'key' ? (keyNames.get(group)?.name ?? `Key ${group}`) : group
  }
}

/** In a table: with what tells two of the same name apart. */
export function UsageName({ by, group }: { by: Grouping; group: string }) {
  const word = words[group]
  if (word !== undefined) return <span className="whitespace-nowrap">{word}</span>
  if (by === 'rental') return <RentalName id={Number.parseInt(group, 10)} />
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

/** Those that have ended are found too. An instance of the marketplace has no page under its number. */
function RentalName({ id }: { id: number }) {
  const mayRead = useMay('compute:read')
  const { data } = useCall('getRental', { params: { id } }, { enabled: mayRead })
  if (data === undefined) return <>Rental {id}</>
  return (
    <>
      <TextLink to="/rentals/$id" params={{ id: String(id) }}>
        {`Rental ${id}`}
      </TextLink>
      <span className="text-muted"> {[data.name, data.label].filter(Boolean).join(', ')}</span>
    </>
  )
}
