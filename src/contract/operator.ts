/** Operations for operators. Each change of money has an actor and a reason, and is in the audit log. */
import { z } from 'zod'
import { limits, type Quota } from '../base/limits.ts'
import { accountRecord } from './account.ts'
import { endpoint, scopes } from './endpoint.ts'
import { region, storageRegion } from './region.ts'
import { lastErrorFields } from './operator-volume.ts'
import { rentalState, rentalType } from './rental.ts'
import {
  gpuType,
  networkType,
  nonNegativeUsd,
  pageQuery,
  positiveUsd,
  priceUsd,
  reasonText,
  searchText,
  storagePriceUsd,
  textIdParams,
  timestamp,
  unbilledUsd,
  usdAmount,
  signedUsd,
} from './shared.ts'
import { quotaTexts } from './quota-text.ts'
import { suppliedMachine } from './supply.ts'
import { machineStatuses } from './choices.ts'

const quotaOf = (name: keyof Quota, max: number) => z.int().min(0).max(max).describe(quotaTexts[name])

const quota = z
  .strictObject({
    gpus: quotaOf('gpus', 1_000_000),
    volumes: quotaOf('volumes', 1_000_000),
    volumeGb: quotaOf('volumeGb', 1_000_000_000),
    keys: quotaOf('keys', 100_000),
    sshKeys: quotaOf('sshKeys', 100_000),
    webhooks: quotaOf('webhooks', 10_000),
    fileGb: quotaOf('fileGb', 1_000_000),
    requestsPerMinute: quotaOf('requestsPerMinute', 100_000_000),
    tokensPerMinute: quotaOf('tokensPerMinute', 1_000_000_000),
    streams: quotaOf('streams', 1_000_000),
  })
  .partial()

export const operatedAccount = accountRecord
  .extend({
    platformFeePercentage: z.number().nullable(),
    quota: z.record(z.string(), z.number()),
    balanceUsd: usdAmount.describe('availableUsd + heldUsd, after `unbilledUsd`'),
    unbilledUsd: unbilledUsd,
    availableUsd: usdAmount,
    heldUsd: usdAmount.describe('On hold for running machines, volumes, inference and reserved terms'),
    creditLineUsd: usdAmount.describe('Maximum that reserved orders can hold beyond the balance'),
    creditUsedUsd: usdAmount.describe('Credit in use'),
    debtUsd: usdAmount.describe('Owed after a disputed payment'),
    earningsUsd: usdAmount,
  })
  .meta({ id: 'OperatedAccount' })

const gpuPrice = z
  .strictObject({
    machineType: rentalType,
    region,
    gpuType,
    networkType,
    gpuCount: z.int().min(1).max(64).describe('GPUs per machine'),
    perGpuHourUsd: priceUsd,
    enabled: z.boolean(),
  })
  .meta({ id: 'GpuPrice' })

const storagePrice = z
  .strictObject({ region: storageRegion, perGbHourUsd: storagePriceUsd, enabled: z.boolean() })
  .meta({ id: 'StoragePrice' })

const priceBook = z.object({
  gpus: z.array(gpuPrice),
  storage: z.array(storagePrice),
  reserveOptions: z.array(
    z.object({
      accountId: z.string().nullable(),
      termPeriodDays: z.int().min(1).max(3650),
      discountPercentage: z.number().min(0).lt(100),
    }),
  ),
})

const moneyReply = z.object({
  postingKey: z.string(),
  replayed: z.boolean(),
  availableUsd: usdAmount,
})

const operatedMachine = suppliedMachine.extend({
  driver: z.string(),
  supplierId: z.string().nullable(),
  supplierName: z.string().nullable(),
})

export const machineStatus = z.enum(machineStatuses)

const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const
const accountPath = '/v2/operator/accounts/{id}'
const ledgerReason = reasonText.describe('Recorded in the ledger and the audit log')
const amountAndReason = { amountUsd: positiveUsd, reason: ledgerReason }
const creditKind = z.enum(['purchase', 'credit']).meta({ title: 'Source' })
const refundedRental = z.int().positive().meta({ title: 'Rental number' })

export const operatorEndpoints = {
  listAccounts: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/accounts',
    summary: 'List accounts',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      q: searchText.describe('Part of the name or id'),
      supplier: z.stringbool().optional().describe('Only suppliers, or only customers'),
      suspended: z.stringbool().optional().describe('Only suspended accounts, or only the others'),
    }),
    response: z.object({ accounts: z.array(operatedAccount), nextCursor: z.string().nullable() }),
  }),
  createAccount: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/accounts',
    summary: 'Create an account with its owner and a first key',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        name: z.string().trim().min(1).max(limits.nameChars),
        ownerEmail: z.email().max(255).meta({ title: 'Owner’s email' }),
        ownerName: z.string().trim().min(1).max(limits.nameChars).optional(),
        scopes: z.array(z.enum(scopes)).min(1).optional().meta({
          title: 'Scopes of the first API key',
          description: 'Default: all except operator, and supply only for a supplier',
        }),
        platformFeePercentage: z.number().min(0).max(100).optional().meta({
          title: 'Platform fee',
          description: 'Makes the account a supplier; your share of its prices. Leave out for a customer',
        }),
      })
      .meta({ id: 'CreateAccount' }),
    response: z.object({ account: operatedAccount, key: z.string().describe('`bk_…`, shown once') }),
    idempotent: true,
  }),
  getAccount: endpoint({
    ...operator,
    method: 'GET',
    path: accountPath,
    summary: 'Get an account',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: operatedAccount,
  }),
  changeAccount: endpoint({
    ...operator,
    method: 'PATCH',
    path: accountPath,
    summary: 'Change the quota, supplier fee, status or credit line of an account',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        quota: quota.optional(),
        platformFeePercentage: z.number().min(0).max(100).nullable().optional().meta({
          title: 'Platform fee',
          description: 'Your share of the price of its machines. Current rentals keep their fee',
        }),
        suspended: z.boolean().optional(),
        creditLineUsd: nonNegativeUsd
          .optional()
          .describe('Reserved orders can use this much beyond the balance. Payments repay it first. 0: none'),
        reason: reasonText,
      })
      .meta({ id: 'ChangeAccount' }),
    response: operatedAccount,
  }),
  creditAccount: endpoint({
    ...operator,
    method: 'POST',
    path: `${accountPath}/credit`,
    summary: 'Add money to an account: a payment or a credit from the operator',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ ...amountAndReason, kind: creditKind.default('purchase') }).meta({ id: 'CreditAccount' }),
    response: moneyReply,
    idempotent: true,
  }),
  adjustAccount: endpoint({
    ...operator,
    method: 'POST',
    path: `${accountPath}/adjust`,
    needsRecentSignIn: true,
    summary: 'Adjust a balance up or down, never below zero',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ amountUsd: signedUsd, reason: ledgerReason }).meta({ id: 'AdjustAccount' }),
    response: moneyReply,
    idempotent: true,
  }),
  refundCharge: endpoint({
    ...operator,
    method: 'POST',
    path: `${accountPath}/refund`,
    needsRecentSignIn: true,
    summary: 'Refund charges of a rental, fully or partly',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject({ ...amountAndReason, rentalId: refundedRental }).meta({ id: 'RefundCharge' }),
    response: moneyReply,
    idempotent: true,
  }),
  payOutSupplier: endpoint({
    ...operator,
    method: 'POST',
    path: `${accountPath}/payout`,
    needsRecentSignIn: true,
    summary: 'Record a payout to a supplier',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z.strictObject(amountAndReason).meta({ id: 'PayOutSupplier' }),
    response: moneyReply.omit({ availableUsd: true }).extend({ unpaidUsd: usdAmount }),
    idempotent: true,
  }),
  getPriceBook: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/price-book',
    summary: 'Get the price book',
    errors: [400, 401, 403, 500],
    response: priceBook,
  }),
  changePriceBook: endpoint({
    ...operator,
    method: 'PUT',
    path: '/v2/operator/price-book',
    summary: 'Change prices; rows not listed do not change, and running rentals keep their price',
    errors: [400, 401, 403, 500],
    body: z
      .strictObject({
        gpus: z.array(gpuPrice).max(1_000).optional(),
        storage: z.array(storagePrice).max(100).optional(),
        reserveOptions: z
          .array(
            z.strictObject({
              accountId: z
                .string()
                .max(50)
                .nullable()
                .optional()
                .describe('null: all accounts; otherwise only this account'),
              termPeriodDays: z.int().min(1).max(3650),
              discountPercentage: z.number().min(0).lt(100).multipleOf(0.01),
            }),
          )
          .max(100)
          .optional(),
        reason: reasonText,
      })
      .meta({ id: 'ChangePriceBook' }),
    response: priceBook,
  }),
  listFleet: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/machines',
    summary: 'List all machines',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      q: searchText.describe('Part of the id, cluster, region, GPU model or engine'),
      offering: suppliedMachine.shape.offering.optional(),
      status: machineStatus.optional(),
    }),
    response: z.object({
      machines: z.array(operatedMachine),
      nextCursor: z.string().nullable(),
    }),
  }),
  changeMachine: endpoint({
    ...operator,
    method: 'PATCH',
    path: '/v2/operator/machines/{id}',
    summary: 'Change the supplier, price, listing or faulty GPUs of a machine, or drain it',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({
        supplierId: z.string().max(50).nullable().optional().meta({ title: 'Supplier' }),
        listed: z.boolean().optional().meta({ title: 'On sale', description: 'Current rentals continue either way' }),
        draining: z.boolean().optional().describe('If true, it accepts no new tenants. Current rentals continue'),
        pricePerGpuHourUsd: priceUsd.optional().meta({
          title: 'Price per GPU-hour',
          description: "For the operator's own marketplace machines; current rentals keep their price",
        }),
        gpusSick: z
          .array(z.int().min(0).max(63))
          .max(64)
          .optional()
          .meta({ title: 'GPUs withdrawn from sale', description: 'Their numbers, from 0', examples: [[0, 3]] }),
        reason: reasonText,
      })
      .meta({ id: 'ChangeMachine' }),
    response: operatedMachine,
  }),
  listAllRentals: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/rentals',
    summary: 'List rentals of all accounts; `stuck=true` lists only stuck rentals',
    errors: [400, 401, 403, 500],
    query: pageQuery.extend({
      q: searchText.describe('Part of the name or label, or the id'),
      stuck: z.stringbool().optional(),
      status: rentalState.optional(),
      accountId: z.string().max(50).optional(),
    }),
    response: z.object({
      rentals: z.array(
        z.object({
          id: z.number(),
          accountId: z.string(),
          accountName: z.string(),
          kind: z.enum(['virtual-machine', 'bare-metal', 'container']),
          name: z.string(),
          driver: z.string(),
          region: z.string(),
          gpuCount: z.number(),
          status: rentalState,
          statusReason: z.string().nullable(),
          statusSince: timestamp,
          stuckSince: timestamp.nullable(),
          externalId: z.string().nullable(),
          attempts: z.number(),
          ...lastErrorFields,
        }),
      ),
      nextCursor: z.string().nullable(),
    }),
  }),
}
