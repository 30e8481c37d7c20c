/** Bills of other clouds, for operators: compared with the recorded costs, and imported. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { providerName, signedUsd, timestamp } from './shared.ts'

const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const
const nameParams = z.object({ name: providerName })
const billParams = z.object({ name: providerName, id: z.string().min(1).max(60) })

const lines = z
  .array(z.strictObject({ machine: z.string().min(1).max(200), amountUsd: z.string().min(1).max(60) }))
  .min(1)
  .max(limits.billLines)
  .describe('Amounts by the id of the machine or volume at the cloud; several lines of one are added up')

const day = z.iso.date()
const period = {
  from: day.optional().describe('First UTC day of the bill. Default: the start of its machines'),
  to: day.optional().describe('Last UTC day of the bill. Default: the end of its machines'),
}
const comparison = {
  billedUsd: signedUsd,
  recordedUsd: signedUsd.describe('Within the period of the bill'),
  differences: z
    .array(
      z.object({
        machine: z.string().describe('The id of the machine or volume at the cloud'),
        rentalId: z.int().nullable(),
        volumeId: z.int().nullable(),
        billedUsd: signedUsd.nullable().describe('null: not on the bill'),
        recordedUsd: signedUsd.nullable().describe('null: not known here'),
        differenceUsd: signedUsd.describe('Billed less recorded'),
      }),
    )
    .describe(`The largest first, at most ${limits.billDifferences}`),
  differencesTotal: z.int(),
}

const billRecord = z
  .object({
    id: z.string(),
    label: z.string(),
    from: z.string().nullable(),
    to: z.string().nullable(),
    lines: z.int().describe('Machines and volumes on the bill'),
    billedUsd: signedUsd,
    importedBy: z.string().describe('The API key'),
    importedAt: timestamp,
  })
  .meta({ id: 'ProviderBill' })

export const providerBillEndpoints = {
  compareProviderBill: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/providers/{name}/compare',
    summary: "Compare a cloud's invoice or usage list with the recorded costs",
    errors: [400, 401, 403, 404],
    params: nameParams,
    body: z.strictObject({ lines, ...period }),
    response: z.object(comparison),
  }),
  importProviderBill: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/providers/{name}/bills',
    summary: "Import a cloud's invoice or usage list, and compare it with the recorded costs",
    errors: [400, 401, 403, 404],
    params: nameParams,
    body: z.strictObject({ label: z.string().min(1).max(limits.nameChars).default('Bill'), lines, ...period }),
    response: z.object({
      bill: billRecord,
      isNew: z.boolean().describe('false: the same amounts for the same period had been imported before'),
      ...comparison,
    }),
  }),
  listProviderBills: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/providers/{name}/bills',
    summary: 'List the imported bills of a provider account, newest first',
    errors: [401, 403, 404],
    params: nameParams,
    response: z.object({ bills: z.array(billRecord) }),
  }),
  getProviderBill: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/providers/{name}/bills/{id}',
    summary: 'Compare an imported bill with what is recorded by now',
    errors: [401, 403, 404],
    params: billParams,
    response: z.object({ bill: billRecord, ...comparison }),
  }),
  deleteProviderBill: endpoint({
    ...operator,
    method: 'DELETE',
    path: '/v2/operator/providers/{name}/bills/{id}',
    summary: 'Delete an imported bill',
    errors: [401, 403, 404],
    params: billParams,
    response: z.object({ id: z.string() }),
  }),
}
