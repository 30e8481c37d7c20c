/** Credits, corrections, refunds and payouts over HTTP, for operators. */
import { createOnce } from '../../app/idempotency.ts'
import {
  adjustAccount,
  creditAccount,
  payOutSupplier,
  refundCharge,
  type Movement,
} from '../../app/money/operator-money.ts'
import type { Actor, App } from '../../app/app.ts'
import type { NanoUsd } from '../../base/money.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { Api, OperationId } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'

export const operatorMoneyHandlers = {
  creditAccount: async (app, { operation, actor, params, body, idempotencyKey }) =>
    moveOnce(app, actor, { operation, params, body, idempotencyKey }, availableOnWire, (tx, input) =>
      creditAccount(tx, actor, { ...input, kind: body.kind }),
    ),

  adjustAccount: async (app, { operation, actor, params, body, idempotencyKey }) =>
    moveOnce(app, actor, { operation, params, body, idempotencyKey }, availableOnWire, (tx, input) =>
      adjustAccount(tx, actor, input),
    ),

  refundCharge: async (app, { operation, actor, params, body, idempotencyKey }) =>
    moveOnce(app, actor, { operation, params, body, idempotencyKey }, availableOnWire, (tx, input) =>
      refundCharge(tx, actor, { ...input, rentalId: body.rentalId }),
    ),

  payOutSupplier: async (app, { operation, actor, params, body, idempotencyKey }) =>
    moveOnce(app, actor, { operation, params, body, idempotencyKey }, unpaidOnWire, (tx, input) =>
      payOutSupplier(tx, actor, input),
    ),
} satisfies Partial<Handlers>

interface MoneyRequest {
  readonly operation: OperationId
  readonly params: { readonly id: string }
  readonly body: { readonly amountUsd: NanoUsd; readonly reason: string }
  readonly idempotencyKey: string | undefined
}

type MoneyInput = Parameters<typeof adjustAccount>[2]

/** Answers a repeated request with the first answer, with `replayed` set. */
async function moveOnce<Reply extends { postingKey: string; replayed: boolean }>(
  app: App,
  actor: Actor,
  { operation, params, body, idempotencyKey }: MoneyRequest,
  onWire: (moved: Movement) => Reply,
  work: (tx: Tx, input: MoneyInput) => Promise<Result<Movement>>,
): Promise<Result<Reply>> {
  let fresh: Reply | undefined
  const input = { accountId: params.id, amount: body.amountUsd, reason: body.reason, idempotencyKey }
  const reply = await createOnce(
    app,
    actor,
    { key: idempotencyKey, operation, request: { params, body } },
    async (tx) => {
      const result = await work(tx, input)
      if (!result.ok) return result
      fresh = onWire(result.value)
      return ok(fresh)
    },
  )
  return !reply.ok || reply.value === fresh ? reply : ok({ ...reply.value, replayed: true })
}

function availableOnWire({ postingKey, replayed, balances }: Movement): ResponseOf<Api['creditAccount']> {
  return { postingKey, replayed, availableUsd: balances.available }
}

function unpaidOnWire({ postingKey, replayed, balances }: Movement): ResponseOf<Api['payOutSupplier']> {
  return { postingKey, replayed, unpaidUsd: balances.earnings }
}
