/** Templates and their versions. */
import { sql } from 'kysely'
import { randomId } from '../../base/id.ts'
import { toDate, type Instant } from '../../base/instant.ts'
import { limits } from '../../base/limits.ts'
import { templateBody, type TemplateBody } from '../../contract/template.ts'
import type { Db, Tx } from '../platform/database.ts'
import { withDefaults } from '../platform/stored-json.ts'

export interface Template {
  readonly id: string
  /** null: a template of the operator. */
  readonly account_id: string | null
  readonly name: string
  readonly visibility: 'private' | 'link'
  readonly version: number
  readonly created_at: Instant
  readonly updated_at: Instant
  readonly body: TemplateBody
}

/** Lists the templates of the operator, then those of the account. */
export async function listTemplates(db: Db, accountId: string): Promise<Template[]> {
  const rows = await select(db)
    .whereRef('v.version', '=', 't.version')
    .where((where) => where.or([where('t.account_id', 'is', null), where('t.account_id', '=', accountId)]))
    .orderBy(sql`t.account_id is not null`)
    .orderBy('t.name')
    .orderBy('t.id')
    .limit(2 * limits.templatesPerAccount)
    .execute()
  return rows.map(complete)
}

/** The rentals of the account that have not ended, by the template that they were ordered with, of any version. */
export async function countTemplateUse(db: Db, accountId: string): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql<{ id: string; rentals: number }>`
    select split_part(spec -> 'workload' ->> 'templateId', '@', 1) as id, count(*)::integer as rentals
    from rental where account_id = ${accountId} and status <> 'Terminated' and spec -> 'workload' ->> 'templateId' is not null
    group by 1`.execute(db)
  return new Map(rows.map(({ id, rentals }) => [id, rentals]))
}

/** Returns the newest version if `version` is undefined. */
export async function findTemplate(db: Db, id: string, version?: number): Promise<Template | undefined> {
  const row = await select(db)
    .where('t.id', '=', id)
    .where('v.version', '=', version ?? sql<number>`t.version`)
    .executeTakeFirst()
  return row === undefined ? undefined : complete(row)
}

function complete(row: Template): Template {
  return { ...row, body: withDefaults(templateBody, row.body) }
}

function select(db: Db) {
  return db
    .selectFrom('template as t')
    .innerJoin('template_version as v', 'v.template_id', 't.id')
    .select(['t.id', 't.account_id', 't.name', 't.visibility', 'v.version', 't.created_at', 't.updated_at', 'v.body'])
}

/** `accountId` null: counts the templates of the operator. */
export async function countTemplates(db: Db, accountId: string | null): Promise<number> {
  const row = await db
    .selectFrom('template')
    .select(sql<number>`count(*)::integer`.as('templates'))
    .where('account_id', accountId === null ? 'is' : '=', accountId)
    .executeTakeFirstOrThrow()
  return row.templates
}

export async function insertTemplate(
  tx: Tx,
  template: Pick<Template, 'account_id' | 'name' | 'visibility' | 'body'>,
): Promise<string> {
  const { body, ...row } = template
  const id = randomId('tpl')
  const now = toDate(tx.clock.now())
  await tx.db
    .insertInto('template')
    .values({ id, ...row, created_at: now, updated_at: now })
    .execute()
  await insertVersion(tx, id, 1, body)
  return id
}

async function insertVersion(tx: Tx, id: string, version: number, body: TemplateBody): Promise<void> {
  await tx.db
    .insertInto('template_version')
    .values({ template_id: id, version, body: JSON.stringify(body), created_at: toDate(tx.clock.now()) })
    .execute()
}

export async function updateTemplate(
  tx: Tx,
  id: string,
  change: { readonly name: string; readonly visibility: 'private' | 'link'; readonly body: TemplateBody },
): Promise<void> {
  const { body, ...row } = change
  const { version } = await tx.db
    .updateTable('template')
    .set({ ...row, version: sql`version + 1`, updated_at: toDate(tx.clock.now()) })
    .where('id', '=', id)
    .returning('version')
    .executeTakeFirstOrThrow()
  await insertVersion(tx, id, version, body)
}

export async function deleteTemplate(tx: Tx, id: string): Promise<void> {
  await tx.db.deleteFrom('template').where('id', '=', id).execute()
}
