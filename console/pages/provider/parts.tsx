/** Parts shared by the list and the page of provider accounts. */
import { usd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import { money } from '../../../src/view/money.ts'
import { providerStateLabels, type Provider } from '../../../src/view/provider.ts'
import { localTime, span } from '../../../src/view/time.ts'
import { Ago, LabelBadge } from '../../list/column.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Money } from '../../ui/money.tsx'
import { useNow } from '../../ui/now.ts'
import { Progress } from '../../ui/progress.tsx'

export type Margin = Reply<'listMargins'>['margins'][number]
type Credential = Reply<'listProviders'>['kinds'][number]['credentials'][number]

/** The state of the account, and how long it has been in it. */
export function ProviderHealth({ account: { state, stateSince } }: { account: Provider }) {
  return (
    <span className="whitespace-nowrap">
      <LabelBadge of={providerStateLabels[state]} />{' '}
      <span className="text-muted">
        for <Elapsed since={stateSince} />
      </span>
    </span>
  )
}

/** The time since then, such as `2 hours`, kept current. */
export function Elapsed({ since }: { since: string }) {
  const now = useNow()
  return <time title={`Since ${localTime(since)}`}>{span(Math.max(0, now - Date.parse(since)))}</time>
}

/** Why the account is not healthy, and until when no requests are sent to it. */
export function Problem({ account }: { account: Provider }) {
  const reason = lastError(account)
  if (reason === undefined) return null
  return (
    <div className="max-w-sm min-w-48 text-muted">
      <p className="line-clamp-2 break-words" title={reason}>
        {reason}
      </p>
      <p>
        {account.answeredAt === null ? (
          'Never answered.'
        ) : (
          <>
            Last answer <Ago at={account.answeredAt} />
          </>
        )}
      </p>
    </div>
  )
}

/** The last error. An account that was suspended while it failed keeps it. */
export function lastError({ state, stateReason }: Provider): string | undefined {
  return state === 'healthy' || stateReason === null ? undefined : stateReason
}

export function MonthCost({ account }: { account: Provider }) {
  const { costThisMonthUsd: cost, monthlyCapUsd: cap } = account
  return (
    <div className="min-w-28">
      <Money usd={cost} />{' '}
      <span className="whitespace-nowrap text-muted">{cap === null ? 'no cap' : `of ${money(cap)}`}</span>
      {cap !== null && <CapProgress cost={cost} cap={cap} />}
    </div>
  )
}

/** A cap of zero is reached from the start. */
export function CapProgress({ cost, cap }: { cost: string; cap: string }) {
  const [spent, limit] = [usd(cost), usd(cap)]
  const isReached = spent >= limit
  const percent = isReached ? 100 : Number((spent * 1_000n) / limit) / 10
  return (
    <div className="mt-1 flex flex-col items-start gap-1">
      <Progress label="Part of the monthly cap" value={percent} max={100} />
      {isReached && <Badge tone="warn">cap reached</Badge>}
    </div>
  )
}

export function MarginAmount({ margin }: { margin: Margin | undefined }) {
  if (margin === undefined) return '—'
  const { marginUsd } = margin
  return (
    <span className={marginUsd.startsWith('-') ? 'text-bad' : ''}>
      <Money usd={marginUsd} />
    </span>
  )
}

/** The credentials file as the CLI reads it: bare text if the cloud has one credential, otherwise JSON. */
export function credentialsFile(credentials: readonly Credential[]): { readonly name: string; readonly text: string } {
  if (credentials.length === 1) return { name: 'key.txt', text: `<${credentials[0]?.name}>` }
  const fields = credentials.flatMap(({ name, optional }) => (optional === true ? [] : [[name, `<${name}>`] as const]))
  return { name: 'credentials.json', text: JSON.stringify(Object.fromEntries(fields), undefined, 2) }
}
