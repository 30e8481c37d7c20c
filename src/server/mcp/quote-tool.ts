/** The tool that prices an order and signs it, with a spending limit and an end that hold for whoever places it. */
import { z } from 'zod'
import { addMs, formatInstant, HOUR_MS, instantOf, type Instant } from '../../base/instant.ts'
import { costOfSpan, formatUsd, maxUsd, minUsd, usd, zeroUsd, type NanoUsd } from '../../base/money.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { readKeyAllowance } from '../../store/account/key-allowance.ts'
import { amountOf, planOrder, wishFields, type OrderPlan } from './order-plan.ts'
import { signQuote } from './quote-token.ts'
import { defineTool, readOnly, type ToolCall } from './tool.ts'
import { shortUsd } from './tool-value.ts'

const DEFAULT_LIMIT = usd('5')
const DEFAULT_HOURS = 2
const MAX_HOURS = 30 * 24
/** Above this the user is asked. */
export const ASK_ABOVE = usd('10')

/** The limits that a caller may set for what it spends. */
export const limitFields = {
  spendingLimitUsd: z.number().positive().max(1_000_000).optional().describe('Default: 5'),
  hours: z.number().positive().max(MAX_HOURS).optional().describe('Default: 2'),
}

export interface Terms {
  readonly limit: NanoUsd
  readonly endsAt: Instant
  readonly hours: number
}

/** The limit and the end of what is ordered: those of the caller or the default, and never beyond those of the key. */
export async function readTerms(
  { app, caller }: ToolCall,
  { spendingLimitUsd, hours }: { readonly spendingLimitUsd?: number | undefined; readonly hours?: number | undefined },
): Promise<Result<Terms>> {
  const now = app.clock.now()
  const allowance = await readKeyAllowance(app.database.db, caller, now)
  const ownLimit = spendingLimitUsd === undefined ? undefined : amountOf(spendingLimitUsd)
  if (allowance !== null && ownLimit !== undefined && ownLimit > allowance) {
    return fail('key_spending_limit', { amount: ownLimit, left: maxUsd(allowance, zeroUsd) })
  }
  const limit = ownLimit ?? (allowance === null ? DEFAULT_LIMIT : maxUsd(minUsd(DEFAULT_LIMIT, allowance), zeroUsd))
  const { expires_at: keyEnds } = caller.key
  const end = addMs(now, Math.ceil((hours ?? DEFAULT_HOURS) * HOUR_MS))
  if (keyEnds !== null && end > keyEnds) {
    if (hours !== undefined) return failField(['hours'], 'outlives_key')
    return ok({ limit, endsAt: keyEnds, hours: (keyEnds - now) / HOUR_MS })
  }
  return ok({ limit, endsAt: end, hours: hours ?? DEFAULT_HOURS })
}

export const getQuote = defineTool({
  name: 'get_quote',
  description:
    'Price an order and get a quote for rent, create_volume or deploy_model, valid for 5 minutes. Machines end at their spending limit or after the hours.',
  input: z.strictObject({ ...wishFields, ...limitFields }),
  output: z.object({
    quote: z.string(),
    tool: z.string(),
    name: z.string(),
    usdPerHour: z.string(),
    maxCostUsd: z.string(),
    spendingLimitUsd: z.string().nullable(),
    endsAt: z.string().nullable(),
    asksUser: z.boolean(),
    expiresAt: z.string(),
  }),
  hints: readOnly,
  operations: ['searchMachines', 'quoteRental', 'listStorageOptions', 'quoteManagedDeployment'],
  run: async (call, { spendingLimitUsd, hours, ...wish }) => {
    const plan = await planOrder(call, wish)
    if (!plan.ok) return plan
    const terms = await readTerms(call, { spendingLimitUsd, hours })
    if (!terms.ok) return terms
    const limited = limitPlan(plan.value, terms.value)
    const { operation, name, costPerHour } = plan.value
    const prices = { costPerHourUsd: formatUsd(costPerHour), maxCostUsd: formatUsd(limited.maxCost) }
    const { token, expiresAt } = signQuote(call.app, call.caller, { operation, order: limited.order, name, ...prices })
    const value = {
      quote: token,
      tool: orderingTools[operation],
      name,
      usdPerHour: shortUsd(prices.costPerHourUsd),
      maxCostUsd: shortUsd(prices.maxCostUsd),
      spendingLimitUsd: limited.hasEnd ? shortUsd(formatUsd(terms.value.limit)) : null,
      endsAt: limited.hasEnd ? formatInstant(terms.value.endsAt) : null,
      asksUser: limited.maxCost > ASK_ABOVE,
      expiresAt: formatInstant(instantOf(expiresAt)),
    }
    return ok({ value, subject: name })
  },
})

const orderingTools = {
  createRental: 'rent',
  createVolume: 'create_volume',
  createManagedDeployment: 'deploy_model',
} as const

function limitPlan(
  { order, costPerHour, countedMs }: OrderPlan,
  { limit, endsAt, hours }: Terms,
): { readonly order: Record<string, unknown>; readonly maxCost: NanoUsd; readonly hasEnd: boolean } {
  if (countedMs !== undefined)
    return { order: { ...order }, maxCost: costOfSpan(costPerHour, countedMs), hasEnd: false }
  const limits = {
    spendingLimitUsd: formatUsd(limit),
    autoTerminateAt: formatInstant(endsAt),
    maxCostPerHourUsd: formatUsd(costPerHour),
  }
  const maxCost = minUsd(limit, costOfSpan(costPerHour, Math.ceil(hours * HOUR_MS)))
  return { order: { ...order, ...limits }, maxCost, hasEnd: true }
}
