/** Stripe Connect: accounts of suppliers, the pages on which they enter their details, and transfers to them. */
import { Stripe } from 'stripe'
import { ProcessorError } from '../../domain/processor.ts'
import type { Payee, PayeeCalls, TransferFacts } from '../../domain/transfer.ts'
import { ACCOUNT_KEY, answer, answerOrNone, idOf } from './stripe-answer.ts'

const TRANSFERS = { transfers: { requested: true } } as const
const PAGE = 100

export function payeeCalls(stripe: Stripe, publicUrl: string): PayeeCalls {
  const page = `${publicUrl}/supply/earnings`
  return {
    createPayee: async ({ key, accountId, country }) => {
      const account = await answer(
        stripe.accounts.create(
          {
            type: 'express',
            capabilities: TRANSFERS,
            tos_acceptance: { service_agreement: 'full' },
            ...(country === null ? {} : { country }),
            metadata: { [ACCOUNT_KEY]: accountId },
          },
          { idempotencyKey: key },
        ),
      )
      return account.id
    },

    openPayeePage: async (payeeId, isConfirmed) => {
      // Complete accounts are changed on a page of their own.
      if (isConfirmed) return (await answer(stripe.accounts.createLoginLink(payeeId))).url
      const link = { account: payeeId, type: 'account_onboarding', return_url: page, refresh_url: page } as const
      return (await answer(stripe.accountLinks.create(link))).url
    },

    readPayee: async (payeeId) => {
      const account = await answerOrNone(stripe.accounts.retrieve(payeeId))
      return account && payeeOf(account)
    },

    createTransfer: async ({ id, key, payeeId, cents }) => {
      try {
        const transfer = await stripe.transfers.create(
          { amount: cents, currency: 'usd', destination: payeeId, transfer_group: id, description: `Payout ${id}` },
          { idempotencyKey: key },
        )
        return transferOf(transfer)
      } catch (error) {
        if (error instanceof Stripe.errors.StripeError && error.code === 'balance_insufficient') return undefined
        return answer(Promise.reject(error as Error))
      }
    },

    findTransfer: async (payoutId) => {
      const transfers = await answer(stripe.transfers.list({ transfer_group: payoutId, limit: PAGE }))
      const [transfer] = transfers.data
      // Whoever made a second one, nobody may make a third.
      if (transfers.data.length > 1) throw new ProcessorError('several_transfers', false)
      return transfer && transferOf(transfer)
    },

    readTransfer: async (transferId) => {
      const transfer = await answerOrNone(stripe.transfers.retrieve(transferId))
      return transfer && transferOf(transfer)
    },
  }
}

function payeeOf(account: Stripe.Account): Payee {
  const banks = account.external_accounts?.data ?? []
  const bank = banks.find((one) => one.default_for_currency) ?? banks[0]
  return {
    id: account.id,
    isConfirmed: account.payouts_enabled && account.capabilities?.transfers === 'active',
    country: account.country ?? null,
    fingerprint: bank === undefined ? null : (bank.fingerprint ?? bank.id),
    last4: bank?.last4 ?? null,
  }
}

function transferOf(transfer: Stripe.Transfer): TransferFacts {
  return {
    id: transfer.id,
    isLive: transfer.livemode,
    payoutId: transfer.transfer_group,
    payeeId: idOf(transfer.destination),
    cents: transfer.amount,
    currency: transfer.currency,
    reversals: transfer.reversals.data.map(({ id, amount }) => ({ id, cents: amount })),
  }
}
