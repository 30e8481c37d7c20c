/** The earnings and costs of models on rented GPUs, and the price that would cover the costs. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { modelKind } from './model.ts'
import { textIdParams, usdAmount } from './shared.ts'

const day = z.iso.date()
const dayRange = {
  from: day.optional().describe('First day (UTC); default: 29 days before `to`'),
  to: day.optional().describe('Last day (UTC); default: today'),
}

const usageFields = {
  requests: z.number(),
  inputUnits: z
    .number()
    .describe('Tokens; characters for speech, milliseconds for transcription. Cached ones included'),
  cachedUnits: z.number(),
  outputUnits: z.number().describe('Tokens; pixels × steps for images'),
  gpuCostUsd: usdAmount.describe('Charges for the replicas, less refunds'),
  paidSeconds: z.number().describe('Charged time of all replicas'),
  busySeconds: z.number().describe('Time of all replicas with at least one request'),
  utilizationPercent: z.number().nullable().describe('Busy part of the paid time; null: nothing was paid'),
  outstandingPerReplica: z.number().nullable().describe('Average number of requests per replica, waiting or running'),
  targetOutstanding: z
    .number()
    .nullable()
    .describe('Number that scaling aims for now; null: automatic, or the deployment was deleted'),
  unitsPerSecond: z.number().nullable().describe('Input and output of one replica while it is busy'),
  outputUnitsPerSecond: z.number().nullable(),
  unitsPerUsd: z.number().nullable().describe('Input and output per dollar of GPU cost'),
}

const unitPrices = z.object({
  inputUsdPerMillion: usdAmount,
  cachedUsdPerMillion: usdAmount,
  outputUsdPerMillion: usdAmount,
})

const priceAdvice = z
  .object({
    isMeasured: z
      .boolean()
      .describe('false: too little was measured, and there is no advice; see `neededRequests`, `neededBusySeconds`'),
    neededRequests: z.number().describe('Requests that are still missing for advice'),
    neededBusySeconds: z.number().describe('Busy time that is still missing for advice'),
    utilizationPercent: z.number().nullable().describe('Utilization that the advised prices are for'),
    blendedUsdPerMillion: usdAmount.nullable().describe('Price per million units, input and output, that covers cost'),
    prices: unitPrices
      .nullable()
      .describe('Current prices multiplied so that they cover cost; null: the model is free'),
    breakEvenUtilizationPercent: z
      .number()
      .nullable()
      .describe('Utilization from which current prices cover cost; above 100: never. null: the model is free'),
  })
  .meta({ id: 'PriceAdvice' })

const modelEconomics = z
  .object({
    model: z.string(),
    kind: modelKind.nullable().describe('null: the model was deleted'),
    deploymentId: z.string().nullable().describe('null: automatic, or the deployment was deleted'),
    revenueUsd: usdAmount.describe('Charges for requests, less refunds; those on other servers included'),
    marginUsd: usdAmount.describe('Revenue less the cost of GPUs'),
    marginPercent: z.number().nullable().describe('Of revenue; null: there is none'),
    ...usageFields,
    gpuCostUsd: usdAmount.describe(
      'What other clouds bill for their machines, and the charges for all other replicas, less refunds',
    ),
    gpuCostBasis: z
      .enum(['rental_price', 'vendor_price', 'mixed'])
      .describe('Which of the two `gpuCostUsd` consists of; `mixed`: both'),
    vendorCostUsd: usdAmount.describe('Part of the GPU cost that other clouds bill'),
    supplierUsd: usdAmount.describe('Part of the GPU cost that suppliers earned; what is left is the platform fee'),
    prices: unitPrices.nullable().describe('Current prices of the units above'),
    advice: priceAdvice.nullable().describe('null: the model was deleted'),
  })
  .meta({ id: 'ModelEconomics' })

export const economicsEndpoints = {
  getDeploymentUsage: endpoint({
    family: 'v2',
    tag: 'Deployments',
    method: 'GET',
    path: '/v2/deployments/{id}/usage',
    access: ['compute:read'],
    summary: 'Show requests, GPU cost and utilization of a managed deployment',
    description: 'Counted about every ten seconds. The GPU cost is what the ledger has charged, by day of the charge.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    query: z.strictObject(dayRange),
    response: z.object({ from: day, to: day, ...usageFields }).meta({ id: 'DeploymentUsage' }),
  }),
  getEconomics: endpoint({
    family: 'v2',
    tag: 'Operator',
    method: 'GET',
    path: '/v2/operator/economics',
    access: ['operator'],
    summary: 'Show revenue, GPU cost, margin and utilization of models for everyone, with price advice',
    description:
      'Amounts are sums of the ledger, by the day of the posting. Advice assumes the throughput measured while replicas were busy.',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      ...dayRange,
      model: z.string().min(1).max(200).optional().describe('Only this model'),
      utilizationPercent: z.coerce
        .number()
        .min(1)
        .max(100)
        .optional()
        .describe('Utilization to advise prices for; default: the measured one'),
    }),
    response: z.object({
      from: day,
      to: day,
      revenueUsd: usdAmount,
      gpuCostUsd: usdAmount,
      marginUsd: usdAmount,
      models: z.array(modelEconomics).describe('Highest GPU cost first'),
    }),
  }),
}
