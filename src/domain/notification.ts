/** Which events are notifications, and how a notification reads. E-mail, API, CLI and console show the same texts. */
import { formatUsdForPeople, parseUsd } from '../base/money.ts'
import type { EventType } from '../contract/event-type.ts'
import { notificationKinds, type NotificationKind } from '../contract/notification-kind.ts'
import type { NotificationRecord } from '../contract/notification.ts'
import { rentalOutcomes, startAgain, type RentalOutcome } from '../contract/rental-outcome.ts'
import { MAX_FAILURES } from './auto-top-up-terms.ts'
import type { NewEvent } from './event.ts'

const kindsOfEvents: { readonly [Type in EventType]?: NotificationKind } = {
  'balance.runway_low': 'balance_low',
  'balance.empty': 'balance_empty',
  'balance.auto_top_up_paused': 'auto_top_up',
  'balance.auto_top_up_off': 'auto_top_up',
  'budget.alert': 'budget',
  'budget.exceeded': 'budget',
  'rental.term_expiring': 'term_expiring',
  'rental.failed': 'rental_failed',
  'rental.start_failed': 'rental_failed',
  'rental.unknown': 'rental_lost',
  'rental.gpu_fault': 'rental_gpu',
  'rental.interrupting': 'rental_interrupted',
  'rental.stuck': 'rental_stuck',
  'rental.idle': 'rental_idle',
  'volume.suspended': 'volume_problem',
  'volume.unknown': 'volume_problem',
  'volume.failed': 'volume_problem',
  'deployment.failed': 'deployment_failed',
  'deployment.backing_off': 'deployment_starts',
  'deployment.budget_reached': 'deployment_budget',
}

/** Ends and stops that the customer or the term asked for are no news, nor is one that was announced. */
const expectedEnds: ReadonlySet<unknown> = new Set([
  'customer_request',
  'auto_terminate',
  'term_expired',
  'stop_requested',
  'stop_at',
  'interrupted',
  undefined,
])

/** null: the event is no notification. */
export function noticeOf({ type, data }: Pick<NewEvent, 'type' | 'data'>): NotificationKind | null {
  if (type === 'rental.terminating' || type === 'rental.stopping')
    return expectedEnds.has(data['reason']) ? null : 'rental_stopped'
  if (type === 'deployment.blocked')
    return data['reason'] === 'hourly_budget' ? 'deployment_budget' : 'deployment_blocked'
  // The last failure is the reason why it is off.
  if (type === 'balance.auto_top_up_failed') return data['failures'] === MAX_FAILURES ? null : 'auto_top_up'
  return kindsOfEvents[type] ?? null
}

export interface Notice {
  readonly kind: NotificationKind
  readonly subject: { readonly kind: string; readonly id: string }
  readonly data: Readonly<Record<string, unknown>>
}

export type NoticeText = Pick<NotificationRecord, 'severity' | 'title' | 'text'>

export function describeNotice(notice: Notice): NoticeText {
  return describers[notice.kind](notice)
}

export function isForOperators(kind: NotificationKind): boolean {
  return notificationKinds[kind].audience === 'operator'
}

const describers: { readonly [Kind in NotificationKind]: (notice: Notice) => NoticeText } = {
  balance_low: ({ data }) => ({
    severity: 'warning',
    title: 'Balance low',
    text: `At the current rate of ${usdOf(data, 'hourlySpendUsd')}/hr the balance of ${usdOf(data, 'balanceUsd')} runs out within ${counted(data['hours'], 'hour')}. Add money to keep everything running.`,
  }),
  balance_empty: () => ({
    severity: 'critical',
    title: 'Balance empty',
    text: 'The balance is empty. Rentals have ended, and volumes are kept for seven days without charge.',
  }),
  auto_top_up: autoTopUpProblem,
  budget: ({ data }) => {
    const isExceeded = data['exceeded'] === true
    const action = isExceeded ? budgetConsequence(textOf(data, 'action'), textOf(data, 'scope')) : ''
    return {
      severity: isExceeded ? 'critical' : 'warning',
      title: `Budget “${textOf(data, 'name') ?? 'unnamed'}” ${isExceeded ? 'exceeded' : `at ${typeof data['percent'] === 'number' ? data['percent'] : 0}%`}`,
      text: `${usdOf(data, 'spentUsd')} of ${usdOf(data, 'monthlyUsd')} is spent this month.${action}`,
    }
  },
  term_expiring: (notice) => ({
    severity: 'warning',
    title: `Term of ${nameOf(notice)} expiring`,
    text: `The reserved term ends within ${counted(notice.data['days'], 'day')}, on ${textOf(notice.data, 'endsAt')?.slice(0, 10) ?? 'its last day'}. ${
      notice.data['converts'] === true
        ? 'It then continues on demand.'
        : 'It is then terminated and its disk is deleted.'
    }`,
  }),
  rental_failed: (notice) => ({
    severity: 'critical',
    title: `Rental ${nameOf(notice)} failed`,
    text: outcomeText(notice.data, 'The event has the details.'),
  }),
  rental_lost: contactLost,
  rental_gpu: gpuFault,
  rental_interrupted: interruption,
  rental_stuck: (notice) => ({
    severity: 'warning',
    title: `Rental ${nameOf(notice)} stuck`,
    text: outcomeText(notice.data, 'It has been in one state for longer than it should. Nothing is charged.'),
  }),
  rental_idle: (notice) => ({
    severity: 'info',
    title: `Rental ${nameOf(notice)} is idle`,
    text: 'Its GPUs have been idle for a while. Stop or terminate it if you no longer need it.',
  }),
  rental_stopped: (notice) => ({
    severity: 'warning',
    title: `Rental ${nameOf(notice)} was stopped or ended automatically`,
    text: outcomeText(notice.data, 'It no longer runs.'),
  }),
  volume_problem: volumeProblem,
  deployment_failed: (notice) => {
    const serving = notice.data['servingVersion']
    const isRollout = typeof serving === 'number'
    return {
      severity: isRollout ? 'warning' : 'critical',
      title: isRollout ? `Rollout of ${nameOf(notice)} stopped` : `Deployment ${nameOf(notice)} failed`,
      text: `${startFailure(notice.data)} It is not tried again. ${
        isRollout ? `Version ${serving} keeps serving.` : 'Fix it and roll out again.'
      }`,
    }
  },
  deployment_starts: (notice) => ({
    severity: 'warning',
    title: `Replicas of ${nameOf(notice)} fail to start`,
    text: `${startFailure(notice.data)} The next start waits ${counted(notice.data['retrySeconds'], 'second')}.`,
  }),
  deployment_budget: (notice) => ({
    severity: 'warning',
    title: `Hourly budget of ${nameOf(notice)} reached`,
    text: `The load needs more replicas than the budget of ${usdOf(notice.data, 'budgetUsd')}/hr allows. Requests may wait longer.`,
  }),
  deployment_blocked: (notice) => ({
    severity: 'warning',
    title: `No replica for ${nameOf(notice)}`,
    text: `${textOf(notice.data, 'detail')?.replace(/[.\s]*$/, '') ?? 'A replica could not be ordered'}. It is tried again every few seconds.`,
  }),
  operator_stuck: stuckWork,
  operator_engine: ({ subject, data }) => ({
    severity: 'critical',
    title: `Engine ${subject.id} is down`,
    text: `It has not listed its machines since ${textOf(data, 'since') ?? 'the last start'}. Nothing of it is billed meanwhile.`,
  }),
  operator_payment: paymentToLookAt,
  operator_ledger: ledgerFailed,
}

function stuckWork({ subject, data }: Notice): NoticeText {
  return {
    severity: 'warning',
    title: `Stuck work: ${subject.kind} ${subject.id}`,
    text: textOf(data, 'detail') ?? 'It has been in one state for longer than it should.',
  }
}

const offTexts: Readonly<Record<string, string>> = {
  failures: `${MAX_FAILURES} charges in a row failed. Add money or another card, and turn it on again.`,
  card_removed: 'Its card was removed. Save another card, and turn it on again.',
  dispute: 'The owner of a card disputed a payment.',
}

/** A charge that failed, a cap that is reached, or the end of it all. */
function autoTopUpProblem({ data }: Notice): NoticeText {
  const { failures } = data
  if (typeof failures === 'number') {
    return {
      severity: 'warning',
      title: 'Automatic top-up failed',
      text: `The card was not charged ${usdOf(data, 'amountUsd')} (${textOf(data, 'failure') ?? 'no reason given'}). It is tried again in an hour; after ${MAX_FAILURES} failures it is turned off.`,
    }
  }
  const until = textOf(data, 'until')
  if (until !== undefined) {
    return {
      severity: 'warning',
      title: 'Automatic top-up at its monthly cap',
      text: `The cap of ${usdOf(data, 'monthlyCapUsd')} leaves no room for another charge before ${until.slice(0, 10)}. Add money, or raise the cap.`,
    }
  }
  const reason = textOf(data, 'reason') ?? ''
  return {
    severity: 'critical',
    title: 'Automatic top-up turned off',
    text: reason === 'authentication' ? confirmation(data) : (offTexts[reason] ?? 'Turn it on again in the console.'),
  }
}

function confirmation(data: Notice['data']): string {
  const url = textOf(data, 'url')
  const page = url === undefined ? 'Add money yourself' : `Pay and confirm within 23 hours here: ${url}`
  return `Your bank wants you to confirm the payment of ${usdOf(data, 'amountUsd')}. ${page}. Then turn automatic top-up on again.`
}

function paymentToLookAt({ subject, data }: Notice): NoticeText {
  return {
    severity: 'critical',
    title: `Payment to look at: ${subject.id}`,
    text: `${textOf(data, 'detail') ?? 'It does not match.'}.`,
  }
}

function ledgerFailed({ data }: Notice): NoticeText {
  return {
    severity: 'critical',
    title: 'Ledger check failed',
    text: `The daily check found ${counted(data['findings'], 'problem')}. Run berth ledger verify.`,
  }
}

function contactLost(notice: Notice): NoticeText {
  return {
    severity: 'warning',
    title: `Contact with ${nameOf(notice)} lost`,
    text: outcomeText(
      notice.data,
      'Its engine does not report the machine at the moment. Billing is paused until it is back.',
    ),
  }
}

function interruption(notice: Notice): NoticeText {
  const next =
    notice.data['afterInterruption'] === 'terminate'
      ? 'Then it is terminated and its disk is deleted.'
      : 'Its disk is kept, and it starts again when GPUs are free.'
  return {
    severity: 'warning',
    title: `Rental ${nameOf(notice)} will be interrupted`,
    text: `It ends at ${textOf(notice.data, 'endsAt') ?? 'the announced time'}, because an order at the full price needs its GPUs. ${next}`,
  }
}

function volumeProblem(notice: Notice): NoticeText {
  return {
    severity: 'critical',
    title: `Problem with volume ${nameOf(notice)}`,
    text: outcomeText(notice.data, 'The volume cannot be used at the moment.'),
  }
}

function gpuFault(notice: Notice): NoticeText {
  const { gpu } = notice.data
  const cause = textOf(notice.data, 'detail') ?? 'its host reported it'
  return {
    severity: 'critical',
    title: `GPU of ${nameOf(notice)} is broken`,
    text: `GPU ${typeof gpu === 'number' ? gpu : ''} has a fault: ${cause}. It costs nothing since ${textOf(notice.data, 'at') ?? 'then'}. Stop and start the rental, or rent again, to get another GPU.`,
  }
}

/** `3 starts in a row failed: the last did not answer in time.` */
function startFailure(data: Notice['data']): string {
  const reason = textOf(data, 'reason')
  const why = reason === 'start_timed_out' ? ' The last replica did not answer in time.' : ` ${outcomeText(data, '')}`
  return `${counted(data['failures'], 'start')} in a row failed.${why}`.trimEnd()
}

/** Inference is blocked by a budget of the whole account only. */
function budgetConsequence(action: string | undefined, scope: string | undefined): string {
  if (action === undefined || action === 'alert') return ''
  const rejected = scope === 'account' ? 'New orders and inference are' : `New orders with this ${scope ?? 'label'} are`
  const stopped = { stop: ' Rentals are being stopped.', terminate: ' Rentals are being stopped or terminated.' }[
    action
  ]
  return `${stopped ?? ''} ${rejected} rejected until the month ends or the budget is raised.`
}

function textOf(data: Notice['data'], name: string): string | undefined {
  const value = data[name]
  return typeof value === 'string' && value !== '' ? value : undefined
}

function usdOf(data: Notice['data'], name: string): string {
  const amount = parseUsd(textOf(data, name) ?? '')
  return amount === undefined ? 'an unknown amount' : formatUsdForPeople(amount)
}

function counted(value: unknown, noun: string): string {
  return typeof value === 'number' ? `${value} ${noun}${value === 1 ? '' : 's'}` : `some ${noun}s`
}

function nameOf({ subject, data }: Notice): string {
  const name = textOf(data, 'label') ?? textOf(data, 'name') ?? subject.id
  // A name is part of a line; a label may contain anything.
  return name.replaceAll(/\p{Cc}+/gu, ' ')
}

function outcomeText(data: Notice['data'], otherwise: string): string {
  const reason = textOf(data, 'reason')
  const outcome: { sentence: string; next?: string } | undefined =
    reason !== undefined && reason in rentalOutcomes ? rentalOutcomes[reason as RentalOutcome] : undefined
  if (outcome === undefined) return otherwise
  const next = data['diskKept'] === true ? startAgain : outcome.next
  return next === undefined ? outcome.sentence : `${outcome.sentence} ${next}`
}
