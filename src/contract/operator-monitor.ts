/** Monitoring for operators: audit log, traffic, ledger checks and engine checks. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { pageQuery, signedUsd, timestamp, usdAmount } from './shared.ts'

const auditRecord = z
  .object({
    id: z.string(),
    at: timestamp,
    actor: z.string(),
    action: z.string(),
    accountId: z.string().nullable(),
    accountName: z.string().nullable(),
    subject: z.string().nullable(),
    reason: z.string().nullable(),
    detail: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'AuditRecord' })

const trafficFields = {
  requests: z.number(),
  failed: z.number().describe('Failed or interrupted by the engine; excludes requests canceled by the client'),
  inputTokens: z.number().describe('Tokens only; image and speech requests have none'),
  outputTokens: z.number(),
  costUsd: usdAmount,
}

const quantiles = z
  .object({ p50: z.number(), p95: z.number() })
  .nullable()
  .describe('Of answered requests, in milliseconds; null: none')

const finding = z.object({ check: z.string(), subject: z.string(), detail: z.string() })

const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const

export const operatorMonitorEndpoints = {
  listAudit: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/audit',
    summary: 'List the audit log, newest first',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({ accountId: z.string().max(50).optional() }),
    response: z.object({ records: z.array(auditRecord), nextCursor: z.string().nullable() }),
  }),
  getOperatorSummary: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/summary',
    summary: 'Show rentals, GPUs, hosts and money of the whole installation',
    errors: [401, 403, 500],
    response: z.object({
      rentals: z.object({
        running: z.number(),
        starting: z.number(),
        unreachable: z.number(),
        failed: z.number(),
        ending: z.number(),
        stuck: z.number(),
      }),
      gpus: z.object({ total: z.number(), rented: z.number(), faulty: z.number() }),
      gpuModels: z
        .array(z.object({ gpuModel: z.string(), total: z.int(), rented: z.int(), faulty: z.int() }))
        .describe(`The same by GPU model, the most GPUs first; at most ${limits.pageRows}`),
      hosts: z.object({ total: z.number(), offline: z.number(), quarantined: z.number() }),
      pendingDeliveries: z.number().describe('Webhook deliveries that wait or are retried'),
      money: z.object({
        balancesUsd: usdAmount.describe('Of all accounts, holds included'),
        heldUsd: usdAmount,
        unpaidEarningsUsd: usdAmount.describe('Owed to suppliers'),
        chargedTodayUsd: usdAmount.describe('Charges less refunds of the current UTC day'),
        chargedThisMonthUsd: usdAmount.describe('Charges less refunds of the current UTC month'),
        paidInTodayUsd: usdAmount.describe('Payments of the current UTC day'),
      }),
    }),
  }),
  getRevenue: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/revenue',
    summary: 'Show the revenue of the installation by day, and what runs now',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      days: z.coerce.number().int().min(1).max(limits.revenueDays).default(30).describe('Including today (UTC)'),
    }),
    response: z.object({
      days: z
        .array(z.object({ day: z.string(), machinesUsd: signedUsd, storageUsd: signedUsd, modelsUsd: signedUsd }))
        .describe('Charges less refunds. Every day, oldest first, including days without any'),
      runRatePerHourUsd: usdAmount.describe('What rentals and volumes that run now are charged per hour'),
      payingAccounts: z.int().describe('Accounts that were charged within these days'),
    }),
  }),
  getTraffic: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/traffic',
    summary: 'Show live inference traffic across all accounts',
    description:
      'A request counts in the minute in which it ended. Requests are recorded shortly after they end, so the latest seconds are incomplete; after a database outage, the latest minutes. For requests in progress, see `health` in `GET /v2/operator/models`.',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      minutes: z.coerce
        .number()
        .int()
        .min(1)
        .max(limits.trafficMinutes)
        .default(60)
        .describe('Including the current minute'),
    }),
    response: z.object({
      from: timestamp,
      to: timestamp,
      minutes: z
        .array(z.object({ at: timestamp, ...trafficFields }).meta({ id: 'TrafficMinute' }))
        .describe('Every minute, oldest first, including minutes without requests'),
      models: z
        .array(
          z
            .object({ model: z.string(), ...trafficFields, totalMs: quantiles, firstByteMs: quantiles })
            .meta({ id: 'TrafficModel' }),
        )
        .describe('Totals for the whole period, busiest first'),
    }),
  }),
  verifyLedger: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/ledger/verify',
    summary: 'Check the ledger: recompute balances, holds, segments and claims',
    errors: [401, 403, 500],
    response: z.object({
      ok: z.boolean(),
      checks: z.array(z.object({ name: z.string(), rows: z.number(), findings: z.number() })),
      findings: z.array(finding).describe('At most 100'),
      houseUsd: z.record(z.string(), usdAmount),
    }),
  }),
  resealSecrets: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/reseal',
    summary: 'Encrypt stored secrets with the current secret key, one page at a time',
    description:
      'For a change of the secret key. Call it with each `nextCursor` until it is null; servers can then run without the older key. Calling it again is safe.',
    errors: [400, 401, 403, 500],
    body: z.object({
      cursor: z.string().min(1).max(1_000).optional(),
      limit: z.int().min(1).max(limits.pageRows).default(limits.pageRowsDefault),
    }),
    response: z.object({
      checked: z.number().describe('Rows of this page'),
      resealed: z.number().describe('Rows that were encrypted with an older key'),
      unreadable: z.array(z.string()).describe('Rows that no key opens; they are left as they are'),
      nextCursor: z.string().nullable().describe('null: done'),
    }),
  }),
  auditEngines: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/engines/audit',
    summary: 'Compare the machines and volumes at each engine with the database, without changing anything',
    errors: [401, 403, 500],
    response: z.object({
      ok: z.boolean(),
      engines: z.array(
        z.object({
          driver: z.string(),
          reachable: z.boolean(),
          error: z.string().nullable(),
          machines: z.number(),
          volumes: z.number(),
          findings: z.array(finding),
        }),
      ),
    }),
  }),
}
