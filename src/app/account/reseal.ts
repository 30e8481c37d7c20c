/**
 * Seals everything under the current secret key, page by page. A page that is done again changes nothing, so it can stop
 * and continue at any time. The key check of the installation changes last: before that, servers without the older key
 * do not start.
 */
import { fail, ok, type Result } from '../../contract/result.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { readKeyCheck, writeKeyCheck } from '../../store/platform/installation.ts'
import {
  listSealed,
  replaceSealed,
  sealedTables,
  type SealedRow,
  type SealedTable,
} from '../../store/platform/sealed.ts'
import type { Actor, App } from '../app.ts'

export interface ResealPage {
  readonly checked: number
  readonly resealed: number
  /** Rows that neither key opens, such as `webhook wh_1`. They stay as they are. */
  readonly unreadable: readonly string[]
  /** undefined: everything is done. */
  readonly next: ResealCursor | undefined
}

/** The table, and the key of the last row before. */
export type ResealCursor = readonly [table: string, ...key: string[]]

export function resealPage(
  app: Pick<App, 'database' | 'vault'>,
  actor: Actor,
  { cursor, limit }: { readonly cursor: ResealCursor | undefined; readonly limit: number },
): Promise<Result<ResealPage>> {
  return transact(app.database, async (tx) => {
    const [name, ...after] = cursor ?? [sealedTables[0]?.name ?? '']
    const at = sealedTables.findIndex((one) => one.name === name)
    const table = sealedTables[at]
    if (table === undefined || !isKeyOf(table, after)) return fail('bad_cursor')
    const rows = await listSealed(tx.db, table, { after: after.length === 0 ? undefined : after, limit })
    let resealed = 0
    const unreadable: string[] = []
    for (const row of rows) {
      const values = resealRow(app, row)
      if (values === 'unreadable') unreadable.push([name, ...row.key].join(' '))
      else if (values !== undefined && (await replaceSealed(tx.db, table, row, values))) resealed += 1
    }
    const last = rows.length < limit ? undefined : rows.at(-1)
    const following = sealedTables[at + 1]
    const next: ResealCursor | undefined =
      last !== undefined ? [table.name, ...last.key] : following === undefined ? undefined : [following.name]
    if (next === undefined) await finish(app, tx, actor)
    return ok({ checked: rows.length, resealed, unreadable, next })
  })
}

const keyTexts = {
  text: /^[^\0]*$/s,
  integer: /^\d{1,9}$/,
  bytea: /^\\x([0-9a-f]{2}){1,64}$/,
  timestamptz: /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?[+-]\d\d(:\d\d)?$/,
}

/** Empty: from the first row. */
function isKeyOf({ key }: SealedTable, values: readonly string[]): boolean {
  if (values.length === 0) return true
  return values.length === key.length && key.every(([, type], at) => keyTexts[type].test(values[at] ?? ''))
}

/** undefined: all of it is under the current key already. */
function resealRow(
  { vault }: Pick<App, 'vault'>,
  { values }: SealedRow,
): SealedRow['values'] | undefined | 'unreadable' {
  try {
    const renewed = values.map((value) => (value === null ? undefined : vault.reseal(value)))
    return renewed.every((one) => one === undefined) ? undefined : values.map((value, at) => renewed[at] ?? value)
  } catch {
    return 'unreadable'
  }
}

async function finish({ vault }: Pick<App, 'vault'>, tx: Tx, actor: Actor): Promise<void> {
  const check = await readKeyCheck(tx.db)
  const renewed = check === null ? undefined : vault.reseal(check)
  if (renewed === undefined) return
  await writeKeyCheck(tx.db, renewed)
  await writeAudit(tx, { actor: actor.keyId, action: 'secret_key.change' })
}
