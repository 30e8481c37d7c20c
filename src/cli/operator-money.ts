/**
 * `berth operator credit`, `adjust`, `refund` and `payout`: money that the operator moves. Each is one entry in the books,
 * which only another one takes back; it says why, and carries an idempotency key. Where the outcome is unknown, the key
 * is told: the same command with it never moves the money twice.
 */
import { randomUUID } from 'node:crypto'
import { Option, type Command } from 'commander'
import { formatUsdForPeople, nanoUsdOf, parseUsd } from '../base/money.ts'
import type { Client } from '../client/client.ts'
import { money } from '../view/money.ts'
import { parseAmount } from './amount.ts'
import { withNextStep, withWayAgain } from './failure.ts'
import { parseAccount, withReason } from './operator-account.ts'
import type { Run, Session } from './session.ts'
import { CliError, exitCodes } from './shell.ts'
import { parseWhole } from './supply.ts'

const ACCOUNT_HELP = 'its id, as berth operator accounts shows it'
const AMOUNT_HELP = 'how much, such as 25 or 12.50'
const LARGEST_RENTAL = 999_999_999

interface MoveOptions {
  readonly reason: string
  readonly idempotencyKey?: string
}

export function addMoneyCommands(operator: Command, run: Run): void {
  addCredit(operator, run)
  addAdjust(operator, run)
  addRefund(operator, run)
  addPayout(operator, run)
}

function addCredit(operator: Command, run: Run): void {
  const credit = operator
    .command('credit')
    .description('add money to an account')
    .argument('<account>', ACCOUNT_HELP, parseAccount)
    .argument('<usd>', AMOUNT_HELP, parseAmount)
  withReason(credit).addOption(
    new Option('--kind <kind>', 'purchase: it was paid for; credit: the house gives it')
      .choices(['purchase', 'credit'])
      .default('purchase'),
  )
  withKey(credit, 'the same key never credits twice').action(
    run('operator', async (session, id = '', amountUsd = '') => {
      const { reason, kind, idempotencyKey: named } = credit.opts<MoveOptions & { kind: 'purchase' | 'credit' }>()
      const { moved, isOld } = await moveOnce(session, { named }, (client, idempotencyKey) =>
        client.call('creditAccount', { params: { id }, body: { amountUsd, reason, kind }, idempotencyKey }),
      )
      session.screen.show(moved, () => [
        isOld
          ? `That key was used before: nothing new was added. Available: ${money(moved.availableUsd)}`
          : `Added ${money(amountUsd)} to ${id}. Available now: ${money(moved.availableUsd)}`,
      ])
    }),
  )
}

/** The way has no default, and the amount no sign: neither can be mistaken. */
function addAdjust(operator: Command, run: Run): void {
  const adjust = operator
    .command('adjust')
    .description('correct a balance, up or down')
    .argument('<account>', ACCOUNT_HELP, parseAccount)
    .argument('<usd>', AMOUNT_HELP, parseAmount)
    .addOption(new Option('--up', 'the account gets it').conflicts('down'))
    .addOption(new Option('--down', 'the account loses it').conflicts('up'))
  withKey(withReason(adjust)).action(
    run('operator', async (session, id = '', amount = '') => {
      const { up, down, reason, idempotencyKey: named } = adjust.opts<MoveOptions & { up?: true; down?: true }>()
      if (up === undefined && down === undefined) {
        throw new CliError(exitCodes.usage, 'Say which way: --up or --down.', [
          `Such as: berth operator adjust ${id} ${amount} --down --reason "credited twice"`,
        ])
      }
      const amountUsd = down === true ? `-${amount}` : amount
      const { moved, isOld } = await moveOnce(session, { named }, (client, idempotencyKey) =>
        whereCovered(client.call('adjustAccount', { params: { id }, body: { amountUsd, reason }, idempotencyKey }), id),
      )
      session.screen.show(moved, () =>
        isOld
          ? replayedLines(id)
          : [
              `The balance of ${id} went ${down === true ? 'down' : 'up'} by ${money(amount)}.`,
              `It ${stepOf(moved.availableUsd, amountUsd)}.`,
            ],
      )
    }),
  )
}

function addRefund(operator: Command, run: Run): void {
  const refund = operator
    .command('refund')
    .description('give back what a rental was charged')
    .argument('<account>', ACCOUNT_HELP, parseAccount)
    .argument('<usd>', `${AMOUNT_HELP}; at most what it was charged`, parseAmount)
    .requiredOption(
      '--rental <number>',
      'its number, as berth operator rentals shows it',
      parseWhole(1, LARGEST_RENTAL),
    )
  withKey(withReason(refund)).action(
    run('operator', async (session, id = '', amountUsd = '') => {
      const { rental: rentalId, reason, idempotencyKey: named } = refund.opts<MoveOptions & { rental: number }>()
      const { moved, isOld } = await moveOnce(session, { named }, (client, idempotencyKey) =>
        withNextStep(
          client.call('refundCharge', { params: { id }, body: { amountUsd, rentalId, reason }, idempotencyKey }),
          { rental_not_found: [`berth operator rentals --account ${id} lists them.`] },
        ),
      )
      session.screen.show(moved, () =>
        isOld
          ? replayedLines(id)
          : [
              `${money(amountUsd)} for rental ${rentalId} was given back to ${id}.`,
              `Its balance ${stepOf(moved.availableUsd, amountUsd)}. A supplier keeps its share.`,
            ],
      )
    }),
  )
}

function addPayout(operator: Command, run: Run): void {
  const payout = operator
    .command('payout')
    .description('write down that earnings were paid out')
    .argument('<account>', ACCOUNT_HELP, parseAccount)
    .argument('[usd]', 'how much (default: all that is unpaid)', parseAmount)
  withKey(withReason(payout)).action(
    run('operator', async (session, id = '', amount?: string) => {
      const { reason, idempotencyKey: named } = payout.opts<MoveOptions>()
      if (named !== undefined && amount === undefined) {
        throw new CliError(exitCodes.usage, 'With --idempotency-key, say how much: what is unpaid changes.', [
          `Such as: berth operator payout ${id} 250 --reason TEXT --idempotency-key ${named}`,
          `berth operator accounts show ${id} has what is unpaid.`,
        ])
      }
      const amountUsd = amount ?? (await readUnpaid(session, id))
      const { moved, isOld } = await moveOnce(session, { named, amountUsd }, (client, idempotencyKey) =>
        whereCovered(
          client.call('payOutSupplier', { params: { id }, body: { amountUsd, reason }, idempotencyKey }),
          id,
        ),
      )
      session.screen.show(moved, () =>
        isOld
          ? replayedLines(id)
          : [
              `A payout of ${money(amountUsd)} to ${id} is in the books.`,
              `Still unpaid: ${money(moved.unpaidUsd)}. The money itself moves at your bank.`,
            ],
      )
    }),
  )
}

async function readUnpaid({ client }: Session, id: string): Promise<string> {
  const { supplier, earningsUsd } = await client.call('getAccount', { params: { id } })
  if (parseUsd(earningsUsd) !== 0n) return earningsUsd
  if (supplier) throw new CliError(exitCodes.failed, `Nothing is unpaid: ${id} has had all that it has earned.`)
  throw new CliError(exitCodes.failed, `${id} is not a supplier: it has earned nothing.`, [
    `A fee makes it one: berth operator accounts change ${id} --platform-fee 15 --reason TEXT`,
  ])
}

interface Once {
  /** The key of the command line. */
  readonly named: string | undefined
  /** Where the command line may lack it. */
  readonly amountUsd?: string
}

/** `isOld`: the named key was used before. A key of our own was not: there, a replay is the second try of this command. */
async function moveOnce<T extends { readonly replayed: boolean }>(
  session: Session,
  { named, amountUsd }: Once,
  move: (client: Client, idempotencyKey: string) => Promise<T>,
): Promise<{ moved: T; isOld: boolean }> {
  const key = named ?? randomUUID()
  const again =
    amountUsd === undefined
      ? `Again with the same key, which never does it twice: --idempotency-key ${key}`
      : `Again with the same amount and key, which never does it twice: ${amountUsd} --idempotency-key ${key}`
  const moved = await withWayAgain(move(session.client, key), session, again)
  return { moved, isOld: moved.replayed && named !== undefined }
}

function withKey(command: Command, words = 'the same key never moves money twice'): Command {
  return command.option('--idempotency-key <key>', words)
}

function replayedLines(id: string): string[] {
  return ['That key was used before: nothing new was moved.', `berth operator accounts show ${id} has what there is.`]
}

/** What it was and what it is: the answer has the balance right after the move. */
function stepOf(after: string, moved: string): string {
  const [end, by] = [parseUsd(after), parseUsd(moved)]
  if (end === undefined || by === undefined) return `is ${money(after)} now`
  // An account that owes credit has nothing available: the payment has repaid that first.
  if (end < by) return `is ${money(after)} now; the rest repaid the credit line`
  return `was ${formatUsdForPeople(nanoUsdOf(end - by))} and is ${formatUsdForPeople(end)} now`
}

function whereCovered<T>(call: Promise<T>, id: string): Promise<T> {
  const next = `Nothing was moved: berth operator accounts show ${id} has what there is.`
  return withNextStep(call, { insufficient_balance: [next] })
}
