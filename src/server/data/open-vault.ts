/**
 * The vault, and the check that this server has the same secret key as the others on this database. The key comes from
 * the settings or from the data folder. While it changes, the older one can still open what it has sealed.
 */
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import type { Logger } from 'pino'
import type { Clock } from '../../base/instant.ts'
import { makeVault, type Vault } from '../../base/vault.ts'
import type { Database } from '../../store/platform/database.ts'
import { readOrCreateInstallation } from '../../store/platform/installation.ts'
import { readOrCreateSecret, readPrivateFile, writePrivateFile } from './data-folder.ts'
import { SettingsError, type Settings } from '../settings.ts'

export interface VaultOptions {
  readonly database: Database
  readonly clock: Clock
  readonly settings: Pick<Settings, 'secretKey' | 'otherSecretKeys'>
  readonly dataDir: string
  /** Makes another key in the data folder first. */
  readonly newSecretKey: boolean
  readonly log: Logger
}

const KEY_FILE = 'secret.key'
const OLD_KEY_FILE = 'secret.key.old'

export async function openVault(options: VaultOptions): Promise<{ vault: Vault; installationId: string }> {
  const { database, clock, settings, dataDir, log } = options
  if (options.newSecretKey) changeKeyFile(settings, dataDir)
  const secret = settings.secretKey ?? readOrCreateSecret(dataDir, KEY_FILE, makeSecret)
  const oldSecret = settings.secretKey === undefined ? readPrivateFile(dataDir, OLD_KEY_FILE) : undefined
  const others = [...settings.otherSecretKeys, ...(oldSecret === undefined ? [] : [oldSecret])]
  const vault = makeVault(secret, others)
  const installation = await readOrCreateInstallation(database.db, () => ({
    id: randomBytes(5).toString('hex'),
    keyCheck: vault.seal('berth'),
    createdAt: clock.now(),
  }))
  let isChanging = false
  try {
    if (installation.keyCheck !== null) isChanging = vault.reseal(installation.keyCheck) !== undefined
  } catch {
    throw new SettingsError(
      'BERTH_SECRET_KEY: this database was set up with another secret key. Use the same one on every server (the first server has it in secret.key in its data folder). While the key changes, the older one must be in BERTH_SECRET_KEY_OTHERS until berth operator reseal is done.',
    )
  }
  if (isChanging) log.warn('the secret key has changed; run berth operator reseal to stop using the older one')
  else if (oldSecret !== undefined) fs.rmSync(path.join(dataDir, OLD_KEY_FILE))
  return { vault, installationId: installation.id }
}

/** The older key is on disk before it is replaced. */
function changeKeyFile({ secretKey }: VaultOptions['settings'], dataDir: string): void {
  if (secretKey !== undefined)
    throw new SettingsError('--new-secret-key changes the key in the data folder, but BERTH_SECRET_KEY is set.')
  if (readPrivateFile(dataDir, OLD_KEY_FILE) !== undefined)
    throw new SettingsError(
      '--new-secret-key: the last change of the key is not done. Run berth operator reseal first.',
    )
  const current = readPrivateFile(dataDir, KEY_FILE)
  if (current === undefined) return
  writePrivateFile(dataDir, OLD_KEY_FILE, current)
  writePrivateFile(dataDir, KEY_FILE, makeSecret())
}

function makeSecret(): string {
  return randomBytes(32).toString('base64url')
}
