/**
 * Loans of a gateway's purses to its workers. A worker spends a loan in memory as a gateway spends its purse; the money
 * stays in the one hold of the gateway. Before a request is refused anywhere, every other borrower returns what it does
 * not use, so an account can spend its whole balance through any worker.
 */
import { instantOf, type Instant } from '../../base/instant.ts'
import { minUsd, nanoUsdOf, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { Failure } from '../../contract/result.ts'
import type { PurseOwner, Topped, Treasury } from '../../domain/purse.ts'
import type { Settlement } from '../../domain/settlement.ts'
import { OpenReservation, type Purse } from './purse.ts'
import type { PurseTreasury, Purses } from './purses.ts'

/** The money of a purse that a worker returned. */
export interface Returned {
  readonly holdKey: string
  readonly amount: NanoUsd
}

export interface Borrower extends PurseTreasury, Pick<Treasury, 'settle'> {
  /** Called when the worker has exited and all its records are settled: the money left in its loans is free again. */
  close(): void
}

interface Loan {
  readonly purse: Purse
  amount: NanoUsd
}

interface OneBorrower {
  readonly loans: Map<string, Loan>
  readonly recall: (owner: PurseOwner) => Promise<Returned | undefined>
  readonly recallAccount: (accountId: string) => Promise<void>
}

export class PurseLoans {
  readonly #purses: Purses
  readonly #treasury: Treasury
  readonly #borrowers = new Set<OneBorrower>()

  constructor(options: { purses: Purses; treasury: Treasury }) {
    this.#purses = options.purses
    this.#treasury = options.treasury
  }

  /** `recall` asks the worker for the free money of a purse; `recallAccount` asks for everything it borrowed before. */
  open(recall: OneBorrower['recall'], recallAccount: OneBorrower['recallAccount']): Borrower {
    const one: OneBorrower = { loans: new Map(), recall, recallAccount }
    this.#borrowers.add(one)
    return {
      topUp: (owner, amounts) => this.#lend(one, owner, amounts),
      giveBack: async (holdKey, amount) => void this.#takeBack(one, { holdKey, amount }),
      renew: async (holdKeys) => this.#expiryOf(one, holdKeys),
      readPurses: async (holdKeys) =>
        new Map(holdKeys.map((holdKey) => [holdKey, one.loans.get(holdKey)?.amount ?? zeroUsd])),
      settle: (settlement) => this.#settle(one, settlement),
      close: () => this.#end(one),
    }
  }

  /**
   * Returns whether any money came back. Skips the borrower that asks: it has counted its own free money, and would get
   * that back in place of what it misses.
   */
  async recall(owner: PurseOwner, except: object | undefined): Promise<boolean> {
    const borrowers = [...this.#borrowers].filter(
      (one) => one !== except && [...one.loans.values()].some(({ purse }) => isOf(purse, owner)),
    )
    const returned = await Promise.all(
      borrowers.map(async (one) => {
        const part = await one.recall(owner)
        return part !== undefined && this.#takeBack(one, part)
      }),
    )
    return returned.includes(true)
  }

  /**
   * Called when a limit of one account or of all was set. Resolves when nothing granted before can be spent, here or by
   * a worker.
   */
  returnMoney(accountId?: string): Promise<void> {
    return accountId === undefined ? this.#purses.recallAll() : this.#purses.recall(accountId)
  }

  /** Called when a limit of the account was set: every worker returns what it does not use. */
  async recallAccount(accountId: string): Promise<void> {
    const holders = [...this.#borrowers].filter((one) =>
      [...one.loans.values()].some(({ purse }) => purse.owner.accountId === accountId),
    )
    await Promise.all(holders.map((one) => one.recallAccount(accountId)))
  }

  /** Settles the records that a worker left. Its loans end afterwards, and a recount finds their remaining money. */
  settleLost(work: () => Promise<void>): Promise<void> {
    return this.#purses.settleLoans(work)
  }

  async #lend(
    one: OneBorrower,
    owner: PurseOwner,
    { minimum, maximum }: { minimum: NanoUsd; maximum: NanoUsd },
  ): Promise<Topped> {
    const first = await this.#purses.reserve(owner, minimum, one)
    if (!first.ok) return insufficient(first)
    const { purse } = first.value
    if (purse?.holdKey === undefined) throw new Error('money was reserved in a purse that has no hold')
    const extra = minUsd(purse.free, nanoUsdOf(maximum - minimum))
    const second = extra > 0n ? this.#purses.tryReserve(owner, extra) : undefined
    let amount = zeroUsd
    for (const part of [first.value, second]) {
      if (!(part instanceof OpenReservation)) continue
      const loan = one.loans.get(purse.holdKey)
      purse.lend(part, loan === undefined)
      if (loan === undefined) one.loans.set(purse.holdKey, { purse, amount: part.amount })
      else loan.amount = nanoUsdOf(loan.amount + part.amount)
      amount = nanoUsdOf(amount + part.amount)
    }
    return { kind: 'granted', holdKey: purse.holdKey, amount, expiresAt: purse.expiresAt }
  }

  /** `amount` may exceed the loan: then all of it comes back. Returns false if nothing did. */
  #takeBack(one: OneBorrower, { holdKey, amount }: Returned): boolean {
    const loan = one.loans.get(holdKey)
    if (loan === undefined || amount <= 0n) return false
    const part = minUsd(amount, loan.amount)
    loan.amount = nanoUsdOf(loan.amount - part)
    this.#purses.takeBack(loan.purse, part)
    this.#forgetIfRepaid(one, holdKey, loan)
    return true
  }

  #expiryOf(one: OneBorrower, holdKeys: readonly string[]): Instant {
    const purses = holdKeys.flatMap((holdKey) => one.loans.get(holdKey)?.purse ?? [])
    const [first, ...others] = purses.map(({ expiresAt }) => expiresAt)
    // A loan that was returned completely needs no time.
    if (first === undefined) return instantOf(0)
    return others.reduce((least, next) => (next < least ? next : least), first)
  }

  async #settle(one: OneBorrower, settlement: Settlement): Promise<void> {
    await this.#purses.settleLoans(async () => {
      await this.#treasury.settle(settlement)
      for (const { hold, nano } of settlement.dues.values()) {
        const loan = hold === null ? undefined : one.loans.get(hold)
        if (hold === null || loan === undefined) continue
        const part = minUsd(nanoUsdOf(nano), loan.amount)
        loan.amount = nanoUsdOf(loan.amount - part)
        loan.purse.settleLoan(part)
        this.#forgetIfRepaid(one, hold, loan)
      }
    })
  }

  #end(one: OneBorrower): void {
    for (const { purse, amount } of one.loans.values()) purse.endLoan(amount)
    one.loans.clear()
    this.#borrowers.delete(one)
  }

  #forgetIfRepaid(one: OneBorrower, holdKey: string, loan: Loan): void {
    if (loan.amount > 0n) return
    one.loans.delete(holdKey)
    loan.purse.endLoan(zeroUsd)
  }
}

function isOf({ owner }: Purse, { accountId, apiKeyId }: PurseOwner): boolean {
  return owner.accountId === accountId && owner.apiKeyId === apiKeyId
}

function insufficient({ reason, message }: Failure): Topped {
  if (reason === 'insufficient_balance') return { kind: 'insufficient', why: 'balance' }
  if (reason === 'key_spending_limit') return { kind: 'insufficient', why: 'key_limit' }
  if (reason === 'budget_exceeded') return { kind: 'insufficient', why: 'budget' }
  throw new Error(message)
}
