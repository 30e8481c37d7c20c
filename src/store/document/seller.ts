/** The operator's company and its tax rates. */
import type { Selectable } from 'kysely'
import { toDate } from '../../base/instant.ts'
import type { TaxRate } from '../../domain/tax.ts'
import type { PostalAddress } from '../../domain/document.ts'
import type { Db, Tx } from '../platform/database.ts'
import type { Tables } from '../platform/tables.ts'

export type Seller = Selectable<Tables['seller']>

export interface NewSeller {
  readonly name: string
  readonly address: PostalAddress
  readonly taxId: string | null
  readonly email: string | null
  readonly footer: string | null
  readonly taxBy: Seller['tax_by']
}

/** undefined: the operator has not said who sells. */
export async function findSeller(db: Db): Promise<Seller | undefined> {
  return db.selectFrom('seller').selectAll().executeTakeFirst()
}

export async function saveSeller(tx: Tx, { name, address, taxId, email, footer, taxBy }: NewSeller): Promise<void> {
  const row = {
    name,
    ...addressColumns(address),
    tax_id: taxId,
    email,
    footer,
    tax_by: taxBy,
    updated_at: toDate(tx.clock.now()),
  }
  await tx.db
    .insertInto('seller')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
    .execute()
}

export async function listTaxRates(db: Db): Promise<TaxRate[]> {
  const rows = await db.selectFrom('tax_rate').selectAll().orderBy('country').execute()
  return rows.map(({ country, name, percent_milli: percentMilli }) => ({ country, name, percentMilli }))
}

export async function saveTaxRate(tx: Tx, { country, name, percentMilli }: TaxRate): Promise<void> {
  const row = { country, name, percent_milli: percentMilli, updated_at: toDate(tx.clock.now()) }
  await tx.db
    .insertInto('tax_rate')
    .values(row)
    .onConflict((conflict) => conflict.column('country').doUpdateSet(row))
    .execute()
}

/** False: there is none. */
export async function deleteTaxRate(tx: Tx, country: string): Promise<boolean> {
  const { numDeletedRows } = await tx.db.deleteFrom('tax_rate').where('country', '=', country).executeTakeFirst()
  return numDeletedRows > 0n
}

export function addressColumns({ line1, line2, postalCode, city, state, country }: PostalAddress) {
  return { line1, line2, postal_code: postalCode, city, state, country }
}

type AddressRow = Pick<Seller, 'line1' | 'line2' | 'postal_code' | 'city' | 'state' | 'country'>

export function addressOf({ line1, line2, postal_code: postalCode, city, state, country }: AddressRow): PostalAddress {
  return { line1, line2, postalCode, city, state, country }
}
