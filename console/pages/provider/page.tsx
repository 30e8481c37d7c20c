/** One account at another cloud: health, offers, margin and bills. */
import { getRouteApi } from '@tanstack/react-router'
import type { ComponentType } from 'react'
import { formatInstant, instantOf } from '../../../src/base/instant.ts'
import { money } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { priceRule, providerStateLabels, type Provider } from '../../../src/view/provider.ts'
import { localTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { Ago, LabelBadge } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { ButtonLink } from '../../ui/button.tsx'
import { Card, Code, Facts, Stats } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Notice } from '../../ui/notice.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { ProviderActions } from './actions.tsx'
import { ProviderBills } from './bills.tsx'
import { ProviderMargin } from './margin.tsx'
import { ProviderOffers } from './offers.tsx'
import { CapProgress, Elapsed, lastError, MarginAmount } from './parts.tsx'
import type { ProviderTab } from './search.ts'

const route = getRouteApi('/shell/operator/providers/$name')
const EVERY_MS = 10_000

const tabs: Readonly<Record<ProviderTab, string>> = { offers: 'Offers', margin: 'Margin', bills: 'Bills' }
const panels: Readonly<Record<ProviderTab, ComponentType<{ readonly account: Provider }>>> = {
  offers: ProviderOffers,
  margin: ProviderMargin,
  bills: ProviderBills,
}

export function ProviderPage() {
  const { name } = route.useParams()
  const providers = useCall('listProviders', {}, { everyMs: EVERY_MS })
  const account = providers.data?.providers.find((one) => one.name === name)
  if (account !== undefined) return <OneProvider account={account} />
  return (
    <Page>
      <Answer of={providers}>
        {() => (
          <Empty title="Account not found" action={<ButtonLink to="/operator/providers">All accounts</ButtonLink>}>
            There is no account named {name}, or it was removed.
          </Empty>
        )}
      </Answer>
    </Page>
  )
}

function OneProvider({ account }: { account: Provider }) {
  const { name, title } = account
  const { tab = 'offers' } = route.useSearch()
  const navigate = route.useNavigate()
  const Panel = panels[tab]
  return (
    <Page title={name} intro={`Account at ${title}.`} actions={<ProviderActions account={account} />}>
      <Trouble account={account} />
      <Numbers account={account} />
      <Card title="Details">
        <Facts
          facts={[
            ['API address', <Code key="url" text={account.baseUrl} />],
            ['Selling price', priceRule(account)],
            ['Price floor', account.floorPerGpuHourUsd !== null && `${money(account.floorPerGpuHourUsd)} per GPU-hour`],
            ['Below cost', account.sellsBelowCost && 'may be sold below cost'],
            ['Preference', number(account.preference)],
            ['Mapped regions', regionsText(account)],
            ['Added', localTime(account.createdAt)],
          ]}
        />
      </Card>
      <Tabs
        label="Provider account"
        tabs={tabs}
        chosen={tab}
        onChoose={(chosen) => void navigate({ search: { tab: chosen }, replace: true })}
      >
        <Panel key={name} account={account} />
      </Tabs>
    </Page>
  )
}

function regionsText({ regions }: Provider): string | undefined {
  const pairs = Object.entries(regions).map(([theirs, ours]) => `${theirs} as ${ours}`)
  return pairs.length === 0 ? undefined : pairs.join(', ')
}

const troubles = {
  stale: 'The cloud does not answer',
  broken: 'The cloud rejects the credentials',
} as const

/** Why the account takes no orders. */
function Trouble({ account }: { account: Provider }) {
  const { state, pausedUntil } = account
  const reason = lastError(account)
  if (reason === undefined && state !== 'suspended') return null
  return (
    <Notice tone="warn">
      {state === 'suspended' && (
        <p>The account is suspended: it takes no new orders. Its rentals go on and are still charged.</p>
      )}
      {reason !== undefined && (
        <>
          <p className="break-words">
            {state === 'stale' || state === 'broken' ? troubles[state] : 'Last error'}: {reason}
          </p>
          {state !== 'suspended' && (
            <p>
              Its offers are off sale.
              {account.rentals > 0 && ' Its rentals are Unknown until it answers; they are not ended for that reason.'}
            </p>
          )}
        </>
      )}
      {pausedUntil !== null && (
        <p>It failed repeatedly, so no requests are sent there. The next attempt is at {localTime(pausedUntil)}.</p>
      )}
    </Notice>
  )
}

function Numbers({ account }: { account: Provider }) {
  const { name, state, stateSince, answeredAt, costThisMonthUsd: cost, monthlyCapUsd: cap } = account
  const today = formatInstant(instantOf(useNow())).slice(0, 10)
  const range = { by: 'provider', from: `${today.slice(0, 7)}-01`, to: today, name } as const
  const margins = useCall('listMargins', { query: range }, { keepsLast: true })
  const margin = margins.data?.margins[0]
  return (
    <Stats
      stats={[
        [
          'Health',
          <LabelBadge key="health" of={providerStateLabels[state]} />,
          <>
            <span className="block">
              For <Elapsed since={stateSince} />
            </span>
            {answeredAt !== null && (
              <span className="block">
                Last answer <Ago at={answeredAt} />
              </span>
            )}
          </>,
        ],
        [
          'Cost this month',
          money(cost),
          <>
            {cap === null ? 'No monthly cap' : `Monthly cap ${money(cap)}`}
            {cap !== null && <CapProgress cost={cost} cap={cap} />}
          </>,
        ],
        [
          'Margin this month',
          margins.data && <MarginAmount key="margin" margin={margin} />,
          margin === undefined ? 'No rentals billed yet' : `Revenue ${money(margin.revenueUsd)}`,
        ],
        ['Rentals', number(account.rentals), 'Not ended'],
      ]}
    />
  )
}
