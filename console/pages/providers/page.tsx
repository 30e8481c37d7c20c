/** Accounts at other clouds: health, costs and margin of the month. */
import { formatInstant, instantOf } from '../../../src/base/instant.ts'
import { priceRule, type Provider } from '../../../src/view/provider.ts'
import { useCall } from '../../api/query.ts'
import { numberColumn, textColumn, type Columns } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Section } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Table } from '../../ui/table.tsx'
import { MarginAmount, MonthCost, Problem, ProviderHealth, type Margin } from '../provider/parts.tsx'
import type { ProviderKind } from '../provider/credentials.tsx'
import { AddProviderDialog } from './add.tsx'
import { CloudCards } from './cards.tsx'

/** Accounts raise no events. */
const EVERY_MS = 10_000
const MARGINS_EVERY_MS = 60_000

export function ProvidersPage() {
  const dialog = useDialog()
  const today = formatInstant(instantOf(useNow())).slice(0, 10)
  const providers = useCall('listProviders', {}, { everyMs: EVERY_MS })
  const range = { by: 'provider', from: `${today.slice(0, 7)}-01`, to: today } as const
  const margins = useCall('listMargins', { query: range }, { everyMs: MARGINS_EVERY_MS, keepsLast: true })
  const add = (kind: ProviderKind): void => dialog.open((close) => <AddProviderDialog kind={kind} onClose={close} />)
  const marginOf = ({ name }: Provider): Margin | undefined =>
    margins.data?.margins.find(({ subject }) => subject === name)
  return (
    <Page intro="Your accounts at other clouds. Their offers are sold beside your own machines.">
      <Answer of={providers} skeleton={<Skeleton rows={4} />}>
        {(reply) => (
          <div className="flex flex-col gap-6">
            {reply.providers.length > 0 && (
              <Table
                label="Provider accounts"
                columns={columnsOf(marginOf)}
                rows={reply.providers}
                rowKey="name"
                empty={null}
              />
            )}
            <Section title="Add an account">
              <p className="text-sm text-muted">
                {reply.providers.length === 0 && 'There are no accounts yet. '}
                Choose a cloud, enter your API key there, and set the markup that its machines are sold with.
              </p>
              <CloudCards kinds={reply.kinds} onChoose={add} />
            </Section>
          </div>
        )}
      </Answer>
      {dialog.shown}
    </Page>
  )
}

function columnsOf(marginOf: (account: Provider) => Margin | undefined): Columns<Provider> {
  return [
    textColumn('Account', ({ name, title }) => (
      <div>
        <TextLink to="/operator/providers/$name" params={{ name }}>
          {name}
        </TextLink>
        <div className="text-muted">{title}</div>
      </div>
    )),
    textColumn('Health', (account) => (
      <div className="flex flex-col items-start gap-1">
        <ProviderHealth account={account} />
        <Problem account={account} />
      </div>
    )),
    textColumn('Cost this month', (account) => <MonthCost account={account} />),
    textColumn('Margin this month', (account) => <MarginAmount margin={marginOf(account)} />, { align: 'right' }),
    numberColumn('Rentals', 'rentals'),
    textColumn('Selling price', priceRule, { wideOnly: true }),
    numberColumn('Preference', 'preference', { wideOnly: true }),
  ]
}
