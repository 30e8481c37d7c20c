/** SSH keys, which are installed on new machines of the account. */
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { quotaExceeded, quotaOf } from '../../domain/quota.ts'
import { parseSshPublicKey } from '../../domain/ssh-key.ts'
import { lockAccount } from '../../store/account/account.ts'
import type { Tx } from '../../store/platform/database.ts'
import * as store from '../../store/account/ssh-key.ts'
import type { Actor } from '../app.ts'

export async function addSshKey(
  tx: Tx,
  actor: Actor,
  input: { name: string; publicKey: string },
): Promise<Result<store.SshKey>> {
  const publicKey = parseSshPublicKey(input.publicKey)
  if (publicKey === undefined) {
    return failField(['publicKey'], 'bad_ssh_key')
  }
  const account = await lockAccount(tx, actor.accountId)
  if (account === undefined) return fail('account_not_found')
  const quota = quotaOf(account.quota)
  const held = await store.countSshKeys(tx.db, account.id)
  const key = await store.insertSshKey(tx, { accountId: account.id, name: input.name, publicKey })
  if (key === undefined) {
    return fail('ssh_key_exists')
  }
  // After the check for duplicates, which is the better error for a repeated request; the failure rolls the insert back.
  return held >= quota.sshKeys ? quotaExceeded('sshKeys', quota) : ok(key)
}

/** Running machines keep it. */
export async function deleteSshKey(tx: Tx, actor: Actor, id: string): Promise<Result<string>> {
  const deleted = await store.deleteSshKey(tx, actor.accountId, id)
  return deleted ? ok(id) : fail('ssh_key_not_found')
}
