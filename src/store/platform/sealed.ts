/** All sealed columns, page by page, to seal them under another key. */
import { sql } from 'kysely'
import type { Db } from './database.ts'

export interface SealedTable {
  readonly name: string
  /** Its primary key with types, in the order of an index. */
  readonly key: ReadonlyArray<readonly [column: string, type: 'text' | 'integer' | 'bytea']>
  readonly columns: readonly string[]
}

/** These are all but `installation.key_check`, which changes last. */
export const sealedTables: readonly SealedTable[] = [
  {
    name: 'secret',
    key: [
      ['account_id', 'text'],
      ['name', 'text'],
    ],
    columns: ['sealed'],
  },
  { name: 'registry_credential', key: [['id', 'text']], columns: ['sealed'] },
  { name: 'webhook', key: [['id', 'text']], columns: ['secret_sealed', 'old_secret_sealed'] },
  { name: 'deployment', key: [['id', 'text']], columns: ['key_sealed'] },
  { name: 'provider_account', key: [['id', 'text']], columns: ['credentials_sealed'] },
  { name: 'identity_provider', key: [['id', 'text']], columns: ['client_secret_sealed'] },
  // Those of sign-ins and devices live for ten minutes, in which a server may get another key.
  { name: 'sign_in', key: [['state_hash', 'bytea']], columns: ['sealed'] },
  { name: 'email_code', key: [['id', 'text']], columns: ['identity_sealed'] },
  { name: 'device_login', key: [['device_code_hash', 'bytea']], columns: ['key_sealed'] },
  { name: 'oauth_grant', key: [['code_hash', 'bytea']], columns: ['key_sealed'] },
  { name: 'mail', key: [['id', 'text']], columns: ['data_sealed'] },
  { name: 'payout_account', key: [['account_id', 'text']], columns: ['details_sealed'] },
  { name: 'payout', key: [['id', 'text']], columns: ['details_sealed'] },
  { name: 'replica', key: [['id', 'text']], columns: ['key_sealed'] },
  { name: 'host', key: [['id', 'text']], columns: ['access'] },
  {
    name: 'idempotency',
    key: [
      ['account_id', 'text'],
      ['key', 'text'],
    ],
    columns: ['response_sealed'],
  },
  { name: 'response', key: [['id', 'text']], columns: ['key_sealed'] },
  { name: 'batch', key: [['id', 'text']], columns: ['key_sealed'] },
  { name: 'file', key: [['id', 'text']], columns: ['key_sealed'] },
  { name: 'rental_log', key: [['rental_id', 'integer']], columns: ['sealed'] },
  {
    name: 'request_body',
    key: [['request_id', 'text']],
    columns: ['request', 'response'],
  },
]

export interface SealedRow {
  readonly key: readonly string[]
  /** The values are in the order of the table's columns. */
  readonly values: ReadonlyArray<string | null>
}

/** Lists rows with a sealed value, in the order of the key. */
export async function listSealed(
  db: Db,
  { name, key, columns }: SealedTable,
  page: { readonly after: readonly string[] | undefined; readonly limit: number },
): Promise<SealedRow[]> {
  const keyRefs = sql.join(key.map(([column]) => sql.ref(column)))
  const keyTexts = sql.join(key.map(([column]) => sql`${sql.ref(column)}::text`))
  const hasValue = sql.join(
    columns.map((column) => sql`${sql.ref(column)} is not null`),
    sql` or `,
  )
  const { after } = page
  const isAfter =
    after === undefined
      ? sql`true`
      : sql`(${keyRefs}) > (${sql.join(key.map(([, type], at) => sql`${after[at]}::${sql.raw(type)}`))})`
  const { rows } = await sql<SealedRow>`
    select array[${keyTexts}] as key, array[${sql.join(columns.map((column) => sql.ref(column)))}] as values
    from ${sql.table(name)} where (${hasValue}) and ${isAfter} order by ${keyRefs} limit ${page.limit}`.execute(db)
  return rows
}

/** false: the row has changed or is gone. */
export async function replaceSealed(
  db: Db,
  { name, key, columns }: SealedTable,
  row: SealedRow,
  values: SealedRow['values'],
): Promise<boolean> {
  const sets = sql.join(columns.map((column, at) => sql`${sql.ref(column)} = ${values[at]}`))
  const isRow = sql.join(
    [
      ...key.map(([column, type], at) => sql`${sql.ref(column)} = ${row.key[at]}::${sql.raw(type)}`),
      ...columns.map((column, at) => sql`${sql.ref(column)} is not distinct from ${row.values[at]}::text`),
    ],
    sql` and `,
  )
  const { numAffectedRows } = await sql`update ${sql.table(name)} set ${sets} where ${isRow}`.execute(db)
  return numAffectedRows === 1n
}
