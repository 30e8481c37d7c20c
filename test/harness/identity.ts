/** An app on its own database, with accounts and a caller for each. */
import { openAccount } from '../../src/app/account/account.ts'
import type { Actor, App } from '../../src/app/app.ts'
import { firstScopes } from '../../src/app/account/operator-account.ts'
import { addMs } from '../../src/base/instant.ts'
import { usd, type NanoUsd } from '../../src/base/money.ts'
import { makeVault } from '../../src/base/vault.ts'
import type { Scope } from '../../src/contract/endpoint.ts'
import { manualClock, type ManualClock } from '../sim/clock.ts'
import { openDatabase, transact, type Database } from '../../src/store/platform/database.ts'
import { post } from '../../src/store/ledger/ledger.ts'
import { testDatabase } from './database.ts'

/** The secret key, and another that is accepted, as while the key changes. */
export const TEST_SECRETS = { own: 'a secret for tests', next: 'the next secret for tests' } as const

export interface IdentityTest {
  readonly app: App
  readonly database: Database
  readonly clock: ManualClock
  readonly url: string
  /** Wake-ups from committed transactions. */
  readonly woken: string[]
  close(): Promise<void>
}

export async function startIdentityTest(): Promise<IdentityTest> {
  const cloned = await testDatabase()
  const { url } = cloned
  const clock = manualClock()
  const database = openDatabase({ url, clock })
  const woken: string[] = []
  database.onCommit = (wake) => void woken.push(...wake)
  const app: App = {
    database,
    clock,
    installationId: 'test123',
    drivers: new Map(),
    vault: makeVault(TEST_SECRETS.own, [TEST_SECRETS.next]),
    stoppedDiskPerGbMonth: usd('0.10'),
    cpuPerHour: usd('0.02'),
    allowPrivateAddresses: false,
  }
  const close = async (): Promise<void> => {
    await database.close()
    await cloned.drop()
  }
  return { app, database, clock, url, woken, close }
}

export interface TestAccount {
  /** The owner, with the first key. */
  readonly actor: Actor
  readonly accountId: string
  readonly keyText: string
}

let opened = 0

export async function openTestAccount(
  test: IdentityTest,
  more: { scopes?: readonly Scope[]; platformFeeBp?: number | null; balance?: NanoUsd } = {},
): Promise<TestAccount> {
  opened += 1
  const { platformFeeBp = null, scopes = firstScopes(platformFeeBp !== null) } = more
  const made = await transact(test.database, (tx) =>
    openAccount(tx, {
      name: `Account ${opened}`,
      ownerEmail: `owner-${opened}@example.com`,
      ownerName: `Owner ${opened}`,
      scopes,
      platformFeeBp,
    }),
  )
  const accountId = made.account.id
  // Each account gets its own creation time, so that lists have a fixed order.
  test.clock.set(addMs(test.clock.now(), 1))
  if (more.balance !== undefined) await fund(test, accountId, more.balance)
  return {
    accountId,
    keyText: made.key.text,
    actor: { accountId, personId: made.personId, keyId: made.key.publicId, role: 'owner', scopes },
  }
}

async function fund({ database }: IdentityTest, accountId: string, amount: NanoUsd): Promise<void> {
  await transact(database, (tx) =>
    post(tx, {
      key: `fund:${accountId}`,
      kind: 'purchase',
      accountId,
      memo: 'Purchase',
      actor: 'test',
      reason: 'test',
      transfers: [{ from: { accountId: null, kind: 'funding' }, to: { accountId, kind: 'available' }, amount }],
    }),
  )
}

export function openOperator(test: IdentityTest): Promise<TestAccount> {
  return openTestAccount(test, { scopes: ['operator'], balance: usd('1') })
}
