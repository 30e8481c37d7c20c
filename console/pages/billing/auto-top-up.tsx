/** Automatic top-up and the saved cards that it charges. */
import type { Reply } from '../../../src/client/client.ts'
import { parseUsd, zeroUsd } from '../../../src/base/money.ts'
import { cardText, consentText } from '../../../src/domain/auto-top-up-terms.ts'
import { money } from '../../../src/view/money.ts'
import { autoTopUpOffTexts } from '../../../src/view/payment.ts'
import { localDate, localTime } from '../../../src/view/time.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useAction, useCall } from '../../api/query.ts'
import { CallButton, ConfirmCall } from '../../form/dialog.tsx'
import type { Entries } from '../../form/entry.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import type { FieldValues } from '../../form/field.ts'
import { Answer } from '../../ui/answer.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { Card, Facts, type Fact } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { useNow } from '../../ui/now.ts'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'

type AutoTopUp = Reply<'getAutoTopUp'>
type SavedCard = Reply<'listSavedCards'>['cards'][number]

const refreshes = ['getAutoTopUp', 'listSavedCards'] as const

export function AutoTopUpCard() {
  const mayChange = useMay('billing:write')
  const current = useCall('getAutoTopUp')
  const cards = useCall('listSavedCards')
  const dialog = useDialog()
  const savedCards = cards.data?.cards ?? []
  const disabledReason = !mayChange
    ? missingScope('billing:write')
    : savedCards.length === 0
      ? 'Save a card first: tick “Save the card” when you add funds'
      : undefined
  const isOn = current.data?.enabled === true
  return (
    <Card
      title="Automatic top-up"
      actions={
        <>
          {isOn && (
            <CallButton
              look="quiet"
              operation="turnOffAutoTopUp"
              input={{}}
              refreshes={refreshes}
              done="Automatic top-up is off"
              disabledReason={mayChange ? undefined : missingScope('billing:write')}
            >
              Turn off
            </CallButton>
          )}
          <Button
            disabledReason={disabledReason}
            disabled={current.data === undefined}
            onClick={() =>
              dialog.open((close) => <SetDialog before={current.data} cards={savedCards} onClose={close} />)
            }
          >
            {isOn ? 'Change' : 'Turn on'}
          </Button>
        </>
      }
    >
      <Answer of={current} skeleton={<Skeleton rows={3} />}>
        {(value) => <Current value={value} />}
      </Answer>
      <h3 className="mt-5 mb-2 text-sm font-semibold">Saved cards</h3>
      <Answer of={cards} skeleton={<Skeleton rows={1} />}>
        {(reply) => <Cards cards={reply.cards} />}
      </Answer>
      {dialog.shown}
    </Card>
  )
}

function Current({ value }: { value: AutoTopUp }) {
  const now = useNow()
  const { enabled, belowUsd, amountUsd, monthlyCapUsd, card, offReason, pausedUntil, failures } = value
  if (belowUsd === null || amountUsd === null || monthlyCapUsd === null)
    return <p className="text-sm text-muted">Charges a saved card when your balance runs low. It is off.</p>
  const isPaused = pausedUntil !== null && Date.parse(pausedUntil) > now
  const facts: Fact[] = [
    ['State', <State key="state" enabled={enabled} isPaused={isPaused} />],
    ['Adds', `${money(amountUsd)} plus tax, when less than ${money(belowUsd)} is available`],
    ['Monthly cap', `${money(monthlyCapUsd)}, of which ${money(value.chargedThisMonthUsd)} is charged`],
    ['Card', card === null ? 'None' : cardText(card)],
  ]
  return (
    <div className="flex flex-col gap-3">
      <Facts facts={facts} />
      {offReason !== null && (
        <p className="text-sm text-bad">Berth turned it off because {autoTopUpOffTexts[offReason]}.</p>
      )}
      {enabled && isPaused && (
        <p className="text-sm text-warn">
          The cap leaves no room for another charge before {localDate(pausedUntil)}. Raise it to be charged earlier.
        </p>
      )}
      {enabled && failures > 0 && (
        <p className="text-sm text-warn">
          {failures === 1 ? 'The last charge' : `The last ${failures} charges`} failed. After three, it is turned off.
        </p>
      )}
    </div>
  )
}

function State({ enabled, isPaused }: { enabled: boolean; isPaused: boolean }) {
  if (!enabled) return <Badge>Off</Badge>
  return isPaused ? <Badge tone="warn">Paused</Badge> : <Badge tone="good">On</Badge>
}

interface SetDialogProps {
  readonly before: AutoTopUp | undefined
  readonly cards: readonly SavedCard[]
  readonly onClose: () => void
}

function SetDialog({ before, cards, onClose }: SetDialogProps) {
  const hasCard = cards.some(({ id }) => id === before?.card?.id)
  return (
    <FieldDialog
      operation="setAutoTopUp"
      refreshes={refreshes}
      title="Automatic top-up"
      action="Agree and turn on"
      initial={{
        belowUsd: plain(before?.belowUsd, '20'),
        amountUsd: plain(before?.amountUsd, '100'),
        monthlyCapUsd: plain(before?.monthlyCapUsd, '500'),
        cardId: (hasCard ? before?.card?.id : cards[0]?.id) ?? '',
      }}
      fields={(values) => fieldsFor(values, cards)}
      body={(body) => ({ ...body, consent: true })}
      done="Automatic top-up is on"
      onClose={onClose}
    />
  )
}

function fieldsFor(values: FieldValues<'setAutoTopUp'>, cards: readonly SavedCard[]): Entries<'setAutoTopUp'> {
  const choices = cards.map((card) => ({ value: card.id, label: cardText(card) }))
  return [
    ['belowUsd', { label: 'When less is available (USD)', hint: null }],
    ['amountUsd', { label: 'Add (USD)', hint: 'Tax comes on top.' }],
    ['monthlyCapUsd', { label: 'Monthly cap (USD)', hint: 'The most per month, tax included.' }],
    ['cardId', { hint: null, choices }],
    { show: <Agreement values={values} cards={cards} /> },
  ]
}

/** The same sentence is recorded when the form is sent. */
function Agreement({ values, cards }: { values: FieldValues<'setAutoTopUp'>; cards: readonly SavedCard[] }) {
  const [below, amount, cap] = [values.belowUsd, values.amountUsd, values.monthlyCapUsd].map((text) => parseUsd(text))
  const card = cards.find(({ id }) => id === values.cardId)
  if (below === undefined || amount === undefined || cap === undefined || card === undefined) return null
  return (
    <p className="text-sm text-muted">
      You agree: <span className="text-ink">{consentText({ below, amount, cap }, cardText(card))}</span>
    </p>
  )
}

/** `20.000000000` as people type it. */
function plain(usd: string | null | undefined, usual: string): string {
  return (parseUsd(usd ?? '') ?? zeroUsd) === 0n ? usual : (usd ?? '').replace(/\.?0+$/, '')
}

function Cards({ cards }: { cards: readonly SavedCard[] }) {
  const mayChange = useMay('billing:write')
  const dialog = useDialog()
  const portal = useAction('openCardPortal')
  const disabledReason = mayChange ? undefined : missingScope('billing:write')
  if (cards.length === 0) return <p className="text-sm text-muted">No card is saved.</p>
  return (
    <div className="flex flex-col gap-3">
      <ul className="divide-y divide-line rounded-md border border-line">
        {cards.map((card) => (
          <li key={card.id} className="flex flex-wrap items-center justify-between gap-2 px-3 py-1.5 text-sm">
            <span title={`Saved ${localTime(card.savedAt)}`}>
              {cardText(card)}{' '}
              <span className="text-muted">
                expires {card.expMonth}/{card.expYear}
              </span>
            </span>
            <Button
              look="quiet"
              aria-label={`Remove ${cardText(card)}`}
              disabledReason={disabledReason}
              onClick={() => dialog.open((close) => <RemoveDialog card={card} onClose={close} />)}
            >
              Remove
            </Button>
          </li>
        ))}
      </ul>
      <div>
        <Button
          busy={portal.isPending}
          disabledReason={disabledReason}
          onClick={() =>
            portal.mutate(
              {},
              { onSuccess: ({ url }) => location.assign(url), onError: (error) => toast(error.message, 'bad') },
            )
          }
        >
          Manage at the payment processor
        </Button>
      </div>
      {dialog.shown}
    </div>
  )
}

function RemoveDialog({ card, onClose }: { card: SavedCard; onClose: () => void }) {
  return (
    <ConfirmCall
      operation="removeSavedCard"
      input={{ params: { id: card.id } }}
      refreshes={refreshes}
      title={`Remove ${cardText(card)}?`}
      action="Remove card"
      done={`Removed ${cardText(card)}`}
      onClose={onClose}
    >
      It can no longer be charged. If automatic top-up uses it, that is turned off.
    </ConfirmCall>
  )
}
