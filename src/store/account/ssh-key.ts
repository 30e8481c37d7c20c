/** SSH public keys of accounts. */
import { sql, type Selectable } from 'kysely'
import { randomId } from '../../base/id.ts'
import { toDate } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import type { SshPublicKey } from '../../domain/ssh-key.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type SshKey = Selectable<Tables['ssh_key']>

/** undefined: the account has a key with this fingerprint already. */
export async function insertSshKey(
  tx: Tx,
  key: { accountId: string; name: string; publicKey: SshPublicKey },
): Promise<SshKey | undefined> {
  return tx.db
    .insertInto('ssh_key')
    .values({
      id: randomId('ssh'),
      account_id: key.accountId,
      name: key.name,
      public_key: key.publicKey.text,
      fingerprint: key.publicKey.fingerprint,
      created_at: toDate(tx.clock.now()),
    })
    .onConflict((conflict) => conflict.columns(['account_id', 'fingerprint']).doNothing())
    .returningAll()
    .executeTakeFirst()
}

export async function listSshKeys(db: Db, accountId: string): Promise<SshKey[]> {
  return db
    .selectFrom('ssh_key')
    .selectAll()
    .where('account_id', '=', accountId)
    .orderBy('created_at')
    .orderBy('id')
    .limit(limits.plainListRows)
    .execute()
}

export async function countSshKeys(db: Db, accountId: string): Promise<number> {
  const row = await db
    .selectFrom('ssh_key')
    .select(sql<number>`count(*)::integer`.as('keys'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  return row.keys
}

/** False: the account has no such key. */
export async function deleteSshKey(tx: Tx, accountId: string, id: string): Promise<boolean> {
  const result = await tx.db
    .deleteFrom('ssh_key')
    .where('account_id', '=', accountId)
    .where('id', '=', id)
    .executeTakeFirst()
  return result.numDeletedRows > 0n
}
