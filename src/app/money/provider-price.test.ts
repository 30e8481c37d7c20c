/** Each offer is sold at the price of its own account's rule, and below its cost only if the operator allows it. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { usd, type NanoUsd } from '../../base/money.ts'
import type { Demand } from '../../domain/placement.ts'
import { transact } from '../../store/platform/database.ts'
import { saveInventory, type ReportedMachine } from '../../store/machine/machine.ts'
import { listPlaceable } from '../../store/machine/placement.ts'
import { saveGpuPrices } from '../../store/machine/price.ts'
import { insertProviderAccount, type ProviderRules } from '../../store/provider/provider-account.ts'
import { listOfferSales } from '../../store/provider/provider-offer.ts'
import { listOptionRows } from '../../store/machine/rental-option.ts'
import { applyPriceRules, defaultRules } from '../supply/provider.ts'

const key = { region: 'us-east-1', gpuType: 'h100', networkType: 'ethernet' } as const

let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())
beforeEach(async () => {
  const { db } = ledger.database
  await db.deleteFrom('machine').execute()
  await db.deleteFrom('gpu_price').execute()
  await db.deleteFrom('provider_account').execute()
})

interface Account {
  readonly cost: NanoUsd
  readonly rules: Partial<ProviderRules>
  readonly isSoldOut?: boolean
}

/** One account and one machine of 8 GPUs each, and an inventory of them. */
async function offer(accounts: Readonly<Record<string, Account>>): Promise<void> {
  await transact(ledger.database, async (tx) => {
    for (const [name, { rules }] of Object.entries(accounts)) {
      const common = { id: `prv_${name}`, driver: 'lambda', base_url: 'https://example.com' } as const
      await insertProviderAccount(tx, { ...common, name, credentials_sealed: '', ...defaultRules, ...rules })
    }
  })
  await takeInventory(accounts)
}

async function takeInventory(accounts: Readonly<Record<string, Account>>): Promise<void> {
  const machines = Object.entries(accounts).map(([name, { cost, rules, isSoldOut = false }]): ReportedMachine => ({
    id: `${name}-1`,
    clusterName: name,
    ...key,
    offering: 'virtual-machine',
    supplierId: null,
    gpuModel: 'NVIDIA H100',
    gpuRamMib: 81_920,
    gpuFormFactor: 'sxm5',
    ethernetVariant: null,
    gpusTotal: 8,
    // A machine without a healthy GPU has none to rent, like one that is rented.
    gpusSick: isSoldOut ? [0, 1, 2, 3, 4, 5, 6, 7] : [],
    price: null,
    hasPersistentStorage: false,
    hardware: { cpuModel: 'x', cpuCores: 8, virtualCores: 16, ramGb: 64, storageGb: 1_000 } as never,
    simulation: null,
    offerId: `lambda:${name}:h100`,
    soldWhole: true,
    cost,
    sellsBelowCost: rules.sells_below_cost ?? false,
  }))
  await transact(ledger.database, async (tx) => {
    await saveInventory(tx, 'lambda', machines, tx.clock.now())
    await applyPriceRules(tx)
  })
}

/** The price that customers see, and the accounts that an order at this price may be placed at. */
async function onSale(): Promise<{ price: NanoUsd | undefined; available: number; at: string[] }> {
  const { db } = ledger.database
  const [option] = await listOptionRows(db)
  const pays = option?.nano_per_gpu_hour ?? null
  const order = { machineType: 'virtual-machine', gpuCount: 8, machineGpus: null, diskGb: null } as const
  const demand: Demand = { ...order, ...key, pays }
  const placeable = await listPlaceable(db, demand, ['lambda'], {})
  return {
    price: pays ?? undefined,
    available: option?.available ?? 0,
    at: placeable.map((one) => one.clusterName).sort(),
  }
}

test('the dearer account is not sold at the price of the cheaper one, and goes on sale when that is sold out', async () => {
  const cheap = { cost: usd('1'), rules: { markup_bp: 1_000 } }
  const dear = { cost: usd('2'), rules: { markup_bp: 5_000 } }
  await offer({ cheap, dear })
  expect(await onSale()).toEqual({ price: usd('1.1'), available: 1, at: ['cheap'] })
  expect((await listOfferSales(ledger.database.db, 'dear')).get('lambda:dear:h100')?.price).toBe(usd('24'))
  await takeInventory({ cheap: { ...cheap, isSoldOut: true }, dear })
  expect(await onSale()).toEqual({ price: usd('3'), available: 1, at: ['dear'] })
  await takeInventory({ cheap, dear })
  expect(await onSale()).toEqual({ price: usd('1.1'), available: 1, at: ['cheap'] })
})

test('neither cost alone nor leave to sell below cost makes an account sell below its own rule', async () => {
  await offer({
    cheap: { cost: usd('1'), rules: { fixed_nano_per_gpu_hour: usd('1.2') } },
    // Its cost is covered, its floor is not.
    floored: { cost: usd('1'), rules: { markup_bp: 0, floor_nano_per_gpu_hour: usd('1.5') } },
    // It may lose 50 cents per hour, and no more.
    subsidised: { cost: usd('3'), rules: { fixed_nano_per_gpu_hour: usd('2.5'), sells_below_cost: true } },
  })
  expect(await onSale()).toEqual({ price: usd('1.2'), available: 1, at: ['cheap'] })
})

test('a fixed price below cost is raised to the cost, and lowered only for an account that may sell below it', async () => {
  const rules = { fixed_nano_per_gpu_hour: usd('1.5') }
  await offer({ main: { cost: usd('2'), rules } })
  expect(await onSale()).toEqual({ price: usd('2'), available: 1, at: ['main'] })
  await offer({ other: { cost: usd('2'), rules: { ...rules, sells_below_cost: true } } })
  expect(await onSale()).toEqual({ price: usd('1.5'), available: 1, at: ['other'] })
})

test('a price of the operator applies to the offers of all accounts whose cost it covers, from the same moment', async () => {
  await offer({
    cheap: { cost: usd('1'), rules: { markup_bp: 1_000 } },
    dear: { cost: usd('2'), rules: { markup_bp: 5_000 } },
    dearest: { cost: usd('4'), rules: { markup_bp: 0 } },
  })
  const { region, gpuType: gpu_type, networkType: network_type } = key
  const price = {
    machine_type: 'virtual-machine',
    region,
    gpu_type,
    network_type,
    gpu_count: 8,
    enabled: true,
  } as const
  await transact(ledger.database, (tx) => saveGpuPrices(tx, [{ ...price, nano_per_gpu_hour: usd('2.2') }]))
  expect(await onSale()).toEqual({ price: usd('2.2'), available: 2, at: ['cheap', 'dear'] })
  await transact(ledger.database, applyPriceRules)
  expect(await onSale()).toEqual({ price: usd('2.2'), available: 2, at: ['cheap', 'dear'] })
})
